/* Prints how many pages of the unwinder's tables of this program are mapped after a byte of each 64 KiB was read, and
 * how many pages they have: 40,000 functions make them large. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

__asm__(".text\n.rept 40000\n.cfi_startproc\nnop\n.cfi_def_cfa_offset 64\nnop\n.cfi_endproc\n.endr\n");

static uintptr_t start;
static size_t bytes; /* of the index; the tables behind it are larger */

static int find(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME) {
            start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            bytes = info->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the program is the first */
}

int main(void)
{
    enum { WINDOW = 64 << 10 };
    dl_iterate_phdr(find, NULL);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = start + 2 * bytes;
    for (uintptr_t at = start; at < end; at += WINDOW)
        (void)*(volatile char *)at;
    int file = open("/proc/self/pagemap", O_RDONLY), mapped = 0;
    for (uintptr_t at = start / page * page; at < end; at += page) {
        uint64_t word;
        if (pread(file, &word, sizeof word, (off_t)(at / page * sizeof word)) != sizeof word)
            return 1;
        mapped += (int)(word >> 63);
    }
    printf("%d %d\n", mapped, (int)((end - start) / page));
    return 0;
}
