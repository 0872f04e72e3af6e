#include "planner/step/end.h"
#include "ir/optimizer.h"
#include "planner/step/behind.h"
#include <string.h>

typedef struct syncing {
  bd_ctx *ctx;
  const bd_cost_model *model;
  const bd_module *spmd;
  const bd_layout *layout;
  const char *optimizer;
  bd_masters masters; // of the weight at hand
  // The gradients of a weight: its first use, and the next one of the same weight; 0: none.
  int *first_use, *next_use;
  double **products; // per function, once known: bd_step_product_of its results
  const int *reader; // per value of main: the only op that takes it, backward aside, or below 0
  const bool *held;  // per weight, then stage: a forward call there takes it
  bd_step_end seconds;
} syncing;

static void list_uses(bd_ctx *ctx, syncing *s) {
  const bd_module *spmd = s->spmd;
  s->first_use = BD_NEW_ARRAY(ctx->arena, int, spmd->weight_count);
  s->next_use = BD_NEW_ARRAY(ctx->arena, int, spmd->main->result_count);
  for (int use = spmd->main->result_count - 1; use > 0; use--) {
    int weight = spmd->gradient_weight[use - 1];
    s->next_use[use] = s->first_use[weight];
    s->first_use[weight] = use;
  }
}

enum { NO_READER = -1, SEVERAL = -2 };

// All that takes a value of main, but for backward.
static const int *find_readers(bd_ctx *ctx, const bd_module *spmd) {
  const bd_function *main = spmd->main;
  int *reader = BD_NEW_ARRAY(ctx->arena, int, main->value_count);
  for (bd_id v = 0; v < main->value_count; v++)
    reader[v] = NO_READER;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (op->kind == BD_OP_CALL && !bd_module_calls_forward(spmd, op)) continue;
    for (int k = 0; k < op->in_count; k++)
      reader[op->in[k]] = reader[op->in[k]] == NO_READER ? i : SEVERAL;
  }
  return reader;
}

// Whether one forward call alone takes a weight, and as it lies.
static bool is_read_once(const syncing *s, bd_id weight) {
  const bd_op *ops = s->spmd->main->ops;
  int reader = s->reader[weight];
  if (reader < 0 || ops[reader].kind != BD_OP_CALL) return false;
  const bd_function *callee = bd_module_find(s->spmd, ops[reader].callee);
  int operand = bd_ids_find(ops[reader].in, ops[reader].in_count, weight);
  return !bd_function_moves(callee, callee->params[operand]);
}

// Which stages hold which weights, with gradients of their own or without.
static const bool *find_holders(bd_ctx *ctx, const bd_module *spmd) {
  const bd_function *main = spmd->main;
  bool *held = BD_NEW_ARRAY(ctx->arena, bool, spmd->weight_count * spmd->stages);
  int *weight_of = BD_NEW_ARRAY(ctx->arena, int, main->value_count); // + 1; 0: it is none
  for (int i = 0; i < spmd->weight_count; i++)
    weight_of[main->params[spmd->input_count + i]] = i + 1;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (op->kind != BD_OP_CALL || !bd_module_calls_forward(spmd, op)) continue;
    for (int k = 0; k < op->in_count; k++)
      if (weight_of[op->in[k]]) held[(weight_of[op->in[k]] - 1) * spmd->stages + op->stage] = true;
  }
  return held;
}

static bool holds_weight(const syncing *s, int weight, int stage) {
  return s->held[weight * s->spmd->stages + stage];
}

static int stage_of_use(const bd_module *spmd, int use) {
  int producer = spmd->main->values[spmd->main->results[use]].producer;
  return producer < 0 ? -1 : spmd->main->ops[producer].stage;
}

static bool is_tied(const syncing *s, int weight, int stage) {
  for (int other = 0; other < s->spmd->stages; other++)
    if (other != stage && holds_weight(s, weight, other)) return true;
  return false;
}

// The use whose accumulator on a stage is the first: one of the stage itself, or for a weight that
// gets its gradient on other stages alone, the first of all, of which it has an accumulator as well
// (ir/layout.h). 0: it has none.
static int first_on(const syncing *s, int weight, int stage) {
  for (int use = s->first_use[weight]; use; use = s->next_use[use])
    if (stage_of_use(s->spmd, use) == stage) return use;
  return holds_weight(s, weight, stage) ? s->first_use[weight] : 0;
}

static const bd_value *gradient_of(const bd_module *spmd, int use) {
  return &spmd->main->values[spmd->main->results[use]];
}

// Mesh axes with several ranks over which a value lies as `at` says.
static unsigned axes_with(const bd_mesh *mesh, const bd_sharding *sharding, int at) {
  unsigned axes = 0;
  for (int axis = 0; axis < mesh->axes; axis++)
    if (sharding->at[axis] == at && mesh->size[axis] > 1) axes |= 1u << axis;
  return axes;
}

typedef double (*collective)(const bd_cost_model *model, unsigned axes, double bytes);

// GPUs do those of a bucket as one: what is less than a bucket takes its share of one's time.
static double in_bucket(const bd_cost_model *model, collective collective, unsigned axes,
                        double bytes) {
  if (!model->cluster->gpu || bytes >= BD_STEP_BUCKET_BYTES) return collective(model, axes, bytes);
  return collective(model, axes, BD_STEP_BUCKET_BYTES) * (bytes / BD_STEP_BUCKET_BYTES);
}

// A collective along several axes is told as one along the first of them.
static void tell(syncing *s, unsigned axes, double seconds) {
  int axis = 0;
  while (axes && !(axes >> axis & 1))
    axis++;
  s->seconds.collective[axis] += seconds;
}

// One use's summands become sums: all of them on every rank, or each rank's part.
static void reduce_use(syncing *s, const bd_value *gradient, bool scatter, double product) {
  unsigned axes = axes_with(&s->model->mesh, &gradient->sharding, BD_PARTIAL_SUM);
  double seconds = in_bucket(s->model, scatter ? bd_cost_exchange_over : bd_cost_all_reduce_over,
                             axes, bd_cost_value_bytes(s->model, gradient));
  seconds = bd_step_behind(s->model, seconds, product);
  s->seconds.reduce += seconds;
  tell(s, axes, seconds);
}

static bd_status find_products(syncing *s, int function) {
  const bd_function *f = s->spmd->functions[function];
  double *products = BD_NEW_ARRAY(s->ctx->arena, double, f->result_count);
  for (int r = 0; r < f->result_count; r++)
    BD_TRY(bd_step_product_of(s->ctx, s->model, f, f->results[r], &products[r]));
  s->products[function] = products;
  return BD_OK;
}

static bd_status product_of_use(syncing *s, int use, double *out_seconds) {
  const bd_function *main = s->spmd->main;
  bd_id gradient = main->results[use];
  const bd_op *call = &main->ops[main->values[gradient].producer];
  int function = 0;
  *out_seconds = 0;
  if (call->kind != BD_OP_CALL) return BD_OK;
  while (strcmp(s->spmd->functions[function]->name, call->callee) != 0)
    function++;
  if (!s->products[function]) BD_TRY(find_products(s, function));
  *out_seconds = s->products[function][bd_ids_find(call->out, call->out_count, gradient)];
  return BD_OK;
}

// `*out_product`: the one that makes the last of the stage's gradients; 0: it makes none.
static bd_status reduce_uses(syncing *s, int weight, unsigned split, double *out_product) {
  int stage = s->layout->stage, first = first_on(s, weight, stage);
  bool tied = is_tied(s, weight, stage);
  *out_product = 0;
  for (int use = first; use; use = s->next_use[use]) {
    bool own = stage_of_use(s->spmd, use) == stage;
    if (!own && use != first) continue;
    const bd_value *gradient = gradient_of(s->spmd, use);
    unsigned summed = axes_with(&s->model->mesh, &gradient->sharding, BD_PARTIAL_SUM);
    if (own) BD_TRY(product_of_use(s, use, out_product));
    reduce_use(s, gradient, split && !tied && summed == split, *out_product);
    double bytes = bd_cost_value_bytes(s->model, gradient);
    s->seconds.update += bd_cost_update_pass(s->model->cluster, bytes);
    if (use != first && !tied)
      s->seconds.reduce += bd_cost_update_pass(s->model->cluster, 3 * bytes);
  }
  return BD_OK;
}

// How a weight is updated.
typedef struct updating {
  unsigned split;    // axes over which its states are split flat
  unsigned gathered; // axes over which what was updated in parts is made whole
  double elements;   // of its states on a rank
  bd_sharding form;  // in which they lie
} updating;

static updating way_to_update(const bd_cost_model *model, const bd_value *value,
                              const bd_value *gradient, unsigned zero_axes) {
  const bd_mesh *mesh = &model->mesh;
  unsigned whole = axes_with(mesh, &value->sharding, BD_REPLICATED), cut = 0;
  bd_state_form states =
      bd_memory_state_form(mesh, &value->sharding, &gradient->sharding, zero_axes);
  for (int axis = 0; axis < mesh->axes; axis++)
    if (gradient->sharding.at[axis] >= 0) cut |= 1u << axis;
  updating out = {.split = states.parts > 1 ? whole & zero_axes : 0};
  out.gathered = out.split | (whole & cut);
  out.elements = (double)bd_memory_state_elements(mesh, &value->type, &states);
  out.form = states.form;
  return out;
}

// What a factored optimizer has of rows and columns goes to all ranks that hold parts of them.
static void reduce_factors(syncing *s, const bd_value *value, const updating *way) {
  const bd_mesh *mesh = &s->model->mesh;
  int64_t bytes =
      bd_optimizer_factor_bytes(bd_optimizer_find(s->optimizer), mesh, &value->type, &way->form);
  for (int axis = 0; bytes > 0 && axis < mesh->axes; axis++) {
    if (way->form.at[axis] < 0 && !(way->split >> axis & 1)) continue;
    double seconds = bd_cost_all_reduce(s->model, axis, (double)bytes);
    s->seconds.update += seconds;
    s->seconds.collective[axis] += seconds;
  }
}

// Makes a weight whole that was updated in parts. `product`: of the forward call that alone reads
// it next; 0: nothing is hidden.
static double gather_seconds(const syncing *s, const updating *way, double bytes, double product) {
  if (!way->split) return bd_cost_exchange_over(s->model, way->gathered, bytes);
  double seconds = in_bucket(s->model, bd_cost_exchange_over, way->gathered, bytes);
  return bd_step_behind_forward(s->model, seconds, product);
}

static void update(syncing *s, const bd_value *value, bd_dtype gradient, const updating *way,
                   double product) {
  bd_dtype dtype = value->type.dtype;
  double bytes = bd_cost_value_bytes(s->model, value), elements = way->elements;
  s->seconds.reduce +=
      bd_cost_update_pass(s->model->cluster, elements * (double)bd_dtype_bytes(gradient));
  s->seconds.update += bd_cost_update_pass(
      s->model->cluster,
      elements * (double)bd_memory_update_bytes(s->optimizer, s->masters, dtype, gradient));
  reduce_factors(s, value, way);
  double gather = gather_seconds(s, way, bytes, product);
  s->seconds.update += gather;
  tell(s, way->gathered, gather);
}

bd_weight_end bd_step_end_of_weight(const bd_cost_model *model, const char *optimizer,
                                    bd_masters masters, const bd_value *weight,
                                    const bd_value *gradient, unsigned zero_axes, double product,
                                    bool read_once) {
  syncing each = {.model = model, .optimizer = optimizer, .masters = masters}, once = each;
  updating way = way_to_update(model, weight, gradient, zero_axes);
  unsigned summed = axes_with(&model->mesh, &gradient->sharding, BD_PARTIAL_SUM);
  reduce_use(&each, gradient, way.split && summed == way.split, product);
  update(&once, weight, gradient->type.dtype, &way, read_once ? product : 0);
  double bytes = bd_cost_value_bytes(model, gradient);
  return (bd_weight_end){each.seconds.reduce + bd_cost_update_pass(model->cluster, bytes),
                         once.seconds.reduce + once.seconds.update,
                         bd_cost_update_pass(model->cluster, 3 * bytes),
                         once.seconds.update + bd_cost_update_pass(model->cluster, bytes)};
}

bd_status bd_step_end_of_stage(bd_ctx *ctx, const bd_cost_model *model, const bd_module *spmd,
                               const bd_layout *layout, const char *optimizer, unsigned zero_axes,
                               bd_step_end *out_seconds) {
  syncing s = {.ctx = ctx, .model = model, .spmd = spmd, .layout = layout};
  s.optimizer = optimizer;
  s.products = BD_NEW_ARRAY(ctx->arena, double *, spmd->function_count);
  s.reader = find_readers(ctx, spmd);
  s.held = find_holders(ctx, spmd);
  list_uses(ctx, &s);
  for (int i = 0; i < layout->weight_count; i++) {
    int weight = layout->weights[i];
    int first = first_on(&s, weight, layout->stage);
    if (!first) continue;
    const bd_value *gradient = gradient_of(spmd, first);
    bd_id id = spmd->main->params[spmd->input_count + weight];
    const bd_value *value = &spmd->main->values[id];
    updating way = way_to_update(model, value, gradient, zero_axes);
    double product;
    s.masters = spmd->weights[weight].masters;
    BD_TRY(reduce_uses(&s, weight, way.split, &product));
    update(&s, value, gradient->type.dtype, &way, is_read_once(&s, id) ? product : 0);
  }
  *out_seconds = s.seconds;
  return BD_OK;
}

void bd_step_end_ties(bd_ctx *ctx, const bd_cost_model *model, const bd_module *spmd,
                      const bd_tie **out_ties, int *out_count) {
  syncing s = {.spmd = spmd, .held = find_holders(ctx, spmd)};
  int count = 0, most = 0;
  for (int i = 0; i < spmd->weight_count * spmd->stages; i++)
    most += s.held[i];
  bd_tie *ties = BD_NEW_ARRAY(ctx->arena, bd_tie, most);
  list_uses(ctx, &s);
  for (int weight = 0; weight < spmd->weight_count; weight++) {
    int before = -1;
    for (int stage = 0; stage < spmd->stages; stage++) {
      int use = first_on(&s, weight, stage);
      if (!use) continue;
      double bytes = bd_cost_value_bytes(model, gradient_of(spmd, use));
      if (before >= 0) ties[count++] = (bd_tie){weight, before, stage, bytes};
      before = stage;
    }
  }
  *out_ties = ties;
  *out_count = count;
}

// Whether `stage` holds the weight of tie `index`.
static bool holds(int stage, int tie_count, const bd_tie *ties, int index) {
  for (int i = 0; i < tie_count; i++)
    if (ties[i].weight == ties[index].weight && (ties[i].from == stage || ties[i].to == stage))
      return true;
  return false;
}

double bd_step_end_tie_seconds(const bd_cost_model *model, int stage, int tie_count,
                               const bd_tie *ties) {
  double seconds = 0;
  for (int i = 0; i < tie_count; i++) {
    const bd_tie *tie = &ties[i];
    if (!holds(stage, tie_count, ties, i)) continue;
    seconds += bd_cost_receive(model, tie->from, tie->to, tie->bytes) +
               bd_cost_receive(model, tie->to, tie->from, tie->bytes) +
               4.5 * bd_cost_copy(model, tie->bytes);
  }
  return seconds;
}
