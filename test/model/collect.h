/* Shared by the models of collectors: objects with copies of their contents, layouts, reachability, allocation, and the
 * host. A model first defines model_object, with the fields `at`, `words`, `layout` and `reached`, and later
 * object_referred. */
enum { OBJECTS = 3000, LAYOUTS = 100 };

static model_object objects[OBJECTS];
static size_t bounds[OBJECTS]; /* the objects' bytes, kept here since the collector may have freed objects meanwhile */
static uintptr_t *copies[OBJECTS]; /* copies of each object's words */
static int object_count;
static bool failing; /* allocations may fail for lack of memory */

/* The object that a word of an object refers to; -1: it refers to none, or the layout leaves it out. */
static int object_referred(int from, size_t word);

/* ---- layouts ---- */

static struct {
    uintptr_t words;
    uint8_t bits[16];
} outside[LAYOUTS / 2];

static void layouts_make(void)
{
    for (size_t i = 0; i < LAYOUTS / 2; i++) {
        outside[i].words = 1 + below(120);
        for (size_t k = 0; k < sizeof outside[i].bits; k++)
            outside[i].bits[k] = (uint8_t)random_next();
    }
}

/* Half of the layouts are inline, half are descriptors; there are more layouts than cursors. */
static uintptr_t layout_of(size_t i)
{
    if (i % 2)
        return (uintptr_t)&outside[i / 2];
    return GLEBE_GC_LAYOUT(1 + i % 9, (i * 37 + 1) & (((uintptr_t)1 << (1 + i % 9)) - 1));
}

static uintptr_t some_layout(void)
{
    size_t kind = below(8);
    return kind < 3 ? 0 : kind < 5 ? GB_PLAIN : layout_of(below(one_in(2) ? 4 : LAYOUTS));
}

static bool layout_counts(uintptr_t layout, size_t word)
{
    if (layout == 0)
        return true;
    if (layout & 1) {
        size_t words = layout >> 1 & (((uintptr_t)1 << GLEBE_GC_LAYOUT_BITS) - 1);
        return layout >> (1 + GLEBE_GC_LAYOUT_BITS) >> word % words & 1;
    }
    const glebe_gc_layout *out = (const glebe_gc_layout *)layout;
    return out->bits[word % out->words / 8] >> word % out->words % 8 & 1;
}

/* ---- reachability, by the book ---- */

static int object_within(uintptr_t address)
{
    for (int i = 0; i < object_count; i++)
        if (address - (uintptr_t)objects[i].at < bounds[i])
            return i;
    return -1;
}

/* As object_within, for a word with any value. */
static int object_meant(uintptr_t address)
{
    return address > 4096 ? object_within(address) : -1;
}

/* Marks the objects that are reachable from an object, but not the object itself. */
static void reach_from(int first)
{
    static int stack[OBJECTS];
    int count = 0;
    stack[count++] = first;
    while (count) {
        int at = stack[--count];
        for (size_t w = 0; w < objects[at].words; w++) {
            int to = object_referred(at, w);
            if (to >= 0 && !objects[to].reached) {
                objects[to].reached = true;
                stack[count++] = to;
            }
        }
    }
}

static void reach(int i)
{
    if (i < 0 || objects[i].reached)
        return;
    objects[i].reached = true;
    reach_from(i);
}

/* ---- objects ---- */

static void word_write(int i, size_t w, uintptr_t value)
{
    objects[i].at[w] = copies[i][w] = value;
}

static void object_forget(int i)
{
    free(copies[i]);
    objects[i] = objects[--object_count];
    copies[i] = copies[object_count];
    bounds[i] = bounds[object_count];
}

/* Allocates an object and returns its number; -1 if there is no memory. */
static int object_new(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    void *at = layout == 0 ? glebe_gc_alloc(gc, bytes)
        : layout == GB_PLAIN ? glebe_gc_alloc_plain(gc, bytes) : glebe_gc_alloc_layout(gc, bytes, layout);
    if (!at) {
        REQUIRE(failing);
        return -1;
    }
    size_t usable = glebe_gc_usable_size(gc, at);
    REQUIRE((uintptr_t)at % (bytes % 16 ? GB_CELL_BYTES : 16) == 0 && usable >= bytes);
    REQUIRE(fixture_zero(at, usable));
    REQUIRE(object_within((uintptr_t)at) == -1);
    int i = object_count++;
    uintptr_t start;
    const gb_page *page = gb_object_at(gc, (uintptr_t)at, &start);
    REQUIRE((page == NULL) == (!GB_LINEAR && bytes > GB_LARGE_MAX));
    uintptr_t taken = page ? page->layout : 0;
    if (GB_HUGE && !page)
        taken = gb_huge_object_at(gc, (uintptr_t)at)->layout;
    REQUIRE(taken == layout || (taken == 0 && layout != GB_PLAIN)); /* words of a rare layout all count */
    objects[i] = (model_object){.at = at, .words = bytes / sizeof(uintptr_t), .layout = taken};
    bounds[i] = usable;
    copies[i] = calloc(objects[i].words + 1, sizeof(uintptr_t));
    return i;
}

/* ---- the host ---- */

static void model_host(void)
{
    failing = seed % 8 == 5 || seed % 8 == 6;
    if (seed % 8 == 5)
        fake.memory_bytes = (size_t)3 << 20;
    if (seed % 8 == 6 && one_in(8))
        gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_GROW, 1 + below(3), 1 + below(3));
}
