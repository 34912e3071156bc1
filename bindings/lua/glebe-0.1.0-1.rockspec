rockspec_format = "3.0"
package = "glebe"
version = "0.1.0-1"
source = { url = "git+https://github.com/glebe-alloc/glebe.git", tag = "v0.1.0" }
description = {
  summary = "A heap for a Lua state: a cap, statistics, and memory returned to the system",
  detailed = "glebe.adopt() moves a running state to a heap of its own; limit, stats and trim manage that heap.",
  license = "MIT OR Apache-2.0",
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.5" }
build = {
  type = "command",
  build_command = "CC='$(CC)' tools/lua build/lua/rock/glebe.so '$(LUA_INCDIR)'",
  install = { lib = { glebe = "build/lua/rock/glebe.so" } },
}
