/* Runs a script in a state and closes the state: same HOW SCRIPT ARGUMENTS... The output must not depend on HOW: only
 * luaL_newstate and lua_close (stock), or glebe's functions. */
#include "../../bindings/lua/glebe_lua.h"

#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int adopt(lua_State *L)
{
    lua_pushinteger(L, glebe_lua_adopt(L, NULL));
    return 1;
}

static void *close_finalize(void *L)
{
    glebe_lua_close(L, GLEBE_LUA_FINALIZE);
    return NULL;
}

static void close_elsewhere(lua_State *L)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, close_finalize, L) != 0)
        abort();
    pthread_join(thread, NULL);
}

int main(int count, char **arguments)
{
    const char *how = count > 2 ? arguments[1] : "";
    bool ours = strcmp(how, "finalize") == 0 || strcmp(how, "close") == 0 || strcmp(how, "thread") == 0;
    lua_State *L = ours ? glebe_lua_newstate(NULL) : luaL_newstate();
    if (!L)
        return 77;
    luaL_openlibs(L);
    if (strcmp(how, "adopt") == 0) {
        lua_pushcfunction(L, adopt);
        if (lua_pcall(L, 0, 1, 0) || lua_tointeger(L, -1) != 0)
            return 77;
        lua_pop(L, 1);
    }
    lua_createtable(L, count, 0);
    for (int i = 2; i < count; i++) {
        lua_pushstring(L, arguments[i]);
        lua_rawseti(L, -2, i - 2);
    }
    lua_setglobal(L, "arg");
    if (luaL_loadfile(L, arguments[2])) {
        printf("not loaded: %s\n", lua_tostring(L, -1));
        return 1;
    }
    if (strcmp(strrchr(arguments[2], '/'), "/panic.lua") == 0)
        lua_call(L, 0, 0);
    else if (lua_pcall(L, 0, 0, 0))
        printf("error: %s\n", lua_tostring(L, -1));
    fflush(stdout);
    if (strcmp(how, "thread") == 0)
        close_elsewhere(L);
    else if (strcmp(how, "finalize") == 0 || strcmp(how, "adopt") == 0)
        glebe_lua_close(L, GLEBE_LUA_FINALIZE);
    else
        lua_close(L);
    puts("closed");
    return 0;
}
