/* A program as clang-cl compiles it, linked by lld-link to glebe-override.lib. The start-up code below replaces
 * Microsoft's start-up objects, so it needs no header or library of theirs, only the functions' prototypes. */
typedef __SIZE_TYPE__ size_t;

void *malloc(size_t);
void *calloc(size_t, size_t);
void *realloc(void *, size_t);
void free(void *);
__declspec(dllimport) char *_strdup(const char *);
__declspec(dllimport) void *_aligned_malloc(size_t, size_t);
__declspec(dllimport) void _aligned_free(void *);
__declspec(dllimport) char *_fullpath(char *, const char *, size_t);
int glebe_heap_owns(void *heap, const void *block);
__declspec(dllimport) void exit(int);
__declspec(dllimport) void *CreateThread(void *, size_t, unsigned long (*)(void *), void *, unsigned long, void *);
__declspec(dllimport) unsigned long WaitForSingleObject(void *, unsigned long);

/* ---- start-up: thread locals, and the table of initializers ---- */

int _fltused = 1;
unsigned long _tls_index;
#pragma section(".tls", long, read, write)
#pragma section(".tls$ZZZ", long, read, write)
__declspec(allocate(".tls")) char _tls_start = 0;
__declspec(allocate(".tls$ZZZ")) char _tls_end = 0;
const struct {
    void *start, *end, *index, *callbacks;
    unsigned long zeroes, characteristics;
} _tls_used = {&_tls_start, &_tls_end, &_tls_index, 0, 0, 0};

#pragma section(".CRT$XCA", long, read)
#pragma section(".CRT$XCZ", long, read)
typedef void initializer(void);
__declspec(allocate(".CRT$XCA")) initializer *const first = 0;
__declspec(allocate(".CRT$XCZ")) initializer *const last = 0;

__declspec(dllimport) int _crt_atexit(void (*)(void));

int atexit(void (*function)(void))
{
    return _crt_atexit(function);
}

/* Does nothing, which is enough for frames of less than a guard page. */
__asm__(".globl __chkstk\n__chkstk:\nret\n");

/* ---- the checks ---- */

static int failed;

static void check(int good)
{
    failed += !good;
}

static unsigned long thread(void *unused)
{
    void *blocks[100];
    for (size_t i = 0; i < 100; i++)
        check(glebe_heap_owns(0, blocks[i] = malloc(i * 100)));
    for (size_t i = 0; i < 100; i++)
        free(blocks[i]);
    return unused != 0;
}

void start(void)
{
    for (initializer *const *each = &first + 1; each < &last; each++)
        if (*each)
            (*each)();
    char *block = malloc(10);
    check(glebe_heap_owns(0, block));
    check(glebe_heap_owns(0, block = realloc(block, 100000)));
    free(block);
    check(glebe_heap_owns(0, block = calloc(10, 10)) && block[99] == 0);
    free(block);
    check(glebe_heap_owns(0, block = _strdup("text")) && block[3] == 't');
    free(block);
    check(glebe_heap_owns(0, block = _aligned_malloc(100, 256)) && (size_t)block % 256 == 0);
    _aligned_free(block);
    block = _fullpath(0, ".", 0); /* the C library's own */
    check(block && !glebe_heap_owns(0, block));
    free(block);
    for (int i = 0; i < 20; i++)
        WaitForSingleObject(CreateThread(0, 0, thread, 0, 0, 0), ~0ul);
    exit(failed);
}
