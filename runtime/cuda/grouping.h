// Products of rows in groups, whose ends the host learns as a step goes on: where they lie, and
// streams that small products are dealt out to.
#ifndef BD_RT_CUDA_GROUPING_H
#define BD_RT_CUDA_GROUPING_H
#include "runtime/cuda/sized.h"

enum { BD_CUDA_FAN = 4 }; // streams, the rank's own among them

struct bd_cuda_grouping {
  int32_t *ends;   // pinned, `most_ends` of the stage
  int32_t *bounds; // as many, of one call
  bd_cuda_sized_fits *fits;
  cudaStream_t beside[BD_CUDA_FAN]; // none in the place of the rank's own, the first
  cudaEvent_t forked, joined[BD_CUDA_FAN];
  int streams; // that are at work
  int expected_count;
  bd_cuda_sized *expected; // products of a step, of its rehearsal
};

// Nothing for a stage without grouped products.
void bd_cuda_open_grouping(bd_rt *rt);
void bd_cuda_release_grouping(bd_rt *rt);

// What the products of groups read: a call's factors, or their copies in 8 bits.
typedef struct bd_cuda_grouped {
  bd_rt_grouped shape;        // with strides of what is read
  int64_t x_column, y_column; // strides along k and n
  const char *x, *other;      // the second: w, or y of the gradient of w
  int64_t bytes;              // of an element
  const float *scales[2];     // of each: see bd_cuda_sized; NULL: they are not rounded
} bd_cuda_grouped;
// grouped_float8.c. Of bd_rt_grouped_rows, and of bd_rt_grouped_weights; nothing is done yet.
bd_cuda_grouped bd_cuda_grouped_rows(const bd_rt_grouped *shape, const void *x, const void *w);
bd_cuda_grouped bd_cuda_grouped_terms(const bd_rt_grouped *shape, const void *x, const void *y);
// Starts the kernels that make the copies, of which there may be none.
void bd_cuda_round_rows(bd_rt *rt, const bd_rt_grouped *shape, const void *x, const void *w);
void bd_cuda_round_terms(bd_rt *rt, const bd_rt_grouped *shape, const void *x, const void *y);

// The ends of groups in whole grains, each at least the one before and at most `rows`, until the
// next call.
const int32_t *bd_cuda_bounds(bd_rt *rt, const bd_rt_grouped *shape, const int32_t *ends);

// warm.c. While rehearsing: a step makes such products, of at most this size.
void bd_cuda_expect_sized(bd_rt *rt, const bd_cuda_sized *largest);
// After the rehearsal and before there are communicators: runs one product of each class of sizes
// that are expected. Overwrites the arena.
void bd_cuda_run_expected(bd_rt *rt);

// fan.c. Whether a product of so many rows and columns leaves multiprocessors idle, so that others
// are to run beside it, each with its share of the library segment.
int bd_cuda_is_small(const bd_rt *rt, int64_t rows, int64_t columns);
// For `items` small products: streams that begin with what has been asked for so far. Returns how
// many there are.
int bd_cuda_fan_out(bd_rt *rt, int64_t items);
cudaStream_t bd_cuda_fan_stream(bd_rt *rt, int number);
// What is asked for from here on waits for all of them.
void bd_cuda_fan_in(bd_rt *rt);
void bd_cuda_open_fan(bd_rt *rt);
void bd_cuda_close_fan(bd_rt *rt);
#endif
