-- An object with a finalizer in each Lua: a table, or userdata if tables cannot have one.
return function(finalizer)
  if not newproxy then return setmetatable({}, {__gc = finalizer}) end
  local u = newproxy(true)
  getmetatable(u).__gc = finalizer
  return u
end
