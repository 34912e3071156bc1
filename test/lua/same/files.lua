-- Closing the state flushes all files: arg[1] is a folder.
local folder = arg[1]
kept = {}
for i = 1, 20 do
  kept[i] = assert(io.open(folder .. "/file" .. i, "w"))
  kept[i]:setvbuf("full", 65536)
  kept[i]:write("line ", i, "\n", ("x"):rep(i * 100), "\n")
end
pipe = assert(io.popen("cat >'" .. folder .. "/pipe'", "w"))
pipe:write(("through a pipe\n"):rep(100))
io.output(folder .. "/output")
io.write("the standard output's")
temporary = io.tmpfile()
temporary:write("gone")
for line in io.lines(arg[0]) do first = line break end
print(first)
