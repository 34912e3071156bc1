/* The generated table, made into objects. size_class.h has the picture. */
#include "size_class.h"

#define GB_CLASS_ROW(bytes, magic, shift, slices) {bytes, magic, shift, slices},
const gb_class gb_classes[GB_CLASSES] = {GB_CLASS_TABLE(GB_CLASS_ROW)};
#undef GB_CLASS_ROW

const uint8_t gb_class_lookup[GB_SMALL_MAX / 16 + 1] = {GB_CLASS_LOOKUP};
