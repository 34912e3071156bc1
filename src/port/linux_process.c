/* What Linux tells a process of itself, for its snapshot: limits, mappings, resident pages, loaded code. It follows
 * linux.c in ../glebe.c.
 *
 * All comes from /proc by system calls. Nothing here allocates, or takes a lock: the loader's list of modules is locked
 * by a thread that opens a library, which may wait for the thread that we are in. Memory of other code is read by
 * process_vm_readv, which fails where a read would fault. Buffers are static: one thread at a time calls here. */

enum { LINUX_LINE_BYTES = 4096 + 256 }; /* a path, and what is before it */

/* Lines of a file, one after the other. By system calls alone: a call of the C library may be the end of a thread that
 * was cancelled. */
typedef struct linux_lines {
    int file;
    bool whole; /* all lines were read */
    size_t from, to; /* of `text`: not yet taken */
    char text[2 * LINUX_LINE_BYTES];
} linux_lines;

/* Returns the next line, without its end; NULL after the last. */
static char *linux_line(linux_lines *lines)
{
    for (;;) {
        char *start = lines->text + lines->from, *end = memchr(start, '\n', lines->to - lines->from);
        if (end) {
            *end = 0;
            lines->from = (size_t)(end - lines->text) + 1;
            return start;
        }
        memmove(lines->text, start, lines->to - lines->from);
        lines->to -= lines->from;
        lines->from = 0;
        long got = lines->to < sizeof lines->text
            ? syscall(SYS_read, lines->file, lines->text + lines->to, sizeof lines->text - lines->to)
            : -1;
        if (got <= 0) {
            lines->whole = got == 0 && lines->to == 0;
            return NULL;
        }
        lines->to += (size_t)got;
    }
}

static bool linux_lines_open(linux_lines *lines, const char *path)
{
    lines->from = lines->to = 0;
    lines->whole = false;
    lines->file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    return lines->file >= 0;
}

static const char *linux_hex(const char *text, uintptr_t *value)
{
    for (*value = 0;; text++) {
        unsigned digit = *text >= '0' && *text <= '9' ? (unsigned)(*text - '0')
            : *text >= 'a' && *text <= 'f'            ? (unsigned)(*text - 'a' + 10)
                                                      : 16;
        if (digit == 16)
            return text;
        *value = *value << 4 | digit;
    }
}

/* ---- limits ---- */

bool gb_port_limit(unsigned which, uint64_t *limit_bytes, uint64_t *used_bytes)
{
    static const struct { int resource, field; } of[] = {{RLIMIT_AS, 0}, {RLIMIT_DATA, 5}}; /* in /proc/self/statm */
    char text[192];
    struct rlimit limit;
    int saved = errno;
    bool set = getrlimit(of[which].resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    errno = saved;
    if (!set || !linux_read("/proc/self/statm", text, sizeof text))
        return false;
    const char *at = text;
    for (int i = 0; i < of[which].field; i++)
        at += strcspn(at, " ") + 1;
    *limit_bytes = limit.rlim_cur;
    if (!linux_number(at, used_bytes))
        return false;
    *used_bytes *= gb_port_page_bytes();
    return true;
}

size_t gb_port_absolute(const char *path, char *out, size_t bytes)
{
    int saved = errno;
    size_t length = 0, more = strlen(path) + 1;
    if (*path != '/' && getcwd(out, bytes)) {
        length = strlen(out);
        out[length++] = '/'; /* over the NUL */
    }
    errno = saved;
    if ((*path != '/' && length == 0) || length + more > bytes)
        return 0;
    memcpy(out + length, path, more);
    return length + more - 1;
}

/* ---- loaded code ---- */

/* A line of /proc/self/maps. */
typedef struct linux_mapping {
    uintptr_t start, end, offset;
    const char *rights, *path;
} linux_mapping;

static linux_mapping linux_mapping_of(const char *line)
{
    linux_mapping mapping;
    const char *at = linux_hex(line, &mapping.start);
    at = linux_hex(at + (*at == '-'), &mapping.end);
    mapping.rights = at + (*at == ' ');
    at = mapping.rights + strcspn(mapping.rights, " ");
    at = linux_hex(at + (*at == ' '), &mapping.offset);
    for (int i = 0; i < 2 && *at; i++) /* device, inode */
        at += 1 + strcspn(at + 1, " ");
    mapping.path = at + strspn(at, " ");
    return mapping;
}

static bool linux_peek(uintptr_t at, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)at, bytes};
    return syscall(SYS_process_vm_readv, (long)getpid(), &here, 1L, &there, 1L, 0L) == (long)bytes;
}

/* Copies the notes of the file that is mapped at `at`, and finds the build-id there. `id` has room for 64 bytes. */
static size_t linux_note_of(uintptr_t at, uint8_t *id)
{
    enum { BUILD_ID = 3, HEADERS = 16, NOTES = 512, ID = 64 };
    ElfW(Ehdr) head;
    ElfW(Phdr) headers[HEADERS];
    char notes[NOTES];
    if (!linux_peek(at, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0
        || head.e_phentsize != sizeof headers[0] || head.e_phnum == 0)
        return 0;
    size_t count = head.e_phnum < HEADERS ? head.e_phnum : HEADERS;
    if (!linux_peek(at + head.e_phoff, headers, count * sizeof headers[0]))
        return 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = headers[i].p_filesz < NOTES ? headers[i].p_filesz : NOTES;
        if (headers[i].p_type != PT_NOTE || !linux_peek(at + headers[i].p_offset, notes, bytes))
            continue;
        for (size_t from = 0; from + sizeof(ElfW(Nhdr)) <= bytes;) {
            ElfW(Nhdr) note;
            memcpy(&note, notes + from, sizeof note);
            size_t name = (note.n_namesz + 3u) & ~3u, all = (note.n_descsz + 3u) & ~3u;
            from += sizeof note;
            if (name > bytes - from || all > bytes - from - name)
                break;
            if (note.n_type == BUILD_ID && note.n_namesz == 4 && memcmp(notes + from, "GNU", 4) == 0
                && note.n_descsz <= ID) {
                memcpy(id, notes + from + name, note.n_descsz);
                return note.n_descsz;
            }
            from += name + all;
        }
    }
    return 0;
}

/* The path of the file of a line. The kernel's text has \012 for a newline, but also for a name with these four
 * characters; its link has the path itself. The link's name has the line's two addresses, without zeros before them. */
static const char *linux_path_of(const char *line, const linux_mapping *mapping)
{
    static char path[LINUX_LINE_BYTES];
    if (!strstr(mapping->path, "\\012"))
        return mapping->path;
    char link[64] = "/proc/self/map_files/";
    line += strspn(line, "0");
    strncat(link, line, strcspn(line, "-") + 1);
    line += strcspn(line, "-") + 1;
    line += strspn(line, "0");
    strncat(link, line, strcspn(line, " "));
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0 ? path : mapping->path;
}

/* The first mapping of each file has its head. */
void gb_port_modules_seen(void (*each)(void *context, const gb_module *module), void *context)
{
    static linux_lines lines;
    static char path[LINUX_LINE_BYTES];
    static uint8_t id[64];
    int saved = errno, cancel = posix_cancel_off();
    size_t id_bytes = 0;
    path[0] = 0;
    const char *line;
    if (linux_lines_open(&lines, "/proc/self/maps")) {
        while ((line = linux_line(&lines)) != NULL) {
            linux_mapping mapping = linux_mapping_of(line);
            if (mapping.path[0] != '/')
                continue;
            if (strcmp(path, mapping.path) != 0) {
                id_bytes = mapping.offset == 0 && mapping.rights[0] == 'r' ? linux_note_of(mapping.start, id) : 0;
                memcpy(path, mapping.path, strlen(mapping.path) + 1);
            }
            if (mapping.rights[2] != 'x')
                continue;
            const char *name = linux_path_of(line, &mapping);
            gb_module module = {mapping.start, mapping.end, mapping.offset, name, id, id_bytes};
            each(context, &module);
        }
        close(lines.file);
    }
    posix_cancel_restore(cancel);
    errno = saved;
}

/* ---- memory ---- */

/* The state of an OS page by its word of /proc/self/pagemap, as `glebe explain` tells them apart: r resident, f of a
 * file, d shared after a fork or the page of zeros, s in swap; 0: none of these. */
static char linux_page_state(uint64_t word)
{
    return word >> 62 & 1                        ? 's'
        : !(word >> 63)                          ? 0
        : !(word & (UINT64_C(1) << 61 | UINT64_C(1) << 56)) ? 'd'
        : word >> 61 & 1                         ? 'f'
                                                 : 'r';
}

static void linux_put_pages(const gb_port_reader *reader, int pagemap, const linux_mapping *mapping)
{
    static uint64_t words[512];
    size_t page = gb_port_page_bytes();
    uintptr_t start = mapping->start;
    char state = 0;
    for (uintptr_t at = mapping->start; at < mapping->end;) {
        size_t count = (mapping->end - at) / page;
        count = count < 512 ? count : 512;
        ssize_t got = pread(pagemap, words, count * 8, (off_t)(at / page * 8));
        count = got > 0 ? (size_t)got / 8 : 0;
        for (size_t i = 0; i <= count; i++) {
            /* after the last word of the mapping the stretch ends */
            char now = i < count ? linux_page_state(words[i]) : at + i * page < mapping->end && got > 0 ? state : 0;
            if (now == state)
                continue;
            if (state)
                reader->pages(reader->context, start, at + i * page, state);
            state = now;
            start = at + i * page;
        }
        if (got <= 0)
            break;
        at += count * page;
    }
}

void gb_port_describe(const gb_port_reader *reader)
{
    static linux_lines lines;
    int saved = errno, cancel = posix_cancel_off(), pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    const char *line;
    if (linux_lines_open(&lines, "/proc/self/status")) {
        while ((line = linux_line(&lines)) != NULL)
            if (strncmp(line, "Vm", 2) == 0)
                reader->line(reader->context, "status", line);
        close(lines.file);
    }
    if (linux_lines_open(&lines, "/proc/self/maps")) {
        while ((line = linux_line(&lines)) != NULL) {
            linux_mapping mapping = linux_mapping_of(line);
            reader->line(reader->context, "map", line);
            if (pagemap >= 0 && (mapping.rights[0] == 'r' || mapping.rights[1] == 'w'))
                linux_put_pages(reader, pagemap, &mapping);
        }
        close(lines.file);
    }
    if (pagemap >= 0)
        close(pagemap);
    posix_cancel_restore(cancel);
    errno = saved;
}

/* ---- probes: otel_memory:alloc(ptr, size, weight) and otel_memory:free(ptr) ----
 * A probe is one no-operation, and a note in the section .note.stapsdt that says where it is and where its arguments
 * are. Tracers (perf, bpftrace, an eBPF profiler) find it in the file, and put a breakpoint there. The note's layout is
 * that of SystemTap, version 3: addresses of the probe, of .stapsdt.base and of a semaphore (none), then provider, name
 * and arguments as texts. An argument is "bytes@operand", and - before it means a signed one. */

#if defined(__x86_64__) || defined(__aarch64__)
#define LINUX_PROBE(name, operands, ...)                                                                               \
    __asm__ volatile("990: nop\n"                                                                                      \
                     ".pushsection .note.stapsdt, \"\", %%note\n"                                                      \
                     ".balign 4\n"                                                                                     \
                     ".4byte 992f - 991f, 994f - 993f, 3\n"                                                            \
                     "991: .asciz \"stapsdt\"\n"                                                                       \
                     "992: .balign 4\n"                                                                                \
                     "993: .8byte 990b\n"                                                                              \
                     ".8byte _.stapsdt.base\n"                                                                         \
                     ".8byte 0\n"                                                                                      \
                     ".asciz \"otel_memory\"\n"                                                                        \
                     ".asciz \"" name "\"\n"                                                                           \
                     ".asciz \"" operands "\"\n"                                                                       \
                     "994: .balign 4\n"                                                                                \
                     ".popsection\n"                                                                                   \
                     ".ifndef _.stapsdt.base\n"                                                                        \
                     ".pushsection .stapsdt.base, \"aG\", %%progbits, .stapsdt.base, comdat\n"                         \
                     ".weak _.stapsdt.base\n"                                                                          \
                     ".hidden _.stapsdt.base\n"                                                                        \
                     "_.stapsdt.base: .space 1\n"                                                                      \
                     ".size _.stapsdt.base, 1\n"                                                                       \
                     ".popsection\n"                                                                                   \
                     ".endif\n" ::__VA_ARGS__)
#else
#define LINUX_PROBE(name, operands, ...) ((void)0)
#endif

GB_NOINLINE void gb_port_sampled(const void *block, size_t bytes, uint64_t weight)
{
    (void)block, (void)bytes, (void)weight;
    LINUX_PROBE("alloc", "8@%0 8@%1 8@%2", "r"(block), "r"(bytes), "r"(weight));
}

GB_NOINLINE void gb_port_sample_freed(const void *block)
{
    (void)block;
    LINUX_PROBE("free", "8@%0", "r"(block));
}
