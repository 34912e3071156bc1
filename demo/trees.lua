-- Small objects by the million: builds words, counts them in tables, keeps some and drops most. Deterministic.

local seed = 42
local function random(n)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 65536 % n
end

local function tree(depth)
  if depth == 0 then return {} end
  return { tree(depth - 1), tree(depth - 1) }
end

local function size(node)
  return node[1] and 1 + size(node[1]) + size(node[2]) or 1
end

local keep, nodes = {}, 0
for round = 1, 72 do
  nodes = nodes + size(tree(13))
  local words = {}
  for _ = 1, 10000 do
    local word = ("w%d"):format(random(5000)):rep(1 + random(4))
    words[word] = (words[word] or 0) + 1
  end
  keep[round % 6 + 1] = words
end

local distinct = 0
for _, words in ipairs(keep) do
  for _ in pairs(words) do distinct = distinct + 1 end
end
print(("%d nodes, %d words"):format(nodes, distinct))
