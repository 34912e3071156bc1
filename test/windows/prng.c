/* bcryptprimitives.dll, of which Rust's standard library wants one function that Wine 8 has not. */
#include <windows.h>

BOOLEAN WINAPI SystemFunction036(PVOID data, ULONG bytes);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes)
{
    return SystemFunction036(data, (ULONG)bytes);
}
