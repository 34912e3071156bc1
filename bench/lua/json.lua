-- Documents decoded by lua-cjson and encoded again; the last hundred live.   json.lua ROUNDS
local cjson = require "cjson"
local rounds = tonumber(arg[1])
local texts, kept, sum = {}, {}, 0
for d = 1, 20 do
  local people = {}
  for i = 1, 10 * d do
    people[i] = {id = i, name = "person number " .. i * d, tags = {"a" .. i % 7, "b" .. i % 11, "c"}, score = i * 1.5,
      active = i % 2 == 0, address = {street = "Street " .. i % 50, number = i % 120 + 1, city = "City " .. i % 9},
      notes = ("note "):rep(i % 30)}
  end
  texts[d] = cjson.encode({version = d, people = people})
end
for round = 1, rounds do
  local document = cjson.decode(texts[round % #texts + 1])
  kept[round % 100 + 1] = document
  document.people[1].name = "changed " .. round
  if round % 4 == 0 then sum = sum + #cjson.encode(document) end
end
print(sum, #kept)
