#include "ir/fuse.h"
#include "ir/memory.h"
#include "ir/pitch.h"
#include "ir/verify_internal.h"
#include <stdlib.h>

// A value with a place, and the steps between which it must keep its bytes.
typedef struct place {
  bd_id id;
  int first, last;
  int64_t start, end; // bytes
} place;

// The step of every op: ops that are fused run as one.
static int *find_steps(bd_verifier *v, const bd_function *function) {
  bd_fusion fusion;
  bd_fuse(v->ctx, v->module, function, &fusion);
  int *step = BD_NEW_ARRAY(v->ctx->arena, int, function->op_count);
  for (int s = 0; s < fusion.step_count; ++s)
    for (int i = 0; i < fusion.step_ops[s]; ++i)
      step[fusion.first_op[s] + i] = s;
  return step;
}

// The last step that reads each value; results and saved values last to the end.
static int *find_last_uses(bd_verifier *v, const bd_function *function, const int *step) {
  int *last = BD_NEW_ARRAY(v->ctx->arena, int, function->value_count);
  for (bd_id id = 0; id < function->value_count; ++id)
    last[id] = function->values[id].producer < 0 ? -1 : step[function->values[id].producer];
  for (int i = 0; i < function->op_count; ++i)
    for (int k = 0; k < function->ops[i].in_count; ++k)
      last[function->ops[i].in[k]] = step[i];
  for (int i = 0; i < function->result_count; ++i)
    last[function->results[i]] = function->op_count;
  for (int i = 0; i < function->save_count; ++i)
    last[function->saves[i]] = function->op_count;
  return last;
}

static int64_t place_bytes(const bd_module *module, const bd_function *function, bd_id id) {
  return bd_value_elements(module, function, id) * bd_dtype_bytes(function->values[id].type.dtype);
}

static int by_start(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

// A step may write its result over a value of the same type and sharding that it is the last to
// read: pointwise steps read each element before they write it, other ops when their table row says
// so.
static bool shares_in_place(const bd_function *function, const place *a, const place *b) {
  const place *before = a->first < b->first ? a : b, *after = before == a ? b : a;
  const bd_value *from = &function->values[before->id], *to = &function->values[after->id];
  if (to->producer < 0 || before->last != after->first || before->start != after->start)
    return false;
  if (!bd_type_equal(&from->type, &to->type) || !bd_sharding_equal(&from->sharding, &to->sharding))
    return false;
  const bd_op *op = &function->ops[to->producer];
  unsigned traits = bd_op_get_info(op->kind)->traits;
  return (traits & BD_POINTWISE) || ((traits & BD_INPLACE_0) && op->in[0] == before->id);
}

static bd_status verify_segment(bd_verifier *v, const bd_function *function, const int *step,
                                const int *last, bd_segment segment) {
  place *places = BD_NEW_ARRAY(v->ctx->arena, place, function->value_count);
  int count = 0;
  for (bd_id id = 0; id < function->value_count; ++id) {
    const bd_value *value = &function->values[id];
    if (value->segment != segment) continue;
    int64_t bytes = place_bytes(v->module, function, id);
    // Forward fills the tape for later; backward uses it up.
    bool filled = segment == BD_SEGMENT_TAPE && function->role == BD_ROLE_FORWARD;
    int first = filled || value->producer < 0 ? -1 : step[value->producer];
    places[count++] = (place){id, first, filled ? function->op_count : last[id],
                              value->offset_bytes, value->offset_bytes + bytes};
  }
  qsort(places, (size_t)count, sizeof *places, by_start);
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count && places[j].start < places[i].end; ++j) {
      if (places[i].first > places[j].last || places[j].first > places[i].last) continue;
      if (shares_in_place(function, &places[i], &places[j])) continue;
      const bd_value *a = &function->values[places[i].id], *b = &function->values[places[j].id];
      int op = b->producer >= 0 ? b->producer : a->producer;
      return bd_fail(v->ctx, BD_INVALID, op >= 0 ? function->ops[op].loc : function->loc,
                     "%%%s and %%%s live at once and share bytes of the %s", a->name, b->name,
                     bd_segment_name(segment));
    }
  }
  return BD_OK;
}

bd_status bd_verify_places(bd_verifier *v, const bd_function *function) {
  if (function == v->module->main) return BD_OK;
  const int *step = find_steps(v, function);
  const int *last = find_last_uses(v, function, step);
  BD_TRY(verify_segment(v, function, step, last, BD_SEGMENT_WORKSPACE));
  return verify_segment(v, function, step, last, BD_SEGMENT_TAPE);
}
