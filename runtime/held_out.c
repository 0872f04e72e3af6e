#include "runtime/held_out.h"

#include "runtime/backend.h"

#include <stdio.h>

// Samples that do not overlap: each window of tokens begins where the targets of the one before
// end, but for the last of these, which is its first token.
static int64_t samples_of(const bd_rt_program *program, const bd_rt_data *data) {
  return program->vocabulary ? (data->count - 1) / program->sequence : data->count;
}

static int open_data(bd_rt *rt, char *message, size_t message_bytes) {
  const bd_rt_program *const program = rt->program;
  const char *const path = rt->options.eval;
  const int status = bd_rt_data_open(program, path, rt->options.tokenizer, rt->rank == 0,
                                     &rt->held_out, message, message_bytes);
  if (status) return status;
  const int64_t samples = samples_of(program, &rt->held_out);
  rt->held_out_batches = bd_rt_least(samples / program->global_batch, rt->options.eval_steps);
  if (rt->held_out_batches > 0) return 0;
  snprintf(message, message_bytes,
           "%s: has %lld %s, fewer than the %lld of one batch, which evaluation takes at least",
           path, (long long)samples, program->vocabulary ? "sequences" : "samples",
           (long long)program->global_batch);
  return BD_RT_EXIT_DATA;
}

int bd_rt_held_out_open(bd_rt *rt) {
  char message[1024] = "";
  if (!rt->options.eval) return 0;
  return bd_rt_agree(rt, open_data(rt, message, sizeof message), message);
}

bool bd_rt_held_out_due(const bd_rt *rt, int64_t steps) {
  const int64_t every = rt->options.eval_every;
  return rt->held_out_batches > 0 &&
         (steps == rt->options.steps || (every > 0 && steps % every == 0));
}

bd_rt_batch bd_rt_batch_first(const bd_rt *rt) {
  return (bd_rt_batch){.step = rt->step, .held_out = rt->held_out_batches > 0};
}

bd_rt_batch bd_rt_batch_after(const bd_rt *rt, bd_rt_batch batch) {
  if (batch.held_out == 0) {
    batch.step++;
    batch.held_out = bd_rt_held_out_due(rt, (int64_t)batch.step);
  } else {
    batch.held_out = batch.held_out < rt->held_out_batches ? batch.held_out + 1 : 0;
  }
  return batch;
}

bool bd_rt_batch_is_of_run(const bd_rt *rt, bd_rt_batch batch) {
  return batch.held_out > 0 || (int64_t)batch.step < rt->options.steps;
}

double bd_rt_held_out_loss(bd_rt *rt) {
  int64_t targets = 0;
  bd_rt_begin(rt, BD_RT_EVALUATION, (int64_t)rt->step);
  rt->sums[0] = 0;
  rt->target_share = 0; // of gradients, which nobody reads
  for (int64_t number = 1; number <= rt->held_out_batches; number++) {
    rt->batch = (bd_rt_batch){.step = rt->step, .held_out = number};
    targets += bd_rt_batch_targets(rt);
    rt->stage->forward(rt);
  }
  bd_rt_end(rt);
  bd_rt_settle(rt);
  bd_rt_sum_ranks(rt, rt->sums, 1);
  return targets ? rt->sums[0] / (double)targets : 0;
}
