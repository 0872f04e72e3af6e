// A thread that ends a rank whose own thread cannot: one that waits inside of CUDA or NCCL for a
// rank that has ended, or is otherwise busy, looks at nobody.
#ifndef BD_RT_CUDA_WATCHDOG_H
#define BD_RT_CUDA_WATCHDOG_H
#include "runtime/rank.h"

// Watches the ranks that this one has met. When one of them ends, this rank's own thread has
// BD_WATCHDOG_SECONDS to end as well. Ends the job where there is no thread.
enum { BD_WATCHDOG_SECONDS = 3 };
typedef struct bd_watchdog bd_watchdog;
bd_watchdog *bd_watchdog_start(const bd_rt *rt);
// Before ranks leave each other on purpose. NULL is nothing.
void bd_watchdog_stop(bd_watchdog *watchdog);
#endif
