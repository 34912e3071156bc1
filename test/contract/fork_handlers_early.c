/* The handlers of fork_handlers.c in a library whose constructor registers them, which may be before glebe's own
 * ran. */
#define EARLY
#include "fork_handlers.c"
