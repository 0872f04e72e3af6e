#include "runtime/overlap.h"

#include "runtime/backend.h"
#include "runtime/bucket.h"
#include "runtime/deferred.h"
#include "runtime/master.h"
#include "runtime/update.h"

#include <stdlib.h>

enum { GATHER = -1 }; // in the place of a use

// A sum or a gather, between the ranks of the group with this mask.
typedef struct job {
  const bd_rt_weight *weight;
  int use, mask;
} job;

typedef struct accumulator {
  int64_t offset; // in the arena
  job job;
  bool summed;
} accumulator;

struct bd_rt_overlap {
  int accumulator_count;
  accumulator *accumulators; // ascending
  int job_count;
  job *jobs; // of the bucket that is being filled
  int64_t bytes, most_bytes;
};

static int64_t gradient_bytes(const bd_rt *rt, const bd_rt_weight *weight) {
  return bd_rt_gradient_local(rt, weight).elements * bd_rt_element_bytes(weight->gradient_dtype);
}

void bd_rt_overlap_open(bd_rt *rt) {
  const bd_rt_stage *const stage = rt->stage;
  bd_rt_overlap *const o = rt->overlap = bd_rt_allocate(1, sizeof *o);
  size_t uses = 0;
  int64_t bytes = 0;
  for (int i = 0; i < stage->weight_count; i++)
    uses += (size_t)stage->weights[i].gradient_count;
  o->accumulators = bd_rt_allocate(uses + 1, sizeof *o->accumulators);
  o->jobs = bd_rt_allocate(uses + (size_t)stage->weight_count + 1, sizeof *o->jobs);
  for (int i = 0; i < stage->weight_count; i++) {
    const bd_rt_weight *const w = &stage->weights[i];
    for (int use = 0; use < w->gradient_count; use++) {
      o->accumulators[o->accumulator_count++] = (accumulator){
          .offset = w->gradient_offsets[use], .job = {w, use, bd_rt_sum_mask(rt, w, use)}};
      bytes += gradient_bytes(rt, w);
    }
  }
  qsort(o->accumulators, (size_t)o->accumulator_count, sizeof *o->accumulators,
        bd_rt_compare_offsets);
  o->most_bytes = bd_rt_full_bucket(bytes);
  bd_rt_deferred_open(rt);
}

void bd_rt_overlap_close(bd_rt *rt) {
  bd_rt_deferred_close(rt);
  if (!rt->overlap) return;
  free(rt->overlap->accumulators);
  free(rt->overlap->jobs);
  free(rt->overlap);
  rt->overlap = NULL;
}

void bd_rt_overlap_new_step(bd_rt *rt) {
  rt->overlap->job_count = 0; // of a step that ended without an update
  rt->overlap->bytes = 0;
  bd_rt_join(rt);
  for (int i = 0; i < rt->overlap->accumulator_count; i++)
    rt->overlap->accumulators[i].summed = false;
}

static accumulator *find(const bd_rt *rt, int64_t offset) {
  const accumulator wanted = {.offset = offset};
  return bsearch(&wanted, rt->overlap->accumulators, (size_t)rt->overlap->accumulator_count,
                 sizeof wanted, bd_rt_compare_offsets);
}

bool bd_rt_overlap_summed(const bd_rt *rt, const bd_rt_weight *weight, int use) {
  return find(rt, weight->gradient_offsets[use])->summed;
}

// What the bucket has for one group of ranks starts together.
static void start_group(bd_rt *rt, int mask) {
  const bd_rt_overlap *const o = rt->overlap;
  int first = 0;
  while (first < o->job_count && o->jobs[first].mask != mask)
    first++;
  if (first == o->job_count) return;
  bd_rt_aside(rt, BD_RT_NO_SLOT);
  for (int i = first; i < o->job_count; i++) {
    if (o->jobs[i].mask != mask) continue;
    if (o->jobs[i].use == GATHER)
      bd_rt_gather_weight(rt, o->jobs[i].weight);
    else
      bd_rt_sum_use(rt, o->jobs[i].weight, o->jobs[i].use);
  }
  bd_rt_back(rt);
}

// Group by group in one order on all ranks: each waits for others in each of its groups.
void bd_rt_overlap_start(bd_rt *rt) {
  bd_rt_overlap *const o = rt->overlap;
  for (int mask = 1; mask < BD_RT_GROUPS && o->job_count > 0; mask++)
    start_group(rt, mask);
  o->job_count = 0;
  o->bytes = 0;
}

static void add(bd_rt *rt, job what, int64_t bytes) {
  bd_rt_overlap *const o = rt->overlap;
  o->jobs[o->job_count++] = what;
  o->bytes += bytes;
  if (o->bytes >= o->most_bytes) bd_rt_overlap_start(rt);
}

void bd_rt_gradient(bd_rt *rt, int64_t micro_batch, const void *gradient) {
  const bd_rt_program *const program = rt->program;
  if (micro_batch + 1 < program->global_batch / program->micro_batch) return;
  accumulator *const a = find(rt, (const char *)gradient - rt->arena);
  if (!a || !bd_rt_runs_aside(rt) || !bd_rt_sums_in_place(rt, a->job.weight, a->job.use)) return;
  a->summed = true;
  add(rt, a->job, gradient_bytes(rt, a->job.weight));
}

void bd_rt_overlap_gather(bd_rt *rt, const bd_rt_weight *weight) {
  const bd_rt_share share = bd_rt_share_of(rt, weight);
  if (bd_rt_defers(rt, weight))
    bd_rt_deferred_take(rt, weight);
  else if (bd_rt_runs_aside(rt) && bd_rt_gathers_in_place(rt, weight))
    add(rt, (job){weight, GATHER, share.zero},
        share.elements * bd_rt_element_bytes(weight->layout.dtype));
  else
    bd_rt_gather_weight(rt, weight);
}

void bd_rt_overlap_wait(bd_rt *rt) {
  bd_rt_overlap_start(rt);
  bd_rt_join(rt);
}
