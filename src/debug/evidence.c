/* What is known about a misuse, besides the two lines of its report: which block it was, where in it the address is,
 * and who found, allocated and freed it. Lines about the stacks follow on stderr, and GLEBE_REPORT names a file to
 * which each report is appended, as one line of JSON (docs/json.md).
 *
 *     gb_report -> gb_the.evidence -> the block       guard.c, or the page or extent that the address is in
 *                                  -> the stacks      of this thread; of the block, if it is guarded or a sample
 *                                  -> their modules   in one pass over the mappings of the process
 *
 * Only a process with guarded blocks, or with such a file, comes here. The thread may hold locks of glebe, or be in the
 * handler of a fault: nothing here allocates, or waits for a lock that another thread of the heap may hold. All buffers
 * are static, since the stack may be a short one; one thread at a time has them. Addresses are not resolved here: the
 * command (`glebe report`) reads names from the files of the modules. */
#include "debug.h"

#if GB_SNAPSHOTS

enum { EVIDENCE_FRAMES = 24, EVIDENCE_OWN = 16, EVIDENCE_MODULES = 24, EVIDENCE_PATH = 512, EVIDENCE_TEXT = 24 << 10 };
enum evidence_stack { EVIDENCE_FOUND, EVIDENCE_ALLOCATED, EVIDENCE_FREED, EVIDENCE_STACKS };
static const char *const evidence_names[EVIDENCE_STACKS] = {"found", "allocated", "freed"};

typedef struct evidence_frame {
    uintptr_t address; /* a return address */
    uintptr_t offset; /* of the call in its file */
    uint32_t module; /* number + 1; 0: unknown */
} evidence_frame;

typedef struct evidence_module {
    char path[EVIDENCE_PATH], build_id[48];
} evidence_module;

static struct evidence {
    _Atomic uint32_t busy; /* the process of the thread that is in here; a child of fork is another */
    uintptr_t start;
    size_t bytes; /* of the block; 0: none is known */
    bool freed;
    evidence_frame frames[EVIDENCE_STACKS][EVIDENCE_FRAMES];
    uint32_t counts[EVIDENCE_STACKS];
    evidence_frame own; /* code of glebe's */
    evidence_module modules[EVIDENCE_MODULES];
    uint32_t modules_count;
    uintptr_t callers[EVIDENCE_FRAMES + EVIDENCE_OWN];
    char file[EVIDENCE_PATH]; /* empty: there is none */
    bool failed; /* a report could not be written: it has been said */
    char text[EVIDENCE_TEXT];
    size_t at;
} evidence;
static GB_TLS bool evidence_here; /* this thread is in here */

/* ---- what is known ---- */

static void evidence_keep(enum evidence_stack which, const uintptr_t *callers, uint32_t count)
{
    evidence.counts[which] = count < EVIDENCE_FRAMES ? count : EVIDENCE_FRAMES;
    for (uint32_t i = 0; i < evidence.counts[which]; i++)
        evidence.frames[which][i] = (evidence_frame){.address = callers[i]};
}

/* Finds the block of a page or extent that the address is in. */
static void evidence_block(const void *address)
{
    const gb_extent *extent = GB_HUGE ? gb_extent_of(address) : NULL;
    const gb_page *page = extent ? NULL : gb_page_around(address);
    if (extent && extent->state == GB_EXTENT_USED) {
        evidence.start = gb_extent_start(extent);
        evidence.bytes = extent->bytes;
        evidence.freed = extent->warm || extent->held;
    } else if (page && page->kind == GB_LARGE) {
        evidence.start = gb_run_start(page);
        evidence.bytes = gb_page_bytes(page);
        evidence.freed = page->warm;
    } else if (page && (page->kind == GB_SMALL || page->kind == GB_MEDIUM)) {
        gb_place place = gb_page_locate(page, (uintptr_t)address - gb_page_start(page));
        if (!place.carved || (GB_MIXES && place.cls == GB_MIXED))
            return;
        evidence.start = (uintptr_t)address - place.inside;
        evidence.bytes = GB_SECURE ? gb_secure_bytes(page, (void *)evidence.start) : gb_classes[place.cls].bytes;
        evidence.freed = !gb_block_in_use(page, (void *)evidence.start);
    }
}

static void evidence_gather(const void *address)
{
    gb_guard_sight sight = {.code = 0};
    uint32_t from = 0, count = gb_port_stack(evidence.callers, EVIDENCE_FRAMES + EVIDENCE_OWN);
    memset(evidence.counts, 0, sizeof evidence.counts);
    evidence.bytes = 0;
    if (GB_SAMPLES && gb_guard_seen(address, &sight)) {
        evidence.start = sight.start;
        evidence.bytes = sight.bytes;
        evidence.freed = sight.freed;
        evidence_keep(EVIDENCE_ALLOCATED, sight.allocators, sight.allocators_count);
        evidence_keep(EVIDENCE_FREED, sight.freers, sight.freers_count);
        while (sight.code && from < count && evidence.callers[from] != sight.code)
            from++; /* the handler */
        from = from < count ? from : 0;
        if (sight.code && from)
            evidence.callers[from]++; /* it is no return address */
    } else {
        evidence_block(address);
        uintptr_t callers[EVIDENCE_FRAMES];
        uint32_t sampled = GB_SAMPLES && evidence.bytes && !evidence.freed
            ? gb_sample_callers_try((void *)evidence.start, callers, EVIDENCE_FRAMES)
            : 0;
        evidence_keep(EVIDENCE_ALLOCATED, callers, sampled);
    }
    evidence_keep(EVIDENCE_FOUND, evidence.callers + from, count - from);
}

/* ---- modules ---- */

static uint32_t evidence_module_of(const gb_module *module)
{
    uint32_t i = 0;
    while (i < evidence.modules_count && strcmp(evidence.modules[i].path, module->path) != 0)
        i++;
    if (i == EVIDENCE_MODULES || strlen(module->path) >= EVIDENCE_PATH)
        return 0;
    evidence_module *to = evidence.modules + i;
    if (i < evidence.modules_count)
        return i + 1;
    memcpy(to->path, module->path, strlen(module->path) + 1);
    size_t bytes = module->build_id_bytes * 2 < sizeof to->build_id ? module->build_id_bytes : 0;
    for (size_t k = 0; k < bytes; k++) {
        to->build_id[2 * k] = gb_digit(module->build_id[k] >> 4);
        to->build_id[2 * k + 1] = gb_digit(module->build_id[k]);
    }
    to->build_id[2 * bytes] = 0;
    return ++evidence.modules_count;
}

static void evidence_place(evidence_frame *frame, const gb_module *module)
{
    uintptr_t call = frame->address - 1;
    if (frame->module || call < module->start || call >= module->end)
        return;
    frame->module = evidence_module_of(module);
    frame->offset = call - module->start + module->offset;
}

static void evidence_module_seen(void *context, const gb_module *module)
{
    (void)context;
    evidence_place(&evidence.own, module);
    for (int which = 0; which < EVIDENCE_STACKS; which++)
        for (uint32_t i = 0; i < evidence.counts[which]; i++)
            evidence_place(&evidence.frames[which][i], module);
}

/* Drops the innermost callers that are in glebe's library. If glebe is linked into the program, they stay. */
static void evidence_trim(enum evidence_stack which)
{
    evidence_frame *frames = evidence.frames[which];
    uint32_t ours = 0, count = evidence.counts[which];
    while (ours < count && frames[ours].module && frames[ours].module == evidence.own.module)
        ours++;
    if (!GB_IN_LIBRARY || ours == count)
        return;
    memmove(frames, frames + ours, (count - ours) * sizeof *frames);
    evidence.counts[which] = count - ours;
}

/* ---- text ---- */

static void evidence_put(const char *text)
{
    for (; *text && evidence.at < EVIDENCE_TEXT - 1; text++)
        evidence.text[evidence.at++] = *text;
}

static void evidence_number(const char *before, uint64_t value)
{
    char digits[24];
    evidence_put(before);
    evidence_put(gb_decimal(value, digits));
}

static void evidence_address(const char *before, uintptr_t value)
{
    char digits[24];
    gb_format(digits, sizeof digits, "%p", (void *)value);
    evidence_put(before);
    evidence_put(digits);
}

/* The bytes of the character of UTF-8 at `text`. If it is none: of as much as may begin one, at least one byte. */
static size_t evidence_character(const uint8_t *text, bool *is_one)
{
    uint8_t c = *text, least = 0x80, most = 0xbf;
    size_t bytes = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0, n = 1;
    least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : least; /* else fewer bytes would do */
    most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : most; /* half a pair of UTF-16; beyond the last character */
    while (n < bytes && text[n] >= least && text[n] <= most) {
        least = 0x80, most = 0xbf;
        n++;
    }
    *is_one = n == bytes;
    return n;
}

/* A string of JSON. What is no UTF-8 becomes U+FFFD, as in the command's; returns whether all is. */
static bool evidence_string(const char *before, const char *text)
{
    bool exact = true, is_one;
    evidence_put(before);
    evidence_put("\"");
    for (size_t n; *text; text += n) {
        uint8_t c = (uint8_t)*text;
        char character[] = {0, 0, 0, 0, 0}, hex[] = {'\\', 'u', '0', '0', gb_digit(c >> 4), gb_digit(c), 0};
        n = evidence_character((const uint8_t *)text, &is_one);
        memcpy(character, text, n);
        exact &= is_one;
        evidence_put(!is_one ? "\xef\xbf\xbd" : c >= ' ' && c != '"' && c != '\\' ? character : hex);
    }
    evidence_put("\"");
    return exact;
}

/* A path, and all its bytes where the string cannot have them. */
static void evidence_path(const char *before, const char *path)
{
    if (evidence_string(before, path))
        return;
    evidence_put(", \"path_hex\": \"");
    for (; *path; path++)
        evidence_put((char[]){gb_digit((uint8_t)*path >> 4), gb_digit((uint8_t)*path), 0});
    evidence_put("\"");
}

static void evidence_print(void)
{
    static const char *const titles[EVIDENCE_STACKS] = {"  found at\n", "  allocated at\n", "  freed at\n"};
    evidence.at = 0;
    for (int which = 0; which < EVIDENCE_STACKS; which++) {
        if (evidence.counts[which])
            evidence_put(titles[which]);
        for (uint32_t i = 0; i < evidence.counts[which]; i++) {
            const evidence_frame *frame = &evidence.frames[which][i];
            char path[EVIDENCE_PATH];
            gb_plain(path, sizeof path, frame->module ? evidence.modules[frame->module - 1].path : "?", "");
            evidence_put("    ");
            evidence_put(path);
            evidence_address("+", frame->module ? frame->offset : frame->address);
            evidence_put("\n");
        }
    }
    gb_port_print(evidence.text, evidence.at);
}

static void evidence_json_stack(enum evidence_stack which)
{
    evidence_string(", ", evidence_names[which]);
    evidence_put(": [");
    for (uint32_t i = 0; i < evidence.counts[which]; i++) {
        const evidence_frame *frame = &evidence.frames[which][i];
        evidence_address(i ? ", {\"address\": \"" : "{\"address\": \"", frame->address);
        if (frame->module) {
            evidence_number("\", \"module\": ", frame->module - 1);
            evidence_number(", \"offset\": ", frame->offset);
            evidence_put("}");
        } else
            evidence_put("\"}");
    }
    evidence_put("]");
}

static void evidence_append(const char *call, const void *address, const char *finding)
{
    static const char cut[] = "glebe: report: cannot write to the file of GLEBE_REPORT\n";
    evidence.at = 0;
    evidence_string("{\"program\": ", gb_port_program());
    evidence_number(", \"pid\": ", gb_port_process());
    evidence_string(", \"build\": ", GB_SECURE ? "secure" : GB_AUDIT ? "audit" : GB_SAFE ? "safe" : "default");
    evidence_string(", \"call\": ", call);
    evidence_address(", \"address\": \"", (uintptr_t)address);
    evidence_string("\", \"finding\": ", finding);
    if (evidence.bytes) {
        bool before = (uintptr_t)address < evidence.start;
        evidence_address(", \"block\": {\"start\": \"", evidence.start);
        evidence_number("\", \"bytes\": ", evidence.bytes);
        evidence_number(before ? ", \"offset\": -" : ", \"offset\": ",
            before ? evidence.start - (uintptr_t)address : (uintptr_t)address - evidence.start);
        evidence_put(evidence.freed ? ", \"freed\": true}" : ", \"freed\": false}");
    }
    for (int which = 0; which < EVIDENCE_STACKS; which++)
        evidence_json_stack((enum evidence_stack)which);
    evidence_put(", \"modules\": [");
    for (uint32_t i = 0; i < evidence.modules_count; i++) {
        evidence_path(i ? ", {\"path\": " : "{\"path\": ", evidence.modules[i].path);
        evidence_string(", \"build_id\": ", evidence.modules[i].build_id);
        evidence_put("}");
    }
    evidence_put("]}\n");
    bool whole = evidence.at < EVIDENCE_TEXT - 1 && gb_port_append(evidence.file, evidence.text, evidence.at);
    if (!whole && !evidence.failed)
        gb_port_print(cut, sizeof cut - 1);
    evidence.failed |= !whole;
}

/* Called by gb_report. */
static void evidence_tell(const char *call, const void *address, const char *finding)
{
    uint32_t process = gb_port_process();
    if ((!evidence.file[0] && !gb_the.options.guard_bytes) || evidence_here /* a fault in here */)
        return;
    evidence_here = true;
    while (gb_swap(&evidence.busy, process) == process)
        gb_port_wait(&evidence.busy, process, 1);
    evidence_gather(address);
    evidence.modules_count = 0;
    evidence.own = (evidence_frame){.address = (uintptr_t)evidence_tell + 1};
    gb_port_modules_seen(evidence_module_seen, NULL);
    for (int which = 0; which < EVIDENCE_STACKS; which++)
        evidence_trim((enum evidence_stack)which);
    evidence_print();
    if (evidence.file[0])
        evidence_append(call, address, finding);
    gb_store(&evidence.busy, 0);
    evidence_here = false;
}

void gb_evidence_begin(void)
{
    const char *path = gb_port_environment("GLEBE_REPORT");
    int error = 0;
    if (path && *path) {
        if (!gb_port_absolute(path, evidence.file, sizeof evidence.file)) {
            gb_option_complain("malformed", "GLEBE_REPORT", path, "a path of at most 511 bytes");
            evidence.file[0] = 0;
            return;
        }
        int file = gb_port_create(evidence.file, true, &error);
        if (file >= 0)
            gb_port_finish(file, evidence.file, evidence.file);
        if (error && error != EEXIST) {
            gb_text_failed("report", evidence.file, error);
            evidence.file[0] = 0;
            return;
        }
        gb_port_stack_start();
    }
    gb_the.evidence = evidence_tell; /* blocks may be guarded later */
}

#endif
