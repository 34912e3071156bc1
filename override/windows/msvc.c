/* What the objects that mingw's clang makes lack beside Microsoft's C library: the name that it has for touching a
 * large stack frame. */
__asm__(".globl ___chkstk_ms\n"
        "___chkstk_ms:\n"
        "jmp __chkstk\n");

int glebe_msvc = 1; /* a translation unit is not empty */
