/* The handlers of fork_handlers.c, in a library whose constructor registers them, perhaps before glebe's own
 * constructor runs. */
#define EARLY
#include "fork_handlers.c"
