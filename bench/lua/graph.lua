-- Object graphs: nodes that refer to each other in cycles, some with a finalizer; edges are added and removed, and
-- reachability changes with them.
-- Closing the state frees the live nodes.   graph.lua ROUNDS NODES
local rounds, count = tonumber(arg[1]), tonumber(arg[2] or 20000)
local finalized, kept = 0, {}
local Node = {__gc = function() finalized = finalized + 1 end}
Node.__index = Node

local seed = 42
local function below(n)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 65536 % n + 1
end

local function node(i)
  local n = {id = i, edges = {}, name = "node " .. i % 1000}
  if i % 8 == 0 then setmetatable(n, Node) end
  return n
end

for i = 1, count do kept[i] = node(i) end
local sum = 0
for round = 1, rounds do
  for i = 1, count do
    local a, b = kept[below(count)], kept[below(count)]
    a.edges[#a.edges % 6 + 1] = b
    if i % 4 == 0 then kept[below(count)] = node(round * count + i) end
  end
  -- a walk along first edges
  local at = kept[below(count)]
  for _ = 1, 1000 do
    sum = (sum + at.id) % 1000000007
    at = at.edges[1] or kept[below(count)]
  end
end
collectgarbage()
print(sum, finalized > 0)
