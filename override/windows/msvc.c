/* mingw's clang calls ___chkstk_ms to touch a large stack frame; Microsoft's C library has that function under another
 * name. */
__asm__(".globl ___chkstk_ms\n"
        "___chkstk_ms:\n"
        "jmp __chkstk\n");

int glebe_msvc = 1; /* C requires at least one declaration in a file */
