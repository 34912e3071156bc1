/* Blocks grow, and move. Their content stays. With "whole" each is one mapping; else parts have advice of their own, or
 * are registered with userfaultfd, which no kernel moves together with others: prints "registered" if any could be. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "contract.h"

enum { MIB = 1 << 20, USER_MODE_ONLY = 1 };

/* Registers memory for write protection. */
static int registered(char *at, size_t bytes)
{
    int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {
        .range = {(uintptr_t)at, bytes}, .mode = UFFDIO_REGISTER_MODE_WP};
    return file >= 0 && ioctl(file, UFFDIO_API, &api) == 0 && ioctl(file, UFFDIO_REGISTER, &range) == 0;
}

int main(int argc, char **argv)
{
    int any = 0, whole = argc == 2 && strcmp(argv[1], "whole") == 0;
    for (int round = 0; round < 12; round++) {
        size_t bytes = (size_t)(20 + round) * MIB, page = (size_t)sysconf(_SC_PAGESIZE);
        char *blocks[5]; /* the middle one cannot grow in place */
        for (int i = 0; i < 5; i++)
            CHECK((blocks[i] = malloc(bytes)) != NULL);
        char *block = blocks[2];
        memset(block, round + 1, bytes);
        char *part = (char *)(((uintptr_t)block + bytes / 3 + page) / page * page);
        CHECK(whole || madvise(part, page, MADV_DONTFORK) == 0);
        if (!whole && round % 2)
            any += registered(part + (size_t)4 * MIB, (size_t)MIB);
        block = realloc(block, 5 * bytes);
        CHECK(block);
        for (size_t i = 0; i < bytes; i += page / 2)
            CHECK(block[i] == round + 1);
        CHECK(block[bytes - 1] == round + 1);
        blocks[2] = block;
        for (int i = 0; i < 5; i++)
            free(blocks[i]);
    }
    puts(any ? "registered" : "not registered");
    return 0;
}
