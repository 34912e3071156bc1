/* Statics of the core that tests use; core.c defines these functions. */
#ifndef GLEBE_TEST_STATICS_H
#define GLEBE_TEST_STATICS_H

bool fixture_guarded(void); /* fake_guarded of fake.c */
uint32_t fixture_collected_step(uint32_t cls); /* sweep.c */
bool fixture_option(const char *name, uint64_t *value); /* the list in options.c; false: no such option */
#if !GB_LINEAR
void fixture_no_requests(void); /* common.c: the thread has made none */
uint32_t fixture_page_wake(const gb_page *page); /* page.c */
gb_block *fixture_page_sort(const gb_page *page);
uint32_t fixture_unit_mask(const gb_page *page, uint32_t index); /* hole.c */
#endif

#endif
