/* Memory exhausted by glebe's own limit: every function returns NULL and ENOMEM, repeatedly, and serves again after a
 * free.
 *
 * options: limit=48M
 * all: served */
#include "exhausted.h"
