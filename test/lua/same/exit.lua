-- The script closes the state; in Lua 5.2 and later also from a coroutine.
local object = dofile((arg[0]:gsub("[^/]*$", "../object.lua")))
for i = 1, 5 do _G["u" .. i] = object(function() print("finalized", i) end) end
io.stdout:setvbuf("full")
coroutine.wrap(function() print("leaving") os.exit(3, true) end)()
