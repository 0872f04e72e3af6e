// Convolution of a tile by oneDNN, in the layouts that its kernels are fastest with.
#ifndef BD_RT_CPU_CONV_KERNEL_H
#define BD_RT_CPU_CONV_KERNEL_H
#include "runtime/cpu/rt.h"

enum bd_rt_conv_kind {
  BD_RT_CONV_FORWARD, // y of x and w
  BD_RT_CONV_INPUT,   // x of y and w, as gradients
  BD_RT_CONV_FILTER,  // w of x and y, as gradients
};

// Channels of a tile lie in blocks, one after another, and within a block point by point: those of
// channel c and point p are at ((c / block) * points + p) * block + c % block. Missing ones are 0.
typedef struct bd_rt_conv_kernel {
  int64_t x_block, y_block;
  int64_t x_floats, y_floats, w_floats, room_floats; // packed, and what a call needs beside them
} bd_rt_conv_kernel;

// For tiles of this shape, whose padding after the end is what `y` leaves; on one thread. Groups
// are 1, or as many as both channels. Made when first asked for, by the rank's main thread, and
// kept. Ends the job when oneDNN fails.
const bd_rt_conv_kernel *bd_rt_conv_kernel_get(bd_rt *rt, enum bd_rt_conv_kind kind,
                                               const bd_rt_conv *tile);
// Room of at least `*floats` for each worker, *floats (written) apart; until the next call.
// Threads' own scratch where it is enough, else kept for the largest that was asked for.
float *bd_rt_conv_scratch(bd_rt *rt, int64_t *floats);
// Writes one of x, w and y, as the kind says. All pointers are aligned to 64 bytes; `room` has
// room_floats.
void bd_rt_conv_kernel_run(const bd_rt_conv_kernel *kernel, int worker, float *x, float *w,
                           float *y, float *room);
// Filters [o, c / groups, k..] as the kernel takes them, or (FILTER) from what it makes.
void bd_rt_conv_kernel_reorder(const bd_rt_conv_kernel *kernel, int worker, float *from, float *to,
                               float *room);
#endif
