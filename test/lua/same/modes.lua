-- Collections of each kind while objects are made and dropped, with errors, strings, coroutines and growing tables.
local live, sum = {}, 0
local function churn(rounds)
  for i = 1, rounds do
    local k = i * 7919 % 1000
    live[k] = {k, tostring(i), next = live[(k + 1) % 1000], f = function() return i end}
    if i % 100 == 0 then
      local t = {}
      for j = 1, i % 3000 do t[j] = j end
      live[k].t = t
    end
    if i % 1000 == 0 then
      local co = coroutine.wrap(function(...) for j = 1, 10 do coroutine.yield({j, ...}) end end)
      co(1, 2, 3)
      live[k].co = co
      sum = sum + #co()
    end
    sum = (sum + live[k].f()) % 1000003
    live[k].next = nil
  end
end
churn(20000)
print(sum)
if _VERSION == "Lua 5.4" then
  print(collectgarbage("generational") ~= nil) churn(20000) collectgarbage("step") churn(20000)
  print(collectgarbage("incremental") ~= nil) churn(20000)
  collectgarbage("generational") churn(20000) collectgarbage() churn(1000)
end
print(sum)
collectgarbage("stop") churn(5000) collectgarbage("restart") churn(5000) collectgarbage("setpause", 100) churn(5000)
collectgarbage("setstepmul", 1000) churn(5000)
print(sum)
print(pcall(string.rep, "x", -1))
print((select(2, pcall(error, {code = 7}))).code)
print(pcall(function() local function f() return 1 + f() end return f() end))
print(#string.format("%s", ("x"):rep(100000)), (("abc"):rep(1000):gsub("b", function() return ("z"):rep(50) end)):len())
local keys = setmetatable({}, {__mode = "k"})
for i = 1, 1000 do keys[{}] = i end
collectgarbage() collectgarbage()
print(next(keys))
local cyclic = setmetatable({}, {__mode = "k"})
do local a, b = {}, {} cyclic[a] = b cyclic[b] = a end
collectgarbage() collectgarbage()
print(next(cyclic) and "there" or "gone")
-- close the state in generational mode
if _VERSION == "Lua 5.4" then collectgarbage("generational") churn(3000) end
kept = live
