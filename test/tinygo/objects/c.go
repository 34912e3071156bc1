//go:build tinygo

package main

/*
#include <locale.h>

// musl allocates by names of its own, such as __libc_malloc, here and where the C++ library needs it.
static int locale(void)
{
    locale_t made = newlocale(LC_ALL_MASK, "xx_XX", NULL);
    if (made)
        freelocale(made);
    return made != NULL;
}
*/
import "C"

func locales() { require(C.locale() != 0, "a locale") }
