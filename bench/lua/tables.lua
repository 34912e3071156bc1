-- Tables that grow, as arrays and by keys, from a few entries to over a hundred thousand; some live on.
-- tables.lua ROUNDS
local rounds = tonumber(arg[1])
local sum, kept = 0, {}

local function array(n)
  local t = {}
  for i = 1, n do t[i] = i end
  return t
end

local function map(n)
  local t = {}
  for i = 1, n do t[i * 7919 + 0.5] = i end
  return t
end

for round = 1, rounds do
  for i = 1, 200 do kept[i] = array(i % 40 + 1) end
  for i = 201, 260 do kept[i] = map(i % 60 + 1) end
  for i = 261, 264 do kept[i] = array(i * round % 7000) end
  kept[265 + round % 8] = map(round * 31 % 3000)
  if round % 16 == 0 then sum = sum + #array(100000 + round) end
  if round % 64 == 0 then kept[300] = map(40000) end
  sum = sum + #kept[round % 200 + 1]
end
print(sum)
