-- Tables that grow: arrays by appending, maps by new keys. Nearly all of the
-- allocator's work is realloc and blocks of doubling size.   tables.lua N
local n = tonumber(arg[1])
local sum, keep = 0, {}
for i = 1, n do
  local array, map = {}, {}
  for k = 1, 3000 + i % 1000 do array[#array + 1] = k * i end
  for k = 1, 800 + i % 300 do map["k" .. (k * 37 + i) % 5000] = k end
  for _ in pairs(map) do sum = sum + 1 end
  sum = sum + #array
  keep[i % 40 + 1] = {array, map}
end
print(sum, #keep)
