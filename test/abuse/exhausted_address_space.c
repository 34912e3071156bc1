/* Memory exhausted because the process may have no more address space.
 *
 * address: 200M
 * all: served */
#include "exhausted.h"
