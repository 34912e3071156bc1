/* Hello, world: what a process costs before it does anything. */
#include <stdio.h>

int main(void)
{
	puts("hello, world");
	return 0;
}
