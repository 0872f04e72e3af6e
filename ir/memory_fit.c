#include "ir/memory_fit.h"

// Stable insertion into decreasing size.
static void sort_by_size(const bd_buffer *buffers, int count, int *order) {
  for (int i = 0; i < count; ++i) {
    int at = i;
    for (; at > 0 && buffers[order[at - 1]].bytes < buffers[i].bytes; --at)
      order[at] = order[at - 1];
    order[at] = i;
  }
}

static bool live_together(const bd_buffer *a, const bd_buffer *b) {
  return a->first <= b->last && b->first <= a->last;
}

// The lowest offset where `buffer` overlaps none of the `placed` buffers, which are sorted by
// offset.
static int64_t first_gap(const bd_buffer *buffers, const int *placed, int count,
                         const bd_buffer *buffer) {
  int64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    const bd_buffer *other = &buffers[placed[i]];
    if (!live_together(buffer, other)) continue;
    if (offset + buffer->bytes <= other->offset_bytes) return offset;
    int64_t end = other->offset_bytes + other->bytes;
    if (end > offset) offset = end;
  }
  return offset;
}

int64_t bd_fit_buffers(bd_ctx *ctx, bd_buffer *buffers, int count) {
  int *order = BD_NEW_ARRAY(ctx->arena, int, count);
  int *placed = BD_NEW_ARRAY(ctx->arena, int, count);
  sort_by_size(buffers, count, order);
  int64_t height = 0;
  for (int i = 0; i < count; ++i) {
    bd_buffer *buffer = &buffers[order[i]];
    buffer->offset_bytes = first_gap(buffers, placed, i, buffer);
    int64_t end = buffer->offset_bytes + buffer->bytes;
    if (end > height) height = end;
    int at = i;
    for (; at > 0 && buffers[placed[at - 1]].offset_bytes > buffer->offset_bytes; --at)
      placed[at] = placed[at - 1];
    placed[at] = order[i];
  }
  return height;
}
