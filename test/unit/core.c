/* The core on the fake port, for tests to link with. */
#include "build.h"

unsigned long fixture_probes;

#include "../../src/glebe.c"
