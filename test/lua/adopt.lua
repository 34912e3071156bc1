-- An unmodified interpreter adopts a heap of its own while megabytes are live.   adopt.lua CPATH
package.cpath = arg[1]
local glebe = require "glebe"
assert(glebe.stats() == nil and glebe.trim() == 0)
local done, why = glebe.limit(1)
assert(not done and why:find("adopt"))
assert(not pcall(glebe.adopt, -1) and not pcall(glebe.limit) and not pcall(glebe.limit, "x") and glebe.stats() == nil)
assert(not pcall(glebe.limit, 0.5) and not pcall(glebe.adopt, 1e6 + 0.5))

local kept = {}
for i = 1, 60000 do kept[i] = {i, tostring(i)} end
local before = collectgarbage("count") * 1024
local co = coroutine.wrap(function(...) while true do coroutine.yield({...}, ("x"):rep(1000)) end end)
co(1, 2)

done, why = glebe.adopt(24 * 1024 * 1024)
if rawget(_G, "jit") then
  assert(not done and why:find("LuaJIT") and glebe.stats() == nil)
  print("no")
  return
end
assert(done, why)
assert(not glebe.adopt())

local function same_sum(what)
  local s, count = glebe.stats(), collectgarbage("count") * 1024
  assert(math.abs(s.live + s.foreign - count) < 4096, what)
  assert(s.live <= s.peak and s.peak <= s.limit and s.held <= s.limit)
  return s
end
local first = same_sum("at first")
assert(first.foreign > before * 0.9 and first.live < 65536)
for i = 1, 30000 do kept[i] = {} end
for i = 60001, 200000 do kept[i] = i end  -- the table itself is resized, and moves
collectgarbage()
local second = same_sum("after a collection")
assert(second.foreign < first.foreign * 0.6 and second.live > 600000)
for i = 30001, 60000 do assert(kept[i][2] == tostring(i)) end
local list, text = co()
assert(#list == 2 and #text == 1000)

local function fill() local t = {} for i = 1, 1e8 do t[i] = {i, tostring(i)} end end
for _ = 1, 2 do
  local ok, message = pcall(fill)
  assert(not ok and message == "not enough memory", message)
  collectgarbage()
end
assert(same_sum("after memory ended").refusals >= 2)
assert(glebe.trim() > 600000)
assert(glebe.limit(glebe.stats().held + 600000) and not glebe.limit(1))
assert(glebe.limit(0) and glebe.stats().limit == 0)
setmetatable({}, {__gc = function() io.write("finalized\n") end})
kept.proxy = newproxy and newproxy(true)
print("yes")
