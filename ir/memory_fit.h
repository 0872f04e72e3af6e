// Private to memory: buffers with lifetimes, packed.
#ifndef BD_IR_MEMORY_FIT_H
#define BD_IR_MEMORY_FIT_H
#include "ir/base/context.h"

typedef struct bd_buffer {
  int first, last; // steps, both included
  int64_t bytes;
  int64_t offset_bytes; // set by bd_fit_buffers
} bd_buffer;

// First fit by decreasing size; equal sizes in the given order. Returns the height.
int64_t bd_fit_buffers(bd_ctx *ctx, bd_buffer *buffers, int count);
#endif
