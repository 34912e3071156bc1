-- A JSON writer and reader in plain Lua: a document of nested objects is
-- written to a string and read back, again and again.   json.lua N
local n = tonumber(arg[1])

local function write(value, out)
  local kind = type(value)
  if kind == "table" and #value > 0 then
    out[#out + 1] = "["
    for i, v in ipairs(value) do
      if i > 1 then out[#out + 1] = "," end
      write(v, out)
    end
    out[#out + 1] = "]"
  elseif kind == "table" then
    local keys = {}
    for k in pairs(value) do keys[#keys + 1] = k end
    table.sort(keys)
    out[#out + 1] = "{"
    for i, k in ipairs(keys) do
      if i > 1 then out[#out + 1] = "," end
      out[#out + 1] = '"' .. k .. '":'
      write(value[k], out)
    end
    out[#out + 1] = "}"
  elseif kind == "string" then
    out[#out + 1] = '"' .. value .. '"'
  else
    out[#out + 1] = tostring(value)
  end
end

local read
local function read_items(text, at, close, item)
  local list = {}
  while text:sub(at, at) ~= close do
    at = item(list, at)
    if text:sub(at, at) == "," then at = at + 1 end
  end
  return list, at + 1
end

function read(text, at)
  local c = text:sub(at, at)
  if c == "{" then
    return read_items(text, at + 1, "}", function(object, p)
      local key, after = text:match('^"([^"]*)":()', p)
      object[key], after = read(text, after)
      return after
    end)
  elseif c == "[" then
    return read_items(text, at + 1, "]", function(list, p)
      list[#list + 1], p = read(text, p)
      return p
    end)
  elseif c == '"' then
    return text:match('^"([^"]*)"()', at)
  end
  local number, after = text:match("^([%d.]+)()", at)
  return tonumber(number), after
end

local people = {}
for i = 1, 400 do
  people[i] = {id = i, name = "person number " .. i, tags = {"a" .. i % 7, "b" .. i % 11, "c"},
    address = {street = "Street " .. i % 50, number = i % 120 + 1, city = "City " .. i % 9}}
end
local sum = 0
for _ = 1, n do
  local out = {}
  write(people, out)
  local text = table.concat(out)
  people = read(text, 1)
  sum = sum + #text
end
print(sum, #people)
