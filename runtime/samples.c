// The current step's samples, in host memory.
#include "runtime/rank.h"

static int64_t position_of(const bd_rt *rt, int64_t micro_batch, int64_t sample) {
  return bd_rt_data_position(rt->program, &rt->data, rt->options.seed, rt->step,
                             micro_batch * rt->program->micro_batch + sample);
}

void bd_rt_read_samples(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int shift,
                        int32_t *out) {
  const int64_t length = rt->program->sequence;
  for (int64_t row = 0; row < rows; row++) {
    const int64_t at = position_of(rt, micro_batch, start + row);
    const int bad = rt->program->vocabulary
                        ? bd_rt_data_tokens(&rt->data, at + shift, length, out + row * length)
                        : bd_rt_data_targets(&rt->data, at, length, out + row * length);
    if (bad)
      bd_rt_fail(BD_RT_EXIT_DATA, "%s: cannot be read at position %lld", rt->options.data,
                 (long long)at);
  }
}

void bd_rt_read_ids(bd_rt *rt, int input, int64_t micro_batch, int64_t start, int64_t rows,
                    int32_t *out) {
  const int64_t elements = rt->program->ids[input].elements;
  for (int64_t row = 0; row < rows; row++) {
    const int64_t at = position_of(rt, micro_batch, start + row);
    if (bd_rt_data_ids(&rt->data, input, at, elements, out + row * elements))
      bd_rt_fail(BD_RT_EXIT_DATA, "%s: cannot be read at position %lld", rt->options.data,
                 (long long)at);
  }
}

void bd_rt_read_reals(bd_rt *rt, int64_t micro_batch, int64_t sample, int64_t elements,
                      float *out) {
  const int64_t at = position_of(rt, micro_batch, sample);
  if (bd_rt_data_inputs(&rt->data, at, elements, out))
    bd_rt_fail(BD_RT_EXIT_DATA,
               "%s: sample %lld of `inputs` has not the %lld elements of the model",
               rt->options.data, (long long)at, (long long)elements);
}

bd_rt_random bd_rt_random_of(const bd_rt *rt, int64_t micro_batch, int call) {
  return (bd_rt_random){.seed = rt->options.seed,
                        .step = rt->step,
                        .first_sample = micro_batch * rt->program->micro_batch,
                        .call = call};
}

int bd_rt_loss_counts(const bd_rt *rt, uint32_t partial) {
  for (int a = 0; a < rt->program->axes; a++)
    if (!(partial >> a & 1) && rt->coord[a] > 0) return 0;
  return 1;
}
