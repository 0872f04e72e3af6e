#include "planner/layer/workspace.h"
#include "ir/memory.h"
#include "planner/layer/forms.h"
#include "planner/layer/op.h"
#include <math.h>

// A forward value that lies in the workspace, unless the tape keeps it: when forward may need it
// (from its op on), and when backward may, if it computes it again. No form of it has less than its
// even share of it on a rank.
typedef struct held_value {
  bd_id value;
  int cluster, op;
  bool is_needed;        // the tape may keep it
  bool starts, settled;  // it is there when backward begins; in the form that it settles in
  int forward, backward; // the last op of forward and of backward that reads it; -1: none
  double even_bytes;
} held_value;

struct bd_layer_workspace {
  const bd_layer_space *space;
  int count;
  held_value *values;
  double *fixed; // per moment
};

static unsigned traits_of(const bd_op *op) {
  return bd_op_get_info(op->kind)->traits;
}

// Whether the op's result may lie where an operand lay.
static bool may_overwrite(const bd_op *op) {
  return (traits_of(op) & (BD_POINTWISE | BD_INPLACE_0)) != 0;
}

// The last op that reads a value, or -1; `from`: the first that counts.
static int last_reader(const bd_function *f, bd_id value, int from) {
  for (int i = f->op_count - 1; i >= from; i--)
    for (int k = 0; k < f->ops[i].in_count; k++)
      if (f->ops[i].in[k] == value) return i;
  return -1;
}

// Pointwise ops at the begin of backward, which may be fused with what it computes again.
static int first_row(const bd_function *backward) {
  int end = 0;
  while (end < backward->op_count && (traits_of(&backward->ops[end]) & BD_POINTWISE))
    end++;
  return end;
}

static bd_id restored_as(const bd_layer_space *space, bd_id value) {
  const bd_function *backward = space->backward;
  for (int p = 0; p < backward->param_count; p++)
    if (space->restores[backward->params[p]] == value) return backward->params[p];
  return BD_NO_ID;
}

static int last_in_backward(const bd_layer_space *space, bd_id value) {
  bd_id param = restored_as(space, value);
  if (param == BD_NO_ID) return -1;
  return last_reader(space->backward, param, first_row(space->backward));
}

// Per value, whether backward may compute it where an operand lies that the tape keeps: one that
// nothing reads later, and that the tape may keep itself, or that may be computed in such a place
// in turn. The tape keeps nothing that backward does not ask for.
static bool *find_takers(const bd_layer_space *space) {
  const bd_function *f = space->forward;
  bool *takes = BD_NEW_ARRAY(space->ctx->arena, bool, f->value_count);
  for (int i = 0; i < f->op_count; i++) {
    const bd_op *op = &f->ops[i];
    bool any = false;
    for (int k = 0; may_overwrite(op) && k < op->in_count; k++) {
      bd_id operand = op->in[k];
      if (f->values[operand].producer < 0 || last_in_backward(space, operand) >= 0) continue;
      any = any || space->needed[operand] || takes[operand];
    }
    for (int r = 0; r < op->out_count; r++)
      takes[op->out[r]] = any;
  }
  return takes;
}

// Values that a fused row may keep in registers are left out.
static bool in_memory(const bd_function *f, bd_id value) {
  if (!(traits_of(&f->ops[f->values[value].producer]) & BD_POINTWISE)) return true;
  for (int i = 0; i < f->op_count; i++)
    for (int k = 0; k < f->ops[i].in_count; k++)
      if (f->ops[i].in[k] == value && !(traits_of(&f->ops[i]) & BD_POINTWISE)) return true;
  return false;
}

// Per op, whether backward may run it again: for what it reads itself, or for another op that it
// runs again.
static bool *find_rerun(const bd_layer_space *space) {
  const bd_function *f = space->forward;
  bool *again = BD_NEW_ARRAY(space->ctx->arena, bool, f->op_count);
  bool *read = BD_NEW_ARRAY(space->ctx->arena, bool, f->value_count); // by such an op
  for (int i = f->op_count - 1; i >= 0; i--) {
    const bd_op *op = &f->ops[i];
    for (int r = 0; r < op->out_count; r++)
      again[i] |= !space->is_result[op->out[r]] && (space->needed[op->out[r]] || read[op->out[r]]);
    for (int k = 0; k < op->in_count; k++)
      read[op->in[k]] |= again[i];
  }
  return again;
}

// Whether an op of another cluster may bring it to another form before backward begins, which is
// then there in its place.
static bool may_move(const bd_layer_space *space, const bool *again, bd_id value) {
  const bd_function *f = space->forward;
  int cluster = space->cluster_of_op[f->values[value].producer];
  for (int i = 0; i < f->op_count; i++)
    for (int k = 0; k < f->ops[i].in_count; k++)
      if (f->ops[i].in[k] == value && space->cluster_of_op[i] != cluster && again[i]) return true;
  return false;
}

static void add_value(bd_layer_workspace *w, const bool *takes, const bool *again, bd_id value) {
  const bd_layer_space *space = w->space;
  const bd_function *f = space->forward;
  int producer = f->values[value].producer;
  if (producer < 0 || space->is_result[value]) return;
  held_value held = {.value = value,
                     .cluster = space->cluster_of_op[producer],
                     .op = producer,
                     .is_needed = space->needed[value],
                     .forward = -1,
                     .backward = -1};
  held.even_bytes = bd_layer_even_bytes(&space->request->cost, &f->values[value].type);
  if (in_memory(f, value)) held.forward = last_reader(f, value, 0);
  if (held.is_needed && !takes[value]) held.backward = last_in_backward(space, value);
  held.starts = held.backward >= 0;
  held.settled = held.starts && !may_move(space, again, value);
  w->values[w->count++] = held;
}

// Gradients that lie in buffers of their own; those of weights go to their accumulators.
static bool is_own_gradient(const bd_function *backward, bd_id value) {
  int producer = backward->values[value].producer;
  if (producer < 0 || may_overwrite(&backward->ops[producer])) return false;
  for (int r = 0; r < backward->result_count; r++)
    if (backward->results[r] == value) return false;
  for (int i = 0; i < backward->op_count; i++)
    for (int k = 0; k < backward->ops[i].in_count; k++)
      if (backward->ops[i].in[k] == value && backward->ops[i].group < 0) return false;
  return true;
}

static double scratch_bytes(const bd_layer_space *space, const bd_op *op) {
  bool attends = bd_op_attends(op->kind);
  return attends && !space->request->train->cuda ? (double)bd_align(BD_ATTENTION_SCRATCH_BYTES) : 0;
}

static int first_moment_of_backward(const bd_layer_workspace *w) {
  return w->space->forward->op_count;
}

// Scratch memory, and gradients.
static void add_fixed(bd_layer_workspace *w) {
  const bd_layer_space *space = w->space;
  const bd_function *f = space->forward, *backward = space->backward;
  double *at = w->fixed + first_moment_of_backward(w) + 1;
  for (int i = 0; i < f->op_count; i++)
    w->fixed[i] += scratch_bytes(space, &f->ops[i]);
  for (int i = 0; i < backward->op_count; i++)
    at[i] += scratch_bytes(space, &backward->ops[i]);
  for (bd_id v = 0; v < backward->value_count; v++) {
    if (!is_own_gradient(backward, v)) continue;
    int from = backward->values[v].producer, to = last_reader(backward, v, from);
    for (int i = from; i <= (to < from ? from : to); i++)
      at[i] += bd_layer_even_bytes(&space->request->cost, &backward->values[v].type);
  }
}

bd_layer_workspace *bd_layer_workspace_create(const bd_layer_space *space) {
  bd_layer_workspace *w = BD_NEW(space->ctx->arena, bd_layer_workspace);
  w->space = space;
  w->values = BD_NEW_ARRAY(space->ctx->arena, held_value, space->forward->value_count);
  w->fixed = BD_NEW_ARRAY(space->ctx->arena, double, bd_layer_workspace_moments(w));
  const bool *takes = find_takers(space), *again = find_rerun(space);
  for (bd_id v = 0; v < space->forward->value_count; v++)
    add_value(w, takes, again, v);
  add_fixed(w);
  return w;
}

int bd_layer_workspace_moments(const bd_layer_workspace *w) {
  return w->space->forward->op_count + 1 + w->space->backward->op_count;
}

// Of a value that the tape does not keep.
static double bytes_at(const bd_layer_workspace *w, const held_value *held, int moment) {
  int begin = first_moment_of_backward(w);
  if (moment > begin) return moment - begin - 1 <= held->backward ? held->even_bytes : 0;
  if (moment == begin) return held->starts ? held->even_bytes : 0;
  if (moment == held->op)
    return held->forward >= 0 && !may_overwrite(&w->space->forward->ops[held->op])
               ? held->even_bytes
               : 0;
  return held->op < moment && moment <= held->forward ? held->even_bytes : 0;
}

double bd_layer_workspace_fixed(const bd_layer_workspace *w, int moment) {
  double bytes = w->fixed[moment];
  for (int i = 0; i < w->count; i++)
    if (!w->values[i].is_needed) bytes += bytes_at(w, &w->values[i], moment);
  return bytes;
}

double bd_layer_workspace_most_fixed(const bd_layer_workspace *w) {
  double most = 0;
  for (int m = 0; m < bd_layer_workspace_moments(w); m++)
    most = fmax(most, bd_layer_workspace_fixed(w, m));
  return most;
}

double bd_layer_workspace_added(const bd_layer_workspace *w, int moment, int cluster,
                                const bd_layer_option *option) {
  const bd_layer_space *space = w->space;
  double bytes = 0;
  for (int i = 0; i < w->count; i++) {
    const held_value *held = &w->values[i];
    if (held->cluster != cluster || !held->is_needed || bd_layer_keeps(space, option, held->op))
      continue;
    double own = bytes_at(w, held, moment);
    if (own > 0 && held->settled && moment == first_moment_of_backward(w)) {
      bd_sharding form = bd_layer_form(space, &space->clusters[cluster], option, held->value);
      own = fmax(own, bd_cost_local_bytes(&space->request->cost,
                                          &space->forward->values[held->value].type, &form));
    }
    bytes += own;
  }
  return bytes;
}
