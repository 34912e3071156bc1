-- Strings: concatenation, substitution, splitting, joining.   strings.lua N
local n = tonumber(arg[1])
local words = {}
for i = 1, 2000 do words[i] = ("w"):rep(i % 23 + 1) .. i end

local sum = 0
for i = 1, n do
  local parts = {}
  for k = 1, 200 do parts[k] = words[(i * 31 + k * 7) % 2000 + 1] end
  local line = table.concat(parts, " ")
  local upper = line:gsub("%w+", function(w) return w .. ":" .. #w end)
  local text = ""
  for w in upper:gmatch("[^ ]+") do
    if #w % 5 == 0 then text = text .. w .. ";" end
  end
  sum = (sum + #upper + #text) % 1000000007
end
print(sum)
