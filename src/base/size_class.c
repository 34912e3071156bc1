/* The generated table as C objects. size_class.h has the picture. */
#include "size_class.h"

#if GB_SHORT
#define GB_CLASS_ROW(bytes, magic, shift, first, slices, exact) {bytes, magic, shift, first, slices},
#else
#define GB_CLASS_ROW(bytes, magic, shift, first, slices, exact) {bytes, magic, shift, first, slices, exact},
#endif
#if !GB_SECURE
#undef GB_CLASS_TAILED
#undef GB_CLASS_TAILED_LOOKUP
#define GB_CLASS_TAILED(X)
#define GB_CLASS_TAILED_LOOKUP
#endif
const gb_class gb_classes[GB_CLASSES + 1] = {GB_CLASS_TABLE(GB_CLASS_ROW) GB_CLASS_TAILED(GB_CLASS_ROW)};
#undef GB_CLASS_ROW

#if GB_SHORT
#define GB_CLASS_SMALL(cls) cls,
#else
#define GB_CLASS_SMALL(c) c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c,
#endif
const uint8_t gb_class_small[GB_CLASS_SMALL_ROWS] = {GB_ZERO_CLASS, GB_CLASS_SMALL_LOOKUP(GB_CLASS_SMALL)};
#undef GB_CLASS_SMALL
#if !GB_SHORT
const uint8_t gb_class_words[GB_SMALL_MAX / 8 + 1] = {GB_CLASS_WORDS_LOOKUP};
const uint8_t gb_class_medium[GB_MEDIUM_ROWS] = {GB_CLASS_MEDIUM_LOOKUP GB_CLASS_TAILED_LOOKUP};
#endif
