/* A bcryptprimitives.dll with the one function that Rust's standard library needs and Wine 8 lacks. */
#include <windows.h>

BOOLEAN WINAPI SystemFunction036(PVOID data, ULONG bytes);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes)
{
    return SystemFunction036(data, (ULONG)bytes);
}
