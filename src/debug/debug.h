/* Code that looks at heaps and changes nothing: statistics, glebe_check. */
#ifndef GB_DEBUG_H
#define GB_DEBUG_H

#include "../gc/gc.h"

#pragma GCC visibility push(hidden)

/* ---- text: what goes to a file in pieces (GB_SNAPSHOTS) ---- */
typedef struct gb_text {
    int file, error;
    size_t count;
    char text[4096];
} gb_text;
void gb_text_put(gb_text *out, const char *text);
void gb_text_bytes(gb_text *out, const char *text, size_t bytes);
/* Put a space and a number, decimal or hexadecimal. */
void gb_text_number(gb_text *out, uint64_t value);
void gb_text_hex(gb_text *out, uintptr_t value);
void gb_text_flush(gb_text *out);
/* Prints the line that says that `what`, a profile or a snapshot, cannot be written to this file. */
enum { GB_TEXT_NAME_BYTES = 512 + 48 }; /* room for a path, with numbers behind it */
void gb_text_failed(const char *what, const char *name, int error);

/* ---- stats ---- */
/* Returns the bytes of all blocks in use except huge ones, as far as this thread can tell: free blocks on thread free
 * lists of other threads, and remote frees that were not sent yet, count as in use. Looks at every page. */
size_t gb_blocks_bytes(void);

/* The bytes of each class's blocks in use, likewise, and of its pages. Last come pages of many classes, and larger
 * blocks. */
typedef struct gb_class_sum {
    uint64_t live_bytes, held_bytes;
} gb_class_sum;
#define GB_CLASS_SUMS (GB_CLASSES + 2)
void gb_blocks_by_class(gb_class_sum sums[GB_CLASS_SUMS]);

/* stats.c: print the line of GLEBE_VERBOSE, and the output of GLEBE_STATS, at exit. */
void gb_verbose_say(void);
void gb_stats_say(void);

/* ---- shape: the layout of this build, for readers outside the process; not in linear memory ---- */
const void *gb_shape_address(void);
/* Calls `each` for each piece of memory that the shape consists of. */
void gb_shape_each(void (*each)(gb_text *out, const void *start, size_t bytes), gb_text *out);

/* ---- profile ---- */
/* The profile that GLEBE_PROFILE names, at the start and at exit. */
void gb_profile_begin(void);
void gb_profile_end(void);
/* Writes the profile's text. `modules` is gb_port_modules, or gb_port_modules_seen where the loader may not be asked.
 * The caller holds no lock. */
typedef void gb_modules_each(void (*each)(void *context, const gb_module *module), void *context);
void gb_profile_put(gb_text *out, gb_modules_each *modules);

/* ---- evidence: what is known about a misuse (GB_SNAPSHOTS) ---- */
/* Reads GLEBE_REPORT. From here on reports have evidence. */
void gb_evidence_begin(void);

/* ---- snapshot: the file that GLEBE_SNAPSHOT names ---- */
void gb_snapshot_begin(void);

#pragma GCC visibility pop

#endif
