/* Lua for Windows: lua SCRIPT ARGUMENTS... by luaL_newstate, whose allocator is the C library's realloc. */
#include <stdio.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

int main(int count, char **words)
{
    lua_State *lua = luaL_newstate();
    if (!lua || count < 2)
        return 1;
    luaL_openlibs(lua);
    lua_newtable(lua);
    for (int i = 1; i < count; i++) {
        lua_pushstring(lua, words[i]);
        lua_rawseti(lua, -2, i - 1);
    }
    lua_setglobal(lua, "arg");
    int failed = luaL_dofile(lua, words[1]);
    if (failed)
        fprintf(stderr, "%s\n", lua_tostring(lua, -1));
    lua_close(lua);
    return failed;
}
