/* A program whose own objects call no function of glebe's: only the C library calls malloc, for the string. */
#include <stdio.h>
#include <string.h>

int main(void)
{
    return puts(strdup("said")) < 0;
}
