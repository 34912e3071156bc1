/* The shape of the build, which readers outside the process follow: its head, its names, and some of its values. */
#include "fixture.h"

typedef struct seen {
    uint64_t magic;
    uint32_t version, word_bytes, count, bytes;
    uint64_t live, region, classes, names;
    uint32_t values[];
} seen;

static const seen *shape_seen(void)
{
    return gb_shape_address();
}

/* The text that the i-th word of the head leads to. */
static const char *shape_names_seen(void)
{
    return (const char *)(uintptr_t)shape_seen()->names;
}

static uint32_t value_of(const char *name)
{
    uint32_t i = 0;
    for (const char *at = shape_names_seen(); *at; at += strlen(at) + 1, i++)
        if (strcmp(at, name) == 0)
            return shape_seen()->values[i];
    fail_msg("the shape has no %s", name);
    return 0;
}

static void test_head(void **state)
{
    (void)state;
    const seen *s = shape_seen();
    assert_int_equal(s->magic, UINT64_C(0x676c656265534841));
    assert_int_equal(s->version, 6);
    assert_int_equal(s->word_bytes, sizeof(void *));
    assert_int_equal(s->live, (uintptr_t)&glebe_live);
    assert_int_equal(s->region, (uintptr_t)&gb_the);
    assert_int_equal(s->classes, (uintptr_t)gb_classes);
    assert_int_equal(offsetof(seen, values), 56); /* cli/src/explain/shape.rs */
}

static void test_each_name_has_a_value_and_is_there_once(void **state)
{
    (void)state;
    uint32_t count = 0;
    size_t bytes = 1;
    for (const char *at = shape_names_seen(); *at; at += strlen(at) + 1, count++) {
        bytes += strlen(at) + 1;
        for (const char *then = at + strlen(at) + 1; *then; then += strlen(then) + 1)
            assert_string_not_equal(at, then);
    }
    assert_int_equal(count, shape_seen()->count);
    assert_int_equal(bytes, shape_seen()->bytes);
}

/* A reader finds a page by the values alone. */
static void test_values_lead_to_a_page(void **state)
{
    (void)state;
    fixture_thread(0);
    void *block = NULL;
    for (int i = 0; i < 2000; i++) /* beyond the mixed page */
        assert_non_null(block = glebe_malloc(200));
    const char *region = (const char *)&gb_the;
    uintptr_t base, table;
    memcpy(&base, region + value_of("region.base"), sizeof base);
    memcpy(&table, region + value_of("region.table"), sizeof table);
    const char *entry =
        (const char *)table + (((uintptr_t)block - base) >> value_of("slice_log2")) * value_of("page");
    uint32_t back;
    memcpy(&back, entry + value_of("page.back_bytes"), sizeof back);
    entry -= back;
    assert_int_equal(entry[value_of("page.kind")], GB_SMALL);
    uint32_t bytes;
    memcpy(&bytes,
        (const char *)gb_classes + (uint8_t)entry[value_of("page.cls")] * value_of("class") + value_of("class.bytes"),
        sizeof bytes);
    assert_true(bytes >= 200 && bytes < 256);
}

static int setup(void **state)
{
    (void)state;
    fixture_start(1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_head, setup),
        cmocka_unit_test_setup(test_each_name_has_a_value_and_is_there_once, setup),
        cmocka_unit_test_setup(test_values_lead_to_a_page, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
