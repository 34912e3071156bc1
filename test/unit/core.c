/* The core on the fake port, for tests to link with. */
#include "build.h"

unsigned long fixture_probes;
struct fixture_built fixture_built;

#include "../../src/glebe.c"
#include "statics.h"

bool fixture_guarded(void) { return fake_guarded; }

uint32_t fixture_collected_step(uint32_t cls) { return collected_step(cls); }

bool fixture_option(const char *name, uint64_t *value)
{
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0) {
            void *at = options[i].value;
            *value = options[i].kind == OPTION_BYTES ? *(size_t *)at : *(uint32_t *)at;
            return true;
        }
    return false;
}

#if !GB_LINEAR
void fixture_no_requests(void) { common_requests = 0; }

uint32_t fixture_page_wake(const gb_page *page) { return page_wake(page); }

gb_block *fixture_page_sort(const gb_page *page) { return page_sort(page); }

uint32_t fixture_unit_mask(const gb_page *page, uint32_t index) { return block_unit_mask(page, index); }
#endif
