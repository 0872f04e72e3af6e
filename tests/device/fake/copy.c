// Memory and copies.
#include "tests/device/fake/queue.h"

#include <string.h>

static int64_t bytes_of_device(void) {
  return bd_fake_setting("BD_FAKE_DEVICE_BYTES", 4LL << 30);
}

// What neither this process nor another holds.
static int64_t free_bytes(void) {
  return bytes_of_device() - bd_fake_setting("BD_FAKE_HELD_BYTES", 0) - bd_fake_count.device_bytes;
}

void *bd_fake_take(const char *call, bd_fake_kind kind, size_t bytes) {
  bd_fake_check_started(call);
  if (!bytes) bd_fake_fault(call, "no bytes are asked for");
  return (int64_t)bytes > free_bytes() ? NULL : bd_fake_allocate(kind, bytes);
}

cudaError_t cudaMalloc(void **at, size_t bytes) {
  *at = bd_fake_take(__func__, BD_FAKE_DEVICE, bytes);
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *at) {
  if (!at) return cudaSuccess;
  bd_fake_drain(__func__);
  bd_fake_release(__func__, BD_FAKE_DEVICE, at);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void **at, size_t bytes) {
  bd_fake_check_started(__func__);
  *at = bd_fake_allocate(BD_FAKE_PINNED, bytes);
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *at) {
  if (!at) return cudaSuccess;
  bd_fake_drain(__func__);
  bd_fake_release(__func__, BD_FAKE_PINNED, at);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  bd_fake_check_started(__func__);
  *total = (size_t)bytes_of_device();
  *free = (size_t)free_bytes();
  return cudaSuccess;
}

typedef struct copying {
  void *to;
  const void *from;
  size_t bytes;
} copying;

static int copy(void *args) {
  const copying *const c = args;
  memcpy(c->to, c->from, c->bytes);
  return 1;
}

static int is_device(const void *at, size_t bytes) {
  return bd_fake_holds(BD_FAKE_DEVICE, at, bytes);
}

static int is_pinned(const void *at, size_t bytes) {
  return bd_fake_holds(BD_FAKE_PINNED, at, bytes);
}

static void check_copy(const char *call, const copying *c, enum cudaMemcpyKind kind) {
  const int from = is_device(c->from, c->bytes), to = is_device(c->to, c->bytes);
  const int from_wanted = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const int to_wanted = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (from != from_wanted || to != to_wanted))
    bd_fake_fault(call, "kind %d, from %s to %s memory", (int)kind, from ? "device" : "other",
                  to ? "device" : "other");
  if (bd_fake_overlap(c->from, c->bytes, c->to, c->bytes))
    bd_fake_fault(call, "source and target overlap");
}

// BD_FAKE_LOSES: so many bytes are allocated, and not given back, when the program asks for the
// copy number BD_FAKE_LOSES_AT.
static void lose_memory(void) {
  const long long bytes = bd_fake_setting("BD_FAKE_LOSES", 0);
  if (bytes && bd_fake_count.copies == bd_fake_setting("BD_FAKE_LOSES_AT", 1))
    bd_fake_take(__func__, BD_FAKE_DEVICE, (size_t)bytes);
}

static int is_pageable(const void *at, size_t bytes) {
  return !is_device(at, bytes) && !is_pinned(at, bytes);
}

// Pageable memory is read or complete at the return, as CUDA has it.
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const copying c = {to, from, bytes};
  if (!bytes) return cudaSuccess;
  check_copy(__func__, &c, kind);
  // A graph would read or write what the host has there at another time.
  if (kind != cudaMemcpyDeviceToDevice) bd_fake_refuse_capture(__func__, stream);
  bd_fake_count.copies++;
  lose_memory();
  const int wait = is_pageable(to, bytes) || is_pageable(from, bytes);
  bd_fake_enqueue(__func__, stream, copy, &c, sizeof c);
  return wait ? cudaStreamSynchronize(stream) : cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
  return error ? error : cudaStreamSynchronize(NULL);
}

typedef struct filling {
  void *to;
  int value;
  size_t bytes;
} filling;

static int fill(void *args) {
  const filling *const f = args;
  memset(f->to, f->value, f->bytes);
  return 1;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  if (!bytes) return cudaSuccess;
  bd_fake_count.fills++;
  bd_fake_check(__func__, "the target", to, bytes, 1);
  bd_fake_enqueue(__func__, stream, fill, &(filling){to, value, bytes}, sizeof(filling));
  return cudaSuccess;
}

typedef struct block {
  char *to;
  size_t pitch, width, height;
  int value;
} block;

static int fill_block(void *args) {
  const block *const b = args;
  for (size_t row = 0; row < b->height; row++)
    memset(b->to + row * b->pitch, b->value, b->width);
  return 1;
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  const block b = {to, pitch, width, height, value};
  if (!width || !height) return cudaSuccess;
  if (pitch < width) bd_fake_fault(__func__, "rows of %zu bytes, %zu apart", width, pitch);
  bd_fake_check(__func__, "the target", to, (height - 1) * pitch + width, 1);
  bd_fake_enqueue(__func__, stream, fill_block, &b, sizeof b);
  return cudaSuccess;
}
