// Samples of a step, in host memory.
#include "runtime/half.h"
#include "runtime/rank.h"

enum { PIECE = 1 << 14 }; // floats of a row that is rounded

bd_rt_samples bd_rt_samples_of_sequences(const bd_rt *rt, int64_t micro_batch, int64_t start,
                                         int64_t count, int shift) {
  const int64_t elements = rt->program->sequence;
  return (bd_rt_samples){BD_RT_SAMPLES_SEQUENCES, shift, micro_batch, start, count, elements};
}

bd_rt_samples bd_rt_samples_of_ids(const bd_rt *rt, int input, int64_t micro_batch, int64_t start,
                                   int64_t count) {
  const int64_t elements = rt->program->ids[input].elements;
  return (bd_rt_samples){BD_RT_SAMPLES_IDS, input, micro_batch, start, count, elements};
}

int64_t bd_rt_sample_bytes(const bd_rt_samples *s) {
  return s->elements * bd_rt_element_bytes(s->kind == BD_RT_SAMPLES_REALS ? s->which : BD_RT_I32);
}

static int64_t position_of(const bd_rt *rt, const bd_rt_samples *s, uint64_t step, int64_t number) {
  return bd_rt_data_position(rt->program, &rt->data, rt->options.seed, step,
                             s->micro_batch * rt->program->micro_batch + s->start + number);
}

static int read_reals(const bd_rt *rt, const bd_rt_samples *s, int64_t at, void *out) {
  float wide[PIECE];
  if (!bd_rt_is_half(s->which))
    return bd_rt_data_inputs(&rt->data, at, s->elements, 0, s->elements, out);
  for (int64_t done = 0; done < s->elements; done += PIECE) {
    const int64_t count = bd_rt_least(s->elements - done, PIECE);
    uint16_t *const halves = (uint16_t *)out + done;
    if (bd_rt_data_inputs(&rt->data, at, s->elements, done, count, wide)) return 1;
    for (int64_t i = 0; i < count; i++)
      halves[i] = bd_rt_to_half(s->which, wide[i]);
  }
  return 0;
}

int bd_rt_sample_read(const bd_rt *rt, const bd_rt_samples *s, uint64_t step, int64_t number,
                      void *out) {
  const int64_t at = position_of(rt, s, step, number);
  if (s->kind == BD_RT_SAMPLES_REALS) return read_reals(rt, s, at, out);
  if (s->kind == BD_RT_SAMPLES_IDS)
    return bd_rt_data_ids(&rt->data, s->which, at, s->elements, out);
  return rt->program->vocabulary ? bd_rt_data_tokens(&rt->data, at + s->which, s->elements, out)
                                 : bd_rt_data_targets(&rt->data, at, s->elements, out);
}

void bd_rt_sample_fail(const bd_rt *rt, const bd_rt_samples *s, uint64_t step, int64_t number) {
  const int64_t at = position_of(rt, s, step, number);
  if (s->kind == BD_RT_SAMPLES_REALS)
    bd_rt_fail(BD_RT_EXIT_DATA,
               "%s: sample %lld of `inputs` has not the %lld elements of the model",
               rt->options.data, (long long)at, (long long)s->elements);
  bd_rt_fail(BD_RT_EXIT_DATA, "%s: cannot be read at position %lld", rt->options.data,
             (long long)at);
}

void bd_rt_samples_read(const bd_rt *rt, const bd_rt_samples *s, void *out) {
  const int64_t bytes = bd_rt_sample_bytes(s);
  for (int64_t i = 0; i < s->count; i++)
    if (bd_rt_sample_read(rt, s, rt->step, i, (char *)out + i * bytes))
      bd_rt_sample_fail(rt, s, rt->step, i);
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
