"""The promises of docs/contracts.md about a process in which another malloc serves the program: the program's own here,
which comes before a preloaded library."""

import pytest

# A bump allocator, of 16 bytes more for each block than asked.
OWN_MALLOC = """
static char room[1 << 20], *next = room;
void *malloc(size_t n) { char *block = next; next += n + 31 & -16ul; return block; }
void free(void *block) { (void)block; }
"""

# With -no-pie the address of malloc is that of a stub in the program.
ITS_ADDRESS = "void *(*volatile its_address)(size_t) = malloc;\n"


@pytest.mark.parametrize("malloc, flags, active", [
    pytest.param(OWN_MALLOC, (), "was active beside another malloc: ", id="own"),
    pytest.param("", (), "was active: ", id="none"),
    pytest.param(ITS_ADDRESS, ("-no-pie",), "was active: ", id="address")])
def test_verbose_beside_another_malloc(box, tmp_path, request, malloc, flags, active):
    """The line at exit tells whether another malloc serves the program."""
    source = tmp_path / "program.c"
    source.write_text(malloc + "int main(void) { return malloc(100) == 0; }")
    own = box.compile(source, "-O0", "-include", "stdlib.h", *flags, to=f"verbose-{request.node.callspec.id}")
    assert active in box.check(own, verbose=1).text


@pytest.mark.parametrize("library, flags, active", [
    pytest.param("libglebe.a", (), "was active beside another malloc: at most 16", id="archive"),
    pytest.param("libglebe.a", ("-static",), "was active beside another malloc: at most 16", id="static"),
    pytest.param("libglebe-override.a", ("-static", "-Wl,-u,malloc"), "was active: ", id="static-override")])
def test_verbose_beside_the_malloc_of_the_c_library(box, tmp_path, request, library, flags, active):
    """With glebe linked in."""
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return glebe_malloc(100) == 0; }")
    linked = box.compile(source, f"-I{box.root}/include", "-include", "glebe.h", "-pthread", *flags,
                         to=f"verbose-{request.node.callspec.id}", libs=[box.library(library)])
    assert active in box.check(linked, preload=None, verbose=1).text


# The whole family of C, and no more: as jemalloc's library has it.
OWN_FAMILY = OWN_MALLOC + """
void *realloc(void *block, size_t n) { return memcpy(malloc(n), block, n); }
void *valloc(size_t n) { next = (char *)(((uintptr_t)next + 4095) & -4096ul); return malloc(n); }
void *pvalloc(size_t n);
static int is_own(char *block) { return block >= room && block < next; }
int main(void)
{
    char *block = reallocarray(malloc(10), 10, 10), *page = pvalloc(5);
    ((void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized"))(block, 100); /* the C library has none yet */
    ((void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized"))(page, 1, 4096);
    errno = 0;
    return !is_own(block) || !is_own(page) || next < page + 4096 || reallocarray(block, -1ul, 2) || errno != ENOMEM;
}
"""


@pytest.mark.parametrize("build", ["default", "secure", "audit"])
def test_what_another_malloc_lacks(box, tmp_path, build):
    """Functions that only glebe has, beside another malloc, take and return that malloc's blocks."""
    source = tmp_path / "family.c"
    source.write_text(OWN_FAMILY)
    headers = [word for name in ("stdlib", "stdint", "string", "errno", "dlfcn") for word in ("-include", f"{name}.h")]
    own = box.compile(source, "-O0", "-fno-builtin", "-D_GNU_SOURCE", *headers, to="another-family")
    box.check(own, preload=build)
