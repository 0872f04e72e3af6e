#include "planner/bound/links.h"
#include <math.h>
#include <string.h>

enum { MAX_FORMS = 81 }; // 3 ways for each of BD_MAX_AXES

// What a layer makes and the next one reads: a value whose gradient comes back, or not.
typedef struct passed {
  const bd_type *type;
  bool returns;
} passed;

typedef struct passed_list {
  int count;
  passed *items;
} passed_list;

typedef struct finding {
  bd_ctx *ctx;
  const bd_module *train;
  const bd_cost_model *cost;
  int form_count;
  const bd_sharding *forms;
} finding;

static bool is_activation(const bd_type *type) {
  return bd_dtype_is_float(type->dtype) && type->rank > 0;
}

// Whether the function has weights that learn, so that the gradient of what it makes is wanted.
static bool learns(const finding *f, const bd_function *maker) {
  const bd_function *backward = bd_layer_backward(f->train, maker);
  for (int p = 0; p < maker->param_count; p++)
    if (maker->is_weight[p] && bd_layer_learns(backward, p)) return true;
  return false;
}

// Whether the call's function makes a gradient of what it reads as `value`.
static bool returns_gradient(const finding *f, const bd_op *call, const bd_function *callee,
                             bd_id value) {
  const bd_function *backward = bd_layer_backward(f->train, callee);
  for (int p = 0; p < callee->param_count; p++)
    if (call->in[p] == value && bd_layer_learns(backward, p)) return true;
  return false;
}

static passed_list list_passed(const finding *f, const bd_op *call, const bd_op *next) {
  const bd_function *maker = bd_module_find(f->train, call->callee),
                    *reader = bd_module_find(f->train, next->callee);
  passed_list out = {0, BD_NEW_ARRAY(f->ctx->arena, passed, call->out_count)};
  for (int r = 0; r < call->out_count; r++) {
    const bd_type *type = &maker->values[maker->results[r]].type;
    if (!is_activation(type) || bd_ids_find(next->in, next->in_count, call->out[r]) < 0) continue;
    bool returns = learns(f, maker) && returns_gradient(f, next, reader, call->out[r]);
    out.items[out.count++] = (passed){type, returns};
  }
  return out;
}

static void add_changes(const finding *f, const passed *value, double *change) {
  const bd_mesh *mesh = &f->cost->mesh;
  for (int from = 0; from < f->form_count; from++)
    for (int to = 0; to < f->form_count; to++) {
      bd_sharding before = bd_sharding_for_type(&f->forms[from], mesh, value->type),
                  after = bd_sharding_for_type(&f->forms[to], mesh, value->type);
      double seconds = bd_cost_reshard(f->cost, value->type, &before, &after);
      change[from * f->form_count + to] += seconds;
      if (value->returns) change[to * f->form_count + from] += seconds;
    }
}

// The largest value that passes, or of the gradients that come back, in the form in which it is
// least: of several messages of a pass others may be hidden.
static double least_bytes(const finding *f, const passed_list *list, bool back) {
  double least = INFINITY;
  for (int form = 0; form < f->form_count; form++) {
    double bytes = 0;
    for (int i = 0; i < list->count; i++) {
      const passed *value = &list->items[i];
      bd_sharding at = bd_sharding_for_type(&f->forms[form], &f->cost->mesh, value->type);
      if (!back || value->returns)
        bytes = fmax(bytes, bd_cost_local_bytes(f->cost, value->type, &at));
    }
    least = fmin(least, bytes);
  }
  return least;
}

// The forward calls of main, in order.
static const bd_op **list_calls(bd_ctx *ctx, const bd_module *train, int calls) {
  const bd_op **out = BD_NEW_ARRAY(ctx->arena, const bd_op *, calls);
  for (int i = 0, call = 0; call < calls; i++)
    if (bd_module_calls_forward(train, &train->main->ops[i])) out[call++] = &train->main->ops[i];
  return out;
}

// Whether values pass that take as long to change.
static bool same_passed(const passed_list *a, const passed_list *b) {
  bool same = a->count == b->count;
  for (int i = 0; same && i < a->count; i++)
    same = a->items[i].returns == b->items[i].returns &&
           bd_type_equal(a->items[i].type, b->items[i].type);
  return same;
}

static const double *changes_of(const finding *f, const passed_list *list) {
  double *change = BD_NEW_ARRAY(f->ctx->arena, double, (int64_t)f->form_count * f->form_count);
  for (int i = 0; i < list->count; i++)
    add_changes(f, &list->items[i], change);
  return change;
}

const bd_links *bd_links_find(bd_ctx *ctx, const bd_module *train, const bd_model_runs *runs,
                              const bd_cost_model *cost, int form_count, const bd_sharding *forms) {
  finding f = {ctx, train, cost, form_count, forms};
  const bd_op **call = list_calls(ctx, train, runs->calls);
  const double **change = BD_NEW_ARRAY(ctx->arena, const double *, runs->calls);
  double *there = BD_NEW_ARRAY(ctx->arena, double, runs->calls);
  double *back = BD_NEW_ARRAY(ctx->arena, double, runs->calls);
  passed_list before = {0, NULL};
  for (int l = 0; l + 1 < runs->calls; l++) {
    passed_list now = list_passed(&f, call[l], call[l + 1]);
    bool same = l > 0 && same_passed(&before, &now);
    change[l] = same ? change[l - 1] : changes_of(&f, &now);
    there[l] = same ? there[l - 1] : least_bytes(&f, &now, false);
    back[l] = same ? back[l - 1] : least_bytes(&f, &now, true);
    before = now;
  }
  bd_links *out = BD_NEW(ctx->arena, bd_links);
  *out = (bd_links){form_count, change, there, back};
  return out;
}

static double least(const double *values, int count) {
  double out = INFINITY;
  for (int i = 0; i < count; i++)
    out = fmin(out, values[i]);
  return out;
}

double bd_links_add(const bd_links *links, int layer, const double *of_form, double weight,
                    bool first, double *chain) {
  int forms = links ? links->form_count : 1;
  double after[MAX_FORMS];
  memcpy(after, chain, sizeof *chain * (size_t)forms);
  for (int from = 0; from < forms; from++) {
    const double *change = links && !first ? &links->change[layer][from * forms] : NULL;
    double best = first ? 0 : after[from];
    for (int to = 0; change && to < forms; to++)
      best = after[to] + weight * change[to] < best ? after[to] + weight * change[to] : best;
    chain[from] = of_form[from] + best;
  }
  return least(chain, forms);
}

double bd_links_sum(bd_ctx *ctx, const bd_links *links, const bd_model_runs *runs,
                    const double *const *of_form, double weight) {
  double *chain = BD_NEW_ARRAY(ctx->arena, double, links ? links->form_count : 1), sum = 0;
  int layer = runs->calls - 1;
  for (int r = runs->count - 1; r >= 0; r--)
    for (int i = 0; i < runs->runs[r].calls; i++, layer--)
      sum = bd_links_add(links, layer, of_form[r], weight, layer == runs->calls - 1, chain);
  return sum;
}
