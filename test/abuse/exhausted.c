/* Memory that ends, by glebe's own limit: every function answers NULL and ENOMEM, again and again, and serves once more
 * when something was freed.
 *
 * options: limit=48M
 * all: served */
#include "exhausted.h"
