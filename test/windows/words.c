/* Prints its input: arguments, one per line, with numbers for characters that are not ASCII; standard input; and the
 * variable that sign.c sets in its process. Its first argument is its exit code; if that is negative, it first sends
 * Ctrl-C to its whole console and waits half a second. */
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

int main(void)
{
    int count;
    wchar_t **words = CommandLineToArgvW(GetCommandLineW(), &count);
    for (int i = 2; i < count; i++) {
        for (const wchar_t *c = words[i]; *c; c++)
            printf(*c < 128 ? "%lc" : "<%x>", *c);
        puts("");
    }
    for (int c; (c = getchar()) != EOF;)
        putchar(c);
    const char *sign = getenv("GLEBE_TOOL_SIGN");
    fprintf(stderr, "sign: %s\n", sign ? sign : "none");
    long code = count > 1 ? wcstol(words[1], NULL, 0) : 0;
    if (code < 0) {
        SetConsoleCtrlHandler(NULL, TRUE);
        if (!GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0))
            puts("no console");
        Sleep(500);
    }
    return (int)labs(code);
}
