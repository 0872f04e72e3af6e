// Samples of a batch, in host memory.
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

static const bd_rt_data *data_of(const bd_rt *rt, bd_rt_batch batch) {
  return batch.held_out > 0 ? &rt->held_out : &rt->data;
}

const char *bd_rt_batch_path(const bd_rt *rt, bd_rt_batch batch) {
  return batch.held_out > 0 ? rt->options.eval : rt->options.data;
}

// A token, or an index of the arrays: drawn for a step, one after another for an evaluation.
static int64_t position_of(const bd_rt *rt, const bd_rt_samples *s, bd_rt_batch batch,
                           int64_t number) {
  const bd_rt_program *const p = rt->program;
  const int64_t sample = s->micro_batch * p->micro_batch + s->start + number;
  if (batch.held_out == 0)
    return bd_rt_data_position(p, &rt->data, rt->options.seed, batch.step, sample);
  return ((batch.held_out - 1) * p->global_batch + sample) * (p->vocabulary ? p->sequence : 1);
}

static int read_reals(const bd_rt_data *data, const bd_rt_samples *s, int64_t at, void *out) {
  float wide[PIECE];
  if (!bd_rt_is_half(s->which))
    return bd_rt_data_inputs(data, at, s->elements, 0, s->elements, out);
  for (int64_t done = 0; done < s->elements; done += PIECE) {
    const int64_t count = bd_rt_least(s->elements - done, PIECE);
    uint16_t *const halves = (uint16_t *)out + done;
    if (bd_rt_data_inputs(data, at, s->elements, done, count, wide)) return 1;
    for (int64_t i = 0; i < count; i++)
      halves[i] = bd_rt_to_half(s->which, wide[i]);
  }
  return 0;
}

int bd_rt_sample_read(const bd_rt *rt, const bd_rt_samples *s, bd_rt_batch batch, int64_t number,
                      void *out) {
  const bd_rt_data *const data = data_of(rt, batch);
  const int64_t at = position_of(rt, s, batch, number);
  if (s->kind == BD_RT_SAMPLES_REALS) return read_reals(data, s, at, out);
  if (s->kind == BD_RT_SAMPLES_IDS) return bd_rt_data_ids(data, s->which, at, s->elements, out);
  return rt->program->vocabulary ? bd_rt_data_tokens(data, at + s->which, s->elements, out)
                                 : bd_rt_data_targets(data, at, s->elements, out);
}

void bd_rt_sample_fail(const bd_rt *rt, const bd_rt_samples *s, bd_rt_batch batch, int64_t number) {
  const int64_t at = position_of(rt, s, batch, number);
  if (s->kind == BD_RT_SAMPLES_REALS)
    bd_rt_fail(BD_RT_EXIT_DATA,
               "%s: sample %lld of `inputs` has not the %lld elements of the model",
               bd_rt_batch_path(rt, batch), (long long)at, (long long)s->elements);
  bd_rt_fail(BD_RT_EXIT_DATA, "%s: cannot be read at position %lld", bd_rt_batch_path(rt, batch),
             (long long)at);
}

void bd_rt_samples_read(const bd_rt *rt, const bd_rt_samples *s, void *out) {
  const int64_t bytes = bd_rt_sample_bytes(s);
  for (int64_t i = 0; i < s->count; i++)
    if (bd_rt_sample_read(rt, s, rt->batch, i, (char *)out + i * bytes))
      bd_rt_sample_fail(rt, s, rt->batch, i);
}

int64_t bd_rt_batch_targets(bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  if (program->vocabulary) return program->global_batch * program->sequence;
  int32_t *const targets = (int32_t *)(void *)rt->scratch;
  int64_t count = 0;
  for (int64_t sample = 0; sample < program->global_batch; sample++) {
    const bd_rt_samples one = bd_rt_samples_of_sequences(rt, 0, sample, 1, 0);
    bd_rt_samples_read(rt, &one, targets);
    for (int64_t i = 0; i < program->sequence; i++)
      count += targets[i] >= 0;
  }
  return count;
}

bd_rt_random bd_rt_random_of(const bd_rt *rt, int64_t micro_batch, int call) {
  return (bd_rt_random){.seed = rt->options.seed,
                        .step = rt->step,
                        .first_sample = micro_batch * rt->program->micro_batch,
                        .call = call,
                        .keeps_all = rt->batch.held_out > 0};
}

int bd_rt_loss_counts(const bd_rt *rt, uint32_t partial) {
  for (int a = 0; a < rt->program->axes; a++)
    if (!(partial >> a & 1) && rt->coord[a] > 0) return 0;
  return 1;
}
