-- A real program: luacheck, the linter, on its own sources.   program.lua ROUNDS
package.path = "/usr/share/lua/5.1/?.lua;/usr/share/lua/5.1/?/init.lua;" .. package.path
local check = require "luacheck.check"
local rounds = tonumber(arg[1])
local sources, sum = {}, 0
for _, name in ipairs {"lexer", "parser", "options", "format", "runner", "filter", "utils", "stages.linearize",
    "stages.resolve_locals"} do
  local file = assert(io.open(assert(package.searchpath("luacheck." .. name, package.path))))
  sources[#sources + 1] = file:read("a")
  file:close()
end
for _ = 1, rounds do
  for _, source in ipairs(sources) do
    local report = check(source)
    sum = sum + #report.warnings + #report.line_lengths
  end
end
print(sum)
