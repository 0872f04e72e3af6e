// Work of a step, told piece by piece and started together: as a CUDA graph once the same pieces
// have come a second time.
#ifndef BD_RT_CUDA_SEGMENT_H
#define BD_RT_CUDA_SEGMENT_H
#include "runtime/braid_rt.h"
#include "runtime/cuda/kernels.h"

typedef struct bd_cuda_segments bd_cuda_segments;

enum { BD_CUDA_MOST_KEPT = 2048 }; // in the device's table, in the library segment

// Does `body` with a copy of `args`, in order with all that is asked on the rank's stream: at once,
// or in a step together with what comes before and after it. `body` asks for nothing but kernels,
// products, copies and fills on the device. Equal bytes must mean equal work.
typedef void (*bd_cuda_body)(bd_rt *rt, const void *args);
void bd_cuda_do(bd_rt *rt, bd_cuda_body body, const void *args, size_t bytes);
// For a body: the arguments of what comes after it, where that has the same body, which is then not
// called for them; or NULL.
const void *bd_cuda_take_next(bd_rt *rt, bd_cuda_body body);
// Where a kernel of bd_cuda_do finds these bytes, at most a bd_cuda_kept, on the device. They are
// no part of what it is: segments that differ in them alone are one graph.
const void *bd_cuda_keep(bd_rt *rt, const void *what, size_t bytes);
// The queue for work that is started right away: all that was told before has been started.
const bd_cuda_queue *bd_cuda_now(bd_rt *rt);

// A step begins or ends.
void bd_cuda_begin_step(bd_rt *rt);
void bd_cuda_end_step(bd_rt *rt);

// 0, or an exit status.
int bd_cuda_open_segments(bd_rt *rt);
void bd_cuda_close_segments(bd_rt *rt);
#endif
