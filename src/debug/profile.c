/* Heap profiles: the functions that start, stop and write them. heap/sample.c takes the samples.
 *
 * A profile is a text. Addresses are not resolved in the process: its lines name the code that is loaded, and a tool
 * (the command `glebe profile`) finds functions and lines in the files.
 *
 *     glebe-profile 1
 *     process 4711 python3
 *     mean 524288
 *     samples 1207 lost 0
 *     peak 73400320
 *     module 55d0a000 55d4c000 1000 4f2ab1... /usr/bin/python3.11        start, end, offset in the file, build-id or -
 *     label 1 tenant some value                                           before all sites
 *     labels 1                                                            of the next site
 *     lived 0 0 524288 ...                                                of the next site, if blocks were freed
 *     site 2.5 1310720 1.0 524288 2.5 1310720 55d0c123 7f3a0042 ...      see below
 *     end
 *
 * A site has blocks and bytes: allocated, live, and live at the peak, then its callers, the innermost first. They are
 * estimates: blocks are in 1/65536. `lived` has the freed bytes by lifetime (gb_lifetimes).
 *
 * A profile that GLEBE_PROFILE names is written at exit, and while the process allocates once a second: that stays if
 * the process is killed. It is written beside its final name, and renamed when it is complete. */
#include "debug.h"

#if GB_SAMPLES

enum { PROFILE_EVERY_MS = 1000 };

static void profile_module(void *context, const gb_module *module)
{
    gb_text *out = context;
    gb_text_put(out, "module");
    gb_text_hex(out, module->start);
    gb_text_hex(out, module->end);
    gb_text_hex(out, module->offset);
    gb_text_put(out, module->build_id_bytes ? " " : " -");
    for (size_t i = 0; i < module->build_id_bytes; i++)
        gb_text_put(out, (char[]){gb_digit(module->build_id[i] >> 4), gb_digit(module->build_id[i]), 0});
    gb_text_put(out, " ");
    for (const char *c = module->path; *c; c++)
        gb_text_put(out, *c == '\n' ? "\\012" : (char[]){*c, 0}); /* as the kernel's text of mappings has it */
    gb_text_put(out, "\n");
}

static void profile_weight(gb_text *out, const gb_weight *weight)
{
    gb_text_number(out, weight->objects);
    gb_text_number(out, weight->bytes);
}

static void profile_labels(gb_text *out, const gb_site *site)
{
    bool any = false;
    for (uint32_t frame = site->frame; frame; frame = gb_frame_at(frame)->caller) {
        if (!gb_frame_at(frame)->label)
            continue;
        gb_text_put(out, any ? "" : "labels");
        gb_text_number(out, gb_frame_at(frame)->label);
        any = true;
    }
    gb_text_put(out, any ? "\n" : "");
}

static void profile_lifetimes(gb_text *out, const gb_lifetimes *freed)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < GB_LIFETIMES; i++)
        sum += freed->bytes[i];
    for (uint32_t i = 0; sum && i < GB_LIFETIMES; i++) {
        gb_text_put(out, i ? "" : "lived");
        gb_text_number(out, freed->bytes[i]);
    }
    gb_text_put(out, sum ? "\n" : "");
}

/* The sampler's lock is held. */
static void profile_sites(gb_text *out)
{
    const gb_sampler *sampler = &gb_the.sampler;
    gb_text_put(out, "mean");
    gb_text_number(out, sampler->mean_bytes);
    gb_text_put(out, "\nsamples");
    gb_text_number(out, sampler->taken);
    gb_text_put(out, " lost");
    gb_text_number(out, sampler->lost);
    gb_text_put(out, "\npeak");
    gb_text_number(out, sampler->peak_bytes);
    gb_text_put(out, "\n");
    for (uint32_t number = 1; number < sampler->labels.count; number++) {
        const gb_label *label = gb_label_at(number);
        gb_text_put(out, "label");
        gb_text_number(out, number);
        gb_text_put(out, " ");
        gb_text_put(out, label->key);
        gb_text_put(out, " ");
        gb_text_put(out, label->value);
        gb_text_put(out, "\n");
    }
    for (uint32_t number = 1; number < sampler->sites.count; number++) {
        const gb_site *site = gb_site_at(number);
        gb_weight peak = gb_site_peak(site);
        profile_labels(out, site);
        profile_lifetimes(out, &site->freed);
        gb_text_put(out, "site");
        profile_weight(out, &site->allocated);
        profile_weight(out, &site->live);
        profile_weight(out, &peak);
        for (uint32_t frame = site->frame; frame; frame = gb_frame_at(frame)->caller)
            if (gb_frame_at(frame)->address)
                gb_text_hex(out, gb_frame_at(frame)->address);
        gb_text_put(out, "\n");
    }
}

/* The list of modules comes first, since the loader's lock comes before ours. */
void gb_profile_put(gb_text *out, gb_modules_each *modules)
{
    char program[64];
    gb_plain(program, sizeof program, gb_port_program(), "");
    gb_text_put(out, "glebe-profile 1\nprocess");
    gb_text_number(out, gb_port_process());
    gb_text_put(out, " ");
    gb_text_put(out, program);
    gb_text_put(out, "\n");
    modules(profile_module, out);
    gb_lock_take(&gb_the.sampler.lock);
    profile_sites(out);
    gb_lock_drop(&gb_the.sampler.lock);
    gb_text_put(out, "end\n");
}

/* Writes the profile to `path`, by way of a file beside it. */
static int profile_replace(const char *path)
{
    char beside[GB_TEXT_NAME_BYTES + 8];
    gb_text out = {.count = 0};
    if (gb_format(beside, sizeof beside, "%s.new", path) >= sizeof beside)
        return EINVAL;
    out.file = gb_port_create(beside, false, &out.error);
    if (out.file < 0)
        return out.error;
    gb_profile_put(&out, gb_port_modules);
    gb_text_flush(&out);
    int finished = gb_port_finish(out.file, beside, out.error ? NULL : path);
    return out.error ? out.error : finished;
}

/* ---- the profile that GLEBE_PROFILE names ---- */

/* The name of this process's profile. A number may have been another process's before, or another program's before
 * exec: each gets a file of its own. */
static int profile_name(char *name)
{
    gb_sampler *sampler = &gb_the.sampler;
    uint32_t process = gb_port_process();
    int error = 0;
    if (sampler->process != process) {
        enum { ROUNDS = 1000 };
        for (sampler->round = 0; sampler->round < ROUNDS; sampler->round++) {
            gb_format(name, GB_TEXT_NAME_BYTES, "%s.%u.%u", sampler->path, process, sampler->round);
            int file = gb_port_create(name, true, &error);
            if (file >= 0)
                gb_port_finish(file, name, name);
            if (error != EEXIST)
                break;
        }
        if (error)
            return error;
        sampler->process = process;
    }
    gb_format(name, GB_TEXT_NAME_BYTES, "%s.%u.%u", sampler->path, process, sampler->round);
    return 0;
}

static void profile_save(void)
{
    static _Atomic uint32_t saving; /* process in which a thread is here; a child of fork is another */
    char name[GB_TEXT_NAME_BYTES];
    gb_sampler *sampler = &gb_the.sampler;
    uint32_t process = gb_port_process();
    if (gb_swap(&saving, process) == process)
        return; /* another thread does */
    int error = profile_name(name);
    error = error ? error : profile_replace(name);
    sampler->written_ms = gb_port_now_ms();
    if (error) {
        gb_text_failed("profile", name, error);
        sampler->written = NULL;
        sampler->path[0] = 0;
    }
    gb_store(&saving, 0);
}

/* Called after each sample. The more sites there are, the longer the pause, so that writing takes little time. */
static void profile_due(void)
{
    const gb_sampler *sampler = &gb_the.sampler;
    uint32_t sites = sampler->sites.count;
    if (gb_ms_since(gb_port_now_ms(), sampler->written_ms) >= PROFILE_EVERY_MS + sites / 4)
        profile_save();
}

void gb_profile_begin(void)
{
    gb_sampler *sampler = &gb_the.sampler;
    const char *path = gb_port_environment("GLEBE_PROFILE");
    if (gb_port_environment("GLEBE_TOOL_SAMPLE"))
        glebe_profile_start(0); /* the command reads the samples from outside */
    if (!path || !*path)
        return;
    size_t bytes = strlen(path) + 1;
    if (bytes > sizeof sampler->path) {
        static const char text[] = "glebe: profile: GLEBE_PROFILE is too long\n";
        gb_port_print(text, sizeof text - 1);
        return;
    }
    memcpy(sampler->path, path, bytes);
    sampler->written_ms = gb_port_now_ms();
    sampler->written = profile_due;
    int error = glebe_profile_start(0);
    if (error)
        gb_text_failed("profile", sampler->path, error);
}

void gb_profile_end(void)
{
    if (gb_the.sampler.path[0])
        profile_save();
}

#elif GB_THREADS

void gb_profile_begin(void)
{
    static const char text[] = "glebe: GLEBE_PROFILE is ignored: only the default build takes samples\n";
    const char *path = gb_port_environment("GLEBE_PROFILE");
    if (path && *path)
        gb_port_print(text, sizeof text - 1);
}

#endif

/* ---- public ---- */

int glebe_profile_start(size_t mean_bytes)
{
    GB_ENTRY;
#if GB_SAMPLES
    size_t usual = gb_the.options.profile_bytes ? gb_the.options.profile_bytes : GB_SAMPLE_BYTES;
    return gb_sampler_start(mean_bytes ? mean_bytes : usual, false);
#else
    (void)mean_bytes;
    return ENOSYS;
#endif
}

void glebe_profile_stop(void)
{
    GB_ENTRY;
#if GB_SAMPLES
    if (gb_load_relaxed(&gb_the.sampler.heap))
        gb_sampler_stop();
#endif
}

int glebe_profile_write(const char *path)
{
    GB_ENTRY;
#if GB_SAMPLES
    return !path || !*path ? EINVAL : gb_load_relaxed(&gb_the.sampler.starts) ? profile_replace(path) : ENOENT;
#else
    (void)path;
    return ENOSYS;
#endif
}

int glebe_profile_label(const char *key, const char *value)
{
    GB_ENTRY;
#if GB_SAMPLES
    return gb_label_set(key, value);
#else
    (void)key;
    (void)value;
    return ENOSYS;
#endif
}
