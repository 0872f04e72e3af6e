// Numbers of a step on their way to the kernels of a graph, whose own arguments stay what they are.
#include "runtime/cuda/device.cuh"

enum { AT_ONCE = 64 };

struct batch {
  bd_cuda_kept kept[AT_ONCE];
};

static __global__ void put(batch from, int count, bd_cuda_kept *to) {
  BD_FOR_ITEMS(i, count) to[i] = from.kept[i];
}

void bd_cuda_put(const bd_cuda_queue *queue, const bd_cuda_kept *from, int count,
                 bd_cuda_kept *to) {
  for (int done = 0; done < count; done += AT_ONCE) {
    batch next = {};
    const int part = count - done < AT_ONCE ? count - done : AT_ONCE;
    for (int i = 0; i < part; i++)
      next.kept[i] = from[done + i];
    BD_LAUNCH(put, 1, AT_ONCE, queue->stream, next, part, to + done);
  }
}
