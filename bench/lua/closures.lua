-- Closures: counters with shared upvalues, chains of composed functions, iterators, coroutines.   closures.lua ROUNDS
local rounds = tonumber(arg[1])

local function counter()
  local n = 0
  return function(by) n = n + by return n end, function() return n end
end

local function compose(f, g) return function(x) return f(g(x)) end end
local function adder(k) return function(x) return x + k end end

local function filter(list, keep)
  local i = 0
  return function()
    repeat i = i + 1 until not list[i] or keep(list[i])
    return list[i]
  end
end

local list, sum, pending = {}, 0, {}
for i = 1, 50 do list[i] = i end
for round = 1, rounds do
  local add, get = counter()
  local f = adder(round)
  for k = 1, 20 do f = compose(f, adder(k)) end
  add(f(1))
  for v in filter(list, function(v) return (v + round) % 3 == 0 end) do add(v) end
  if round % 10 == 0 then
    local co = coroutine.wrap(function(a) while true do a = coroutine.yield(a + get()) end end)
    sum = sum + co(1)
  end
  pending[round % 5000 + 1] = get  -- outlives the round
  sum = (sum + get()) % 1000000007
end
print(sum)
