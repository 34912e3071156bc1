-- Finalizers at closing: their order, errors of every kind, resurrection, new objects, collections, coroutines and
-- variables to be closed.
if warn then warn("@on") warn("one ", "and ", "another") warn("@off") warn("not this") warn("@on") end
local object = dofile((arg[0]:gsub("[^/]*$", "../object.lua")))
kept = {}
for i = 1, 20 do kept[i] = object(function() print("in order", i) end) end
kept.text = object(function() error("text") end)
kept.none = object(function() error() end)
kept.table = object(function() error({}) end)
kept.resurrected = object(function(u) again = u print("resurrected") end)
kept.weak = setmetatable({object(function() print("weak") end)}, {__mode = "v"})
kept.maker = object(function()
  for i = 1, 10 do made = object(function() print("made while closing", i) end) end
end)
kept.big = object(function()
  local t = {}
  for i = 1, 20000 do t[i] = {i, tostring(i)} end
  print("big", #t, t[777][2])
end)
kept.collects = object(function() collectgarbage() print("collected") end)
kept.steps = object(function() for _ = 1, 50 do collectgarbage("step") end print("stepped") end)
kept.deep = object(function()
  local function down(n) return n == 0 and 0 or 1 + down(n - 1) end
  print("deep", down(5000), pcall(function() local function f() return 1 + f() end return f() end))
end)
kept.strings = object(function()
  local s = {}
  for i = 1, 2000 do s[#s + 1] = ("%d "):format(i):rep(10) end
  print("strings", #table.concat(s))
end)
kept.coroutine = object(function()
  local co = coroutine.wrap(function() for i = 1, 100 do coroutine.yield({i}) end end)
  for _ = 1, 50 do co() end
  print("coroutine", co()[1])
end)
for i = 1, 50 do
  local u = object(function() print("of a coroutine", i) end)
  kept["co" .. i] = coroutine.wrap(function() local held = u coroutine.yield() return held end)
  kept["co" .. i]()
end
if _VERSION == "Lua 5.4" then
  assert(load([[
    co = coroutine.create(function()
      local x <close> = setmetatable({}, {__close = function() print("never") end})
      coroutine.yield()
    end)
    coroutine.resume(co)
  ]]))()
end
collectgarbage()
print("end")
