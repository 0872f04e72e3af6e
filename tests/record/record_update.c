// The work of a step's end, and what only loading and saving ask for, which a record has none of.
#include "runtime/backend.h"
#include "tests/record/back_end.h"

enum { FLOAT = sizeof(float) };

void bd_rt_copy(bd_rt *rt, void *to, const void *from, int64_t bytes) {
  if (bytes > 0)
    RECORD_WORK(rt, RECORD_COPY, record_reads(rt, from, bytes), record_writes(rt, to, bytes));
}

float *bd_rt_workspace(bd_rt *rt, int64_t *out_floats) {
  *out_floats = RECORD_WORKSPACE_BYTES / FLOAT;
  return (float *)(void *)(rt->arena + rt->stage->library_offset);
}

void bd_rt_window(bd_rt *rt, const bd_rt_local *local, int64_t first, int64_t count, int dtype,
                  void *values, void *buffer, int store) {
  const int64_t size = bd_rt_element_bytes(dtype);
  (void)first;
  const record_operand piece = {store ? RECORD_READ : RECORD_UPDATE,
                                record_reads(rt, values, 0).start, count * size},
                       whole = {store ? RECORD_UPDATE : RECORD_READ,
                                record_reads(rt, buffer, 0).start, local->elements * size};
  if (count > 0) RECORD_WORK(rt, RECORD_WINDOW, piece, whole);
}

void bd_rt_clear_padding(bd_rt *rt, const bd_rt_local *local, int dtype, void *buffer) {
  if (bd_rt_local_padded(local))
    RECORD_WORK(rt, RECORD_CLEAR_PADDING,
                record_updates(rt, buffer, local->elements * bd_rt_element_bytes(dtype)));
}

void bd_rt_narrow(bd_rt *rt, int dtype, const float *wide, uint16_t *halves, int64_t count) {
  (void)dtype;
  RECORD_WORK(rt, RECORD_NARROW, record_reads(rt, wide, count * FLOAT),
              record_writes(rt, halves, count * (int64_t)sizeof *halves));
}

void bd_rt_add(bd_rt *rt, int dtype, void *sum, const void *more, int64_t count) {
  const int64_t bytes = count * bd_rt_element_bytes(dtype);
  RECORD_WORK(rt, RECORD_ADD, record_updates(rt, sum, bytes), record_reads(rt, more, bytes));
}

void bd_rt_square_sums(bd_rt *rt, int tensors, const bd_rt_squares *squares) {
  for (int t = 0; t < tensors; t++)
    RECORD_WORK(rt, RECORD_SQUARE_SUM,
                record_reads(rt, squares[t].data,
                             squares[t].count * bd_rt_element_bytes((int)squares[t].dtype)),
                record_room(rt));
}

static int64_t gradient_bytes(const bd_rt_rule *rule) {
  return rule->count * bd_rt_element_bytes(rule->gradient_dtype);
}

// Elements from the first to the last of a rule's that lie in rows.
static int64_t extent_of(const bd_rt_rule *rule) {
  if (rule->row == 0 || rule->count == 0) return rule->count;
  return (rule->count / rule->row - 1) * rule->stride + rule->row;
}

void bd_rt_apply(bd_rt *rt, const bd_rt_rule *rule) {
  record_operand operands[5];
  int count = 0;
  if (rule->count == 0) return;
  operands[count++] = record_reads(rt, rule->gradient, gradient_bytes(rule));
  const int64_t half_bytes = extent_of(rule) * (int64_t)sizeof *rule->halves;
  if (rule->weight)
    operands[count++] =
        record_updates(rt, rule->weight, (rule->halves ? rule->count : extent_of(rule)) * FLOAT);
  if (rule->halves)
    operands[count++] = rule->weight ? record_writes(rt, rule->halves, half_bytes)
                                     : record_updates(rt, rule->halves, half_bytes);
  if (rule->first) operands[count++] = record_updates(rt, rule->first, rule->count * FLOAT);
  if (rule->second) operands[count++] = record_updates(rt, rule->second, rule->count * FLOAT);
  record_work(rt, RECORD_APPLY, count, operands);
}

// Adafactor's averages, all of which lie one after another.
static void average(bd_rt *rt, const bd_rt_rule *rule, const float *weight, float *kept,
                    int64_t count) {
  const record_operand read = weight ? record_reads(rt, weight, rule->count * FLOAT)
                                     : record_reads(rt, rule->gradient, gradient_bytes(rule));
  RECORD_WORK(rt, RECORD_SQUARE_SUM, read, record_updates(rt, kept, count * FLOAT),
              record_room(rt));
}

static void add_mean(bd_rt *rt, const bd_rt_rule *rule, int which) {
  const int weight = which == BD_RT_MEAN_WEIGHT && !rule->row && rule->weight;
  average(rt, rule, weight ? rule->weight : NULL, &rule->factors.mean[which], 1);
}

void bd_rt_add_factors(bd_rt *rt, const bd_rt_rule *rule, const bd_rt_mixings *mixings) {
  const bd_rt_factors *const f = &rule->factors;
  (void)mixings;
  average(rt, rule, NULL, f->row, f->rows);
  if (f->column) average(rt, rule, NULL, f->column, f->columns);
  add_mean(rt, rule, BD_RT_MEAN_GRADIENT);
  add_mean(rt, rule, BD_RT_MEAN_WEIGHT);
}

void bd_rt_add_updates(bd_rt *rt, const bd_rt_rule *rule, bd_rt_mixing mixing) {
  (void)mixing;
  add_mean(rt, rule, BD_RT_MEAN_UPDATE);
}
