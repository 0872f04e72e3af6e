// What a back end implements for the shared part of the runtime. Device memory is the arena and the
// back end's workspace; work on it runs in the order in which it was asked for.
#ifndef BD_RT_BACKEND_H
#define BD_RT_BACKEND_H
#include "runtime/factors.h"
#include "runtime/layout.h"
#include "runtime/rank.h"
#include "runtime/rounding.h"
#include "runtime/squares.h"

// Joins the launcher: sets rank and ranks. Returns 0, or a status after a line on stderr.
int bd_rt_start(bd_rt *rt, int argc, char **argv);
void bd_rt_stop(bd_rt *rt);
// For a placed rank: device, arena (zeroed), groups, threads, scratch, sums, and what
// bd_rt_overlap_open makes. Returns 0 or a status that all ranks agree on, after one has spoken.
int bd_rt_open(bd_rt *rt);
void bd_rt_close(bd_rt *rt);
// For a rank that fails by itself, before it says why: of several that fail at once one returns
// from here, the others end. Where the launcher ends the ranks all may speak.
void bd_rt_claim(int status);
// Ends the whole job with a status, from one rank.
void bd_rt_abort(int status) __attribute__((noreturn));

// Collective. 0 when every rank passes 0; else the status of the lowest rank that failed, which
// alone says its message.
int bd_rt_agree(bd_rt *rt, int status, const char *message);
// Adds host values of all ranks in ascending rank order, in place on every rank.
void bd_rt_sum_ranks(bd_rt *rt, double *values, int count);
// Rows of all ranks, one after another, on rank 0.
void bd_rt_gather_rows(bd_rt *rt, const int64_t *row, int fields, int64_t *rows);
// Host words of all ranks or-ed together, in place on rank 0; other ranks' may change.
void bd_rt_merge_words(bd_rt *rt, uint32_t *words, int count);

// Moments on the device's clock. A stamp is taken when the work before it is done, of the queue
// that the back end names when it tells of a message, or of the rank's own (NULL).
// bd_rt_stamps_read waits for the first `count` stamps and gives the seconds from stamp 0 to each.
enum { BD_RT_STAMPS = 4096 };
int bd_rt_stamps_open(bd_rt *rt); // 0, or a status
void bd_rt_stamps_close(bd_rt *rt);
void bd_rt_stamp(bd_rt *rt, int stamp, void *queue);
void bd_rt_stamps_read(bd_rt *rt, int count, double *seconds);

// Tells tools that watch this process which range of a step (see bd_rt_begin) begins and ends.
void bd_rt_annotate(bd_rt *rt, int what, int64_t number);
void bd_rt_annotate_end(bd_rt *rt);

// What the device says of itself.
typedef struct bd_rt_sensors {
  double power_watts, clock_mhz, memory_clock_mhz;
  int64_t memory_used_bytes, memory_bytes; // of all who use the device
} bd_rt_sensors;
// 1, or 0 where nobody can tell.
int bd_rt_sense(const bd_rt *rt, bd_rt_sensors *out);

// Memory as the driver of the device has it.
typedef struct bd_rt_memory {
  int64_t free_bytes; // of the device, for all who use it
  // Of the allocation that the arena begins or lies in, and what sizes of such may be rounded up to
  // a multiple of. -1: the driver does not say.
  int64_t arena_bytes, unit_bytes;
} bd_rt_memory;
// 1, or 0 where there is no such driver.
int bd_rt_look_at_memory(const bd_rt *rt, bd_rt_memory *out);

// Waits until all that was asked of the device is done.
void bd_rt_settle(bd_rt *rt);
// No more samples are asked for; nothing of --data is read from here on.
void bd_rt_samples_end(bd_rt *rt);
void bd_rt_copy(bd_rt *rt, void *to, const void *from, int64_t bytes);
// Host memory to be filled instead of `bytes` (at most 4 * BD_RT_SCRATCH_FLOATS) of the arena at
// `data`, which bd_rt_unmap then brings there. One at a time.
void *bd_rt_map(bd_rt *rt, void *data, int64_t bytes);
void bd_rt_unmap(bd_rt *rt, void *data, int64_t bytes);
// Host memory with what `bytes` (as many at most) of the arena at `data` hold, until it is mapped
// or viewed again.
const void *bd_rt_view(bd_rt *rt, const void *data, int64_t bytes);
// Device memory that no function above or below uses by itself; as much on every rank.
float *bd_rt_workspace(bd_rt *rt, int64_t *out_floats);

// Clears an accumulator of gradients before a step; or has what the step adds to it first overwrite
// it.
void bd_rt_clear_gradient(bd_rt *rt, void *at, int64_t bytes);

// Buffers here are of `dtype`: f32, or what is written to them is rounded to the nearest half.
// This rank's part of a weight as the seed has it (runtime/initial.h), zero where it is padding.
void bd_rt_fill(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int dtype,
                void *buffer);
// Stored elements [first, first + count) from or to host memory: those that this rank holds at
// their places in the weight's buffer, the others left alone.
void bd_rt_place(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int64_t first,
                 int64_t count, const float *values, int dtype, void *buffer);
void bd_rt_pick(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int64_t first,
                int64_t count, int dtype, const void *buffer, float *values);
// Logical elements [first, first + count) from (or with `store` to) this rank's buffer to (or from)
// device memory, both of `dtype`; elements that it does not hold are left alone.
void bd_rt_window(bd_rt *rt, const bd_rt_local *local, int64_t first, int64_t count, int dtype,
                  void *values, void *buffer, int store);
// Zeroes the elements of a buffer that are padding.
void bd_rt_clear_padding(bd_rt *rt, const bd_rt_local *local, int dtype, void *buffer);

// Rounds to the nearest bf16 or f16.
void bd_rt_narrow(bd_rt *rt, int dtype, const float *wide, uint16_t *halves, int64_t count);

// sum += more, both of `dtype`, BD_RT_F32 or BD_RT_BF16: then each sum in f32 is rounded to the
// nearest.
void bd_rt_add(bd_rt *rt, int dtype, void *sum, const void *more, int64_t count);
// Sums of squares, each in fixed chunks that its count alone decides; they are there after
// bd_rt_settle.
void bd_rt_square_sums(bd_rt *rt, int tensors, const bd_rt_squares *squares);

// One weight's update.
typedef struct bd_rt_rule {
  int kind;                       // BD_RT_SGD, ...
  float *weight, *first, *second; // moments, as many as the optimizer has
  // NULL, or where the weight goes as `half_dtype` as well. Without `weight` it is the weight, in
  // bf16, and rounded stochastically by `draws`.
  uint16_t *halves;
  int32_t half_dtype;
  const void *gradient;   // times `factor`
  int32_t gradient_dtype; // BD_RT_F32; without `weight` also BD_RT_BF16
  int64_t count;
  // In the model's buffer (`halves`, or without them `weight`) the elements lie in rows of `row`,
  // `stride` apart. 0: one after another.
  int64_t row, stride;
  float factor, rate, shrink, decay, beta1, beta2, eps, correction2;
  bd_rt_factors factors; // Adafactor's
  bd_rt_draws draws;
} bd_rt_rule;
void bd_rt_apply(bd_rt *rt, const bd_rt_rule *rule);
// Squares of a rule's gradients are mixed into the averages of its rows, of its columns and into
// their mean, squares of its weights into theirs; then squares of its updates into theirs.
void bd_rt_add_factors(bd_rt *rt, const bd_rt_rule *rule, const bd_rt_mixings *mixings);
void bd_rt_add_updates(bd_rt *rt, const bd_rt_rule *rule, bd_rt_mixing mixing);

// Between ranks beside other work. What is asked between bd_rt_aside and bd_rt_back begins when all
// asked before is done, one after another, and goes on beside what is asked later: sums and gathers
// of one group of ranks that need no memory of the back end's. It goes on until bd_rt_await with
// the slot, which several may have, or without one until bd_rt_join. bd_rt_runs_aside: whether
// there is such a way at all; it is the same on every rank.
// Slots are those of stage programs (bd_rt_prefetch), and behind them those of deferred gathers
// (runtime/deferred.h): one for the bucket that is waited for next and one for that behind it.
enum {
  BD_RT_NO_SLOT = -1,
  BD_RT_DEFERRED_SLOTS = 2,
  BD_RT_SLOTS = BD_RT_PREFETCHES + BD_RT_DEFERRED_SLOTS
};
int bd_rt_runs_aside(const bd_rt *rt);
void bd_rt_aside(bd_rt *rt, int slot);
void bd_rt_back(bd_rt *rt);
void bd_rt_join(bd_rt *rt);

// out = combination of all `in` of the group; `in` may be `out`.
void bd_rt_reduce(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner, int64_t count,
                  const void *in, void *out);
// In place: only this rank's flat part (see bd_rt_part) of `data` becomes the sum.
void bd_rt_reduce_part(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data);
// In place: every rank's flat part reaches the others.
void bd_rt_gather_parts(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data);
// To and from the rank at the same mesh coordinates of another stage, in the order of the calls.
void bd_rt_give(bd_rt *rt, int stage, const void *data, int64_t bytes);
void bd_rt_take(bd_rt *rt, int stage, void *data, int64_t bytes);
#endif
