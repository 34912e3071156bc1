-- Binary trees: many small tables, born and dying in bulk.   trees.lua DEPTH
local depth = tonumber(arg[1])

local function grow(d)
  if d == 0 then return {} end
  return {grow(d - 1), grow(d - 1)}
end

local function count(tree)
  if not tree[1] then return 1 end
  return 1 + count(tree[1]) + count(tree[2])
end

local long_lived = grow(depth)
local total = 0
for d = 4, depth, 2 do
  for _ = 1, 1 << (depth - d + 2) do total = total + count(grow(d)) end
end
print(total, count(long_lived))
