// A CUDA device that is not there. Programs linked with this library instead of CUDA's run on host
// memory: what they enqueue is carried out late, one piece at a time, in an order that only streams
// and events bind, chosen by a seed; so a missing wait shows as a wrong number. Whatever a device
// would leave undefined ends the process with one line that names the call.
#ifndef BD_TESTS_DEVICE_H
#define BD_TESTS_DEVICE_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

enum { BD_FAKE_EXIT = 99, BD_FAKE_EXIT_PEER = 98 };

// One line on stderr, then the end of this process.
void bd_fake_fault(const char *call, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
// A number from the environment, `otherwise` when it is not set.
long long bd_fake_setting(const char *name, long long otherwise);

// Memory. Fresh bytes are 0xFF: not-a-number as float, -1 as an index. Shared memory is the
// device's that NCCL gave: it starts at a page.
typedef enum bd_fake_kind { BD_FAKE_DEVICE, BD_FAKE_PINNED, BD_FAKE_SHARED } bd_fake_kind;
void *bd_fake_allocate(bd_fake_kind kind, size_t bytes);
// The same for a program: NULL when the device has no more.
void *bd_fake_take(const char *call, bd_fake_kind kind, size_t bytes);
// Ends the process when `at` is not the start of a live allocation of this kind.
void bd_fake_release(const char *call, bd_fake_kind kind, void *at);
// Ends the process when a device could not reach all of these bytes.
void bd_fake_check(const char *call, const char *name, const void *at, size_t bytes, size_t align);
// Whether all bytes lie in one live allocation of this kind; what is shared is the device's too.
int bd_fake_holds(bd_fake_kind kind, const void *at, size_t bytes);
// The live allocation of the device's that `at` lies in, or NULL; whether NCCL gave it.
const void *bd_fake_range(const void *at, size_t *out_bytes, int *out_shared);
int bd_fake_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes);
uint64_t bd_fake_sum_of(const void *at, size_t bytes); // to see whether bytes were changed
// Outside its own work the device's memory cannot be touched: `open` says which.
void bd_fake_protect(int open);

// Work. `body` runs later with a copy of `args` and returns 1 when it is done, 0
// to be tried again because something it waits for has not happened yet.
typedef int (*bd_fake_body)(void *args);
void bd_fake_enqueue(const char *call, cudaStream_t stream, bd_fake_body body, const void *args,
                     size_t bytes);
// Blocks the caller until `done` holds, letting the device work. `done` runs under its lock.
void bd_fake_wait(const char *call, int (*done)(void *args), void *args);
// The host asks whether something is done: a little work goes on between two questions.
void bd_fake_let_work(const char *call);
// All work of every stream.
void bd_fake_drain(const char *call);
void bd_fake_check_started(const char *call); // a device was chosen and the library initialized
// Code is loaded when it is first wanted, and that may wait for all that the device does: where
// there are communicators for other ranks, which may wait for this one. Ends the process where code
// is wanted then that is not there yet; else `*loaded` is set.
void bd_fake_want(const char *call, int *loaded);

// Time that products have pretended to take, besides what they have taken; and a number that stands
// for which algorithms these were, whatever their order.
int64_t bd_fake_pretended_micros(void);
int64_t bd_fake_algorithms_digest(void);

// What the program did, for the report at its end.
typedef struct bd_fake_counts {
  int64_t device_allocations, device_bytes, device_peak_bytes, pinned_bytes;
  int64_t heuristics; // that cublasLt was asked for
  int64_t launches, kernels, fills, copies, matmuls, dnn, collectives, messages, streams, graphs;
  int64_t preferred_streams; // of the first priority
  int64_t windows, window_collectives, copy_engine_collectives;
  int64_t stream_changes; // collectives on another stream than the communicator's one before
  int64_t communicators;  // that there are
  int64_t handles;        // streams, events, libraries, communicators, .. that were not given back
} bd_fake_counts;
extern bd_fake_counts bd_fake_count;

// Writes them to $BD_FAKE_REPORT, if that is set, when the process ends.
void bd_fake_report_at_end(void);

static inline int64_t bd_fake_round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
#endif
