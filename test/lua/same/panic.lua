-- An error outside any protected call.
io.stdout:setvbuf("line")
print("before")
error("nobody catches this")
