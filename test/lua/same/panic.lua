-- Called without protection.
io.stdout:setvbuf("line")
print("before")
error("nobody catches this")
