#include "planner/layer.h"
#include "planner/aside.h"
#include "planner/eliminate.h"
#include "planner/layer_problem.h"
#include "planner/layer_workspace.h"
#include "planner/sync.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum {
  PRICES = 7,     // of a byte: the free one, the highest, and slopes between
  RECENT = 64,    // prices whose points a layer remembers
  FORM_LIMIT = 5, // forms with candidates: the fastest, and the leanest
  BUDGETS = 3,    // between the fastest and the leanest, for integer programs
  RELAXED_VISITS = 1 << 18,
};
#define PROGRAM_SECONDS 10.0
// A price or time so small that it only decides between equals.
#define TIE 1e-7
// How far beside a price that is thought to be right others are tried.
#define BESIDE 1e-3

// A point that nothing but these changes while no workspace is held.
typedef struct priced_point {
  double seconds_weight, bytes_weight;
  int in_flight;
  bd_layer_point point;
} priced_point;

struct bd_layer {
  const bd_layer_request *request;
  bd_layer_space space;
  bd_choice_problem problem;
  double **tape, **state; // per node and option: bytes of one tape; of weights and the like
  bd_layer_workspace *workspace;
  double **held; // per node and option: the share of the workspace that is charged; NULL: none
  bd_elimination *elimination;
  bd_layer_point free; // the choice at no price of bytes, of which only the bytes depend on what is
                       // held; no option: not yet known
  int recent_count;    // of all that were, the last of which are remembered, in turn
  priced_point recent[RECENT];
  double least_seconds; // of any choice
  int measured_count, measured_capacity;
  const int **measured; // options that candidates were made of
};

const bd_function *bd_layer_backward(const bd_module *train, const bd_function *forward) {
  static const bd_function none = {.name = "", .role = BD_ROLE_BACKWARD};
  return forward->peer ? bd_module_find(train, forward->peer) : &none;
}

static bd_status lower(bd_ctx *ctx, const bd_layer_request *request, const bd_strategy *strategy,
                       bd_module *module, bd_function **out_forward, bd_function **out_backward) {
  const bd_mesh *mesh = &request->cost.mesh;
  bd_function *forward, *backward;
  BD_TRY(bd_apply_strategy(ctx, request->train, mesh, request->cost.micro_batch, strategy, &forward,
                           &backward));
  *module = *request->train;
  module->stage = BD_STAGE_SHARDED;
  module->mesh = *mesh;
  module->stages = 1;
  module->micro_batch = request->cost.micro_batch;
  module->function_count = module->function_capacity = backward ? 2 : 1;
  module->functions = BD_NEW_ARRAY(ctx->arena, bd_function *, 2);
  module->functions[0] = forward;
  module->functions[1] = backward;
  BD_TRY(bd_partition_function(ctx, module, forward, out_forward));
  if (backward)
    BD_TRY(bd_partition_function(ctx, module, backward, out_backward));
  else
    *out_backward = BD_NEW(ctx->arena, bd_function);
  module->stage = BD_STAGE_SPMD;
  module->functions[0] = *out_forward;
  module->functions[1] = *out_backward;
  return BD_OK;
}

static int64_t local_elements(const bd_layer_request *request, const bd_type *type,
                              const bd_sharding *sharding) {
  bd_type local = bd_local_type(&request->cost.mesh, sharding, type, request->cost.micro_batch);
  return bd_type_elements(&local, 1);
}

// The gradient of a parameter, or NULL.
static const bd_value *gradient_of(const bd_function *backward, int param) {
  for (int r = 0; r < backward->result_count; r++)
    if (backward->gradient_of[r] == param) return &backward->values[backward->results[r]];
  return NULL;
}

// Weights, gradients, optimizer state and the step's synchronization.
static void add_weight_bytes(const bd_layer_request *request, const bd_function *backward,
                             const bd_function *f, bd_layer_candidate *out) {
  const bd_mesh *mesh = &request->cost.mesh;
  for (int p = 0; p < f->param_count; p++) {
    if (!f->is_weight[p]) continue;
    const bd_value *weight = &f->values[f->params[p]], *gradient = gradient_of(backward, p);
    const bd_type *type = &weight->type;
    int64_t elements = local_elements(request, type, &weight->sharding);
    out->weight_bytes += bd_align(elements * bd_dtype_bytes(type->dtype));
    bd_state_form states = {weight->sharding, 1};
    for (int zero = 0; zero < 2; zero++) {
      states = bd_memory_state_form(mesh, &weight->sharding, gradient ? &gradient->sharding : NULL,
                                    zero ? ~0u : 0);
      out->optimizer_bytes[zero] +=
          bd_memory_optimizer_bytes(request->optimizer, type->dtype,
                                    local_elements(request, type, &states.form), states.parts);
    }
    out->gradient_bytes += bd_align(local_elements(request, type, &states.form) *
                                    bd_dtype_bytes(bd_dtype_wide(type->dtype)));
    if (!gradient) continue;
    out->sync_seconds += bd_sync_seconds(
        &request->cost, request->optimizer, type, &weight->sharding, &gradient->sharding,
        bd_constraints_split_states(request->constraints, request->zero), 1);
  }
}

bd_status bd_layer_measure(bd_ctx *ctx, const bd_layer_request *request, bd_layer_candidate *out) {
  bd_module module;
  bd_function *forward, *backward;
  int64_t forward_bytes, backward_bytes;
  BD_TRY(lower(ctx, request, &out->strategy, &module, &forward, &backward));
  BD_TRY(bd_cost_function(ctx, &request->cost, &module, forward, &out->forward_seconds));
  BD_TRY(bd_cost_function(ctx, &request->cost, &module, backward, &out->backward_seconds));
  BD_TRY(bd_memory_place_tape(ctx, &module, forward, &out->tape_bytes));
  BD_TRY(bd_memory_place_workspace(ctx, &module, forward, &forward_bytes));
  BD_TRY(bd_memory_place_workspace(ctx, &module, backward, &backward_bytes));
  out->workspace_bytes = forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
  for (int r = 0; r < forward->result_count; r++)
    out->boundary_bytes += bd_memory_value_bytes(&module, &forward->values[forward->results[r]]);
  for (int r = 0; r < backward->result_count; r++)
    if (!forward->is_weight[backward->gradient_of[r]])
      out->passing_bytes += bd_memory_value_bytes(&module, &backward->values[backward->results[r]]);
  add_weight_bytes(request, backward, forward, out);
  bd_aside aside = bd_aside_of(&request->cost, request->function, &out->strategy);
  out->forward_seconds += aside.forward_seconds;
  out->backward_seconds += aside.backward_seconds;
  out->tape_bytes -= aside.tape_bytes;
  out->workspace_bytes += aside.room_bytes;
  return BD_OK;
}

static int64_t persistent(const bd_layer_candidate *c) {
  return c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[0];
}

static double seconds(const bd_layer_request *request, const bd_layer_candidate *c) {
  return c->forward_seconds + c->backward_seconds + c->sync_seconds / request->passes;
}

static bool dominates(const bd_layer_request *request, const bd_layer_candidate *a,
                      const bd_layer_candidate *b) {
  return a->form == b->form && seconds(request, a) <= seconds(request, b) &&
         persistent(a) <= persistent(b) && a->optimizer_bytes[1] <= b->optimizer_bytes[1] &&
         a->tape_bytes <= b->tape_bytes && a->workspace_bytes <= b->workspace_bytes;
}

static void keep(const bd_layer_request *request, bd_layer_candidate *list, int *count,
                 const bd_layer_candidate *candidate) {
  for (int i = 0; i < *count; i++)
    if (dominates(request, &list[i], candidate)) return;
  int kept = 0;
  for (int i = 0; i < *count; i++)
    if (!dominates(request, candidate, &list[i])) list[kept++] = list[i];
  list[kept++] = *candidate;
  *count = kept;
}

bd_status bd_layer_open(bd_ctx *ctx, const bd_layer_request *request, bd_layer **out_layer) {
  bd_layer *layer = BD_NEW(ctx->arena, bd_layer);
  layer->request = request;
  BD_TRY(bd_layer_space_build(ctx, request, &layer->space));
  BD_TRY(bd_layer_problem(ctx, &layer->space, &layer->problem, &layer->tape));
  const bd_choice_problem *problem = &layer->problem;
  layer->elimination = bd_elimination_create(ctx, problem, NULL, problem->nodes - 1);
  if (!layer->elimination)
    layer->elimination = bd_elimination_relax(ctx, problem, problem->nodes - 1, RELAXED_VISITS);
  assert(layer->elimination); // no edge of a layer is too wide for that
  layer->state = BD_NEW_ARRAY(ctx->arena, double *, problem->nodes);
  for (int i = 0; i < problem->nodes; i++) {
    layer->state[i] = BD_NEW_ARRAY(ctx->arena, double, problem->node[i].options);
    memcpy(layer->state[i], problem->node[i].usage,
           sizeof(double) * (size_t)problem->node[i].options);
  }
  layer->workspace = bd_layer_workspace_create(&layer->space);
  *out_layer = layer;
  return BD_OK;
}

// What the boundary, the last node, hands on is held once where no other layer of the stage reads
// it in backward.
static void hold_tapes(bd_layer *layer, int in_flight) {
  for (int i = 0; i < layer->problem.nodes; i++)
    for (int o = 0; o < layer->problem.node[i].options; o++)
      layer->problem.node[i].usage[o] =
          layer->state[i][o] + (i + 1 < layer->problem.nodes ? in_flight : 1) * layer->tape[i][o] +
          (layer->held ? layer->held[i][o] : 0);
}

static bool eliminate(bd_ctx *ctx, bd_layer *layer, double seconds_weight, double bytes_weight,
                      int in_flight, bd_layer_point *out) {
  hold_tapes(layer, in_flight);
  out->option = BD_NEW_ARRAY(ctx->arena, int, layer->problem.nodes);
  if (!bd_elimination_run(layer->elimination, seconds_weight, bytes_weight, out->option))
    return false;
  bd_choice_evaluate(&layer->problem, out->option, &out->seconds, &out->bytes);
  out->least = bd_elimination_bound(layer->elimination);
  if (bytes_weight == 0) out->seconds = out->least / seconds_weight;
  if (seconds_weight == 0) out->bytes = out->least / bytes_weight;
  return true;
}

// The point of a price that was asked for before; NULL: none is remembered.
static const bd_layer_point *recall(const bd_layer *layer, const priced_point *asked) {
  int count = layer->recent_count < RECENT ? layer->recent_count : RECENT;
  for (int i = 0; i < count && !layer->held; i++) {
    const priced_point *p = &layer->recent[i];
    if (p->seconds_weight == asked->seconds_weight && p->bytes_weight == asked->bytes_weight &&
        p->in_flight == asked->in_flight)
      return &p->point;
  }
  return NULL;
}

bool bd_layer_price(bd_ctx *ctx, bd_layer *layer, double seconds_weight, double bytes_weight,
                    int in_flight, bd_layer_point *out) {
  priced_point asked = {seconds_weight, bytes_weight, in_flight, layer->free};
  const bd_layer_point *known = recall(layer, &asked);
  bool unpriced = seconds_weight == 1 && bytes_weight == 0;
  if (known) {
    *out = *known;
    return true;
  }
  if (unpriced && layer->free.option) {
    double seconds;
    *out = layer->free;
    hold_tapes(layer, in_flight);
    bd_choice_evaluate(&layer->problem, out->option, &seconds, &out->bytes);
    return true;
  }
  if (!eliminate(ctx, layer, seconds_weight, bytes_weight, in_flight, out)) return false;
  if (unpriced) layer->free = *out;
  asked.point = *out;
  if (!layer->held) layer->recent[layer->recent_count++ % RECENT] = asked;
  return true;
}

// What a choice adds to the workspace at a moment, the last node, the boundary, standing for what
// is there in any case.
static double workspace_at(const bd_layer *layer, int moment, int node, int option) {
  return node == layer->space.cluster_count
             ? bd_layer_workspace_fixed(layer->workspace, moment)
             : bd_layer_workspace_added(layer->workspace, moment, node,
                                        &layer->space.clusters[node].options[option]);
}

double bd_layer_workspace_of(const bd_layer *layer, const int *option, int *out_moment) {
  double most = -1;
  for (int m = 0; m < bd_layer_workspace_moments(layer->workspace); m++) {
    double bytes = 0;
    for (int i = 0; i < layer->problem.nodes; i++)
      bytes += workspace_at(layer, m, i, option[i]);
    if (bytes > most) *out_moment = m;
    most = fmax(most, bytes);
  }
  return most;
}

double bd_layer_fixed_workspace(const bd_layer *layer) {
  double most = 0;
  for (int m = 0; m < bd_layer_workspace_moments(layer->workspace); m++)
    most = fmax(most, bd_layer_workspace_fixed(layer->workspace, m));
  return most;
}

void bd_layer_hold_workspace(bd_ctx *ctx, bd_layer *layer, int moment, double share) {
  layer->held = NULL;
  if (share <= 0) return;
  layer->held = BD_NEW_ARRAY(ctx->arena, double *, layer->problem.nodes);
  for (int i = 0; i < layer->problem.nodes; i++) {
    layer->held[i] = BD_NEW_ARRAY(ctx->arena, double, layer->problem.node[i].options);
    for (int o = 0; o < layer->problem.node[i].options; o++)
      layer->held[i][o] = share * workspace_at(layer, moment, i, o);
  }
}

double bd_layer_least_bytes(const bd_layer *layer) {
  double total = 0;
  for (int i = 0; i < layer->problem.nodes; i++) {
    double least = INFINITY;
    for (int o = 0; o < layer->problem.node[i].options; o++)
      if (isfinite(layer->problem.node[i].cost[o]))
        least = fmin(least, layer->state[i][o] + layer->tape[i][o]);
    total += least;
  }
  return total;
}

// Points found so far: per form, one at each price.
typedef struct front {
  bd_ctx *ctx;
  bd_layer *layer;
  int in_flight, forms, prices;
  bd_layer_point (*points)[PRICES + 2]; // per form; no option: none
  bd_layer_point best[PRICES];          // of all forms, by falling bytes
} front;

static bool add_price(front *f, double seconds_weight, double bytes_weight, bd_layer_point *out) {
  const bd_choice_problem *problem = &f->layer->problem;
  if (!eliminate(f->ctx, f->layer, seconds_weight, bytes_weight, f->in_flight, out)) return false;
  for (int form = 0; form < f->forms; form++) {
    bd_layer_point *p = &f->points[form][f->prices];
    p->option = BD_NEW_ARRAY(f->ctx->arena, int, problem->nodes);
    if (isfinite(bd_elimination_choose(f->layer->elimination, form, p->option)))
      bd_choice_evaluate(problem, p->option, &p->seconds, &p->bytes);
    else
      p->option = NULL;
  }
  f->prices++;
  return true;
}

// Corners of the trade: the fastest and the leanest point, then where the line between neighbours
// leaves room below it, the widest gap in bytes first.
static bool find_corners(front *f) {
  bd_layer_point *best = f->best, next;
  if (!add_price(f, 1, 0, &next)) return false;
  f->layer->least_seconds = next.seconds;
  double tie = TIE * next.seconds / fmax(next.bytes, 1);
  add_price(f, 1, tie, &best[0]);
  add_price(f, TIE / fmax(tie, 1e-300) * TIE, 1, &best[1]);
  int count = 2;
  bool closed[PRICES] = {false}; // no corner lies between a point and the next
  while (f->prices < PRICES) {
    int widest = -1;
    for (int i = 0; i + 1 < count; i++) {
      double gap = best[i].bytes - best[i + 1].bytes;
      if (closed[i] || gap <= 0 || best[i + 1].seconds <= best[i].seconds) continue;
      if (widest < 0 || gap > best[widest].bytes - best[widest + 1].bytes) widest = i;
    }
    if (widest < 0) break;
    const bd_layer_point *fast = &best[widest], *lean = &best[widest + 1];
    double price = (lean->seconds - fast->seconds) / (fast->bytes - lean->bytes);
    add_price(f, 1, price, &next);
    double value = next.seconds + price * next.bytes, known = fast->seconds + price * fast->bytes;
    if (value >= known * (1 - 1e-9) || next.bytes >= fast->bytes || next.bytes <= lean->bytes) {
      closed[widest] = true;
      continue;
    }
    for (int i = count++; i > widest + 1; i--) {
      best[i] = best[i - 1];
      closed[i] = closed[i - 1];
    }
    best[widest + 1] = next;
    closed[widest + 1] = false;
  }
  return true;
}

// The fastest forms, and the leanest one. Point 1 is the fastest, point 2 the leanest.
static int choose_forms(const front *f, int *out_forms) {
  int count = 0, leanest = -1;
  bool *taken = BD_NEW_ARRAY(f->ctx->arena, bool, f->forms);
  for (int form = 0; form < f->forms; form++)
    if (f->points[form][2].option &&
        (leanest < 0 || f->points[form][2].bytes < f->points[leanest][2].bytes))
      leanest = form;
  while (count + 1 < FORM_LIMIT) {
    int fastest = -1;
    for (int form = 0; form < f->forms; form++)
      if (!taken[form] && f->points[form][1].option &&
          (fastest < 0 || f->points[form][1].seconds < f->points[fastest][1].seconds))
        fastest = form;
    if (fastest < 0) break;
    taken[fastest] = true;
    out_forms[count++] = fastest;
  }
  if (leanest >= 0 && !taken[leanest]) out_forms[count++] = leanest;
  return count;
}

// Whether a candidate was made of the choice before; from now on it was.
static bool was_measured(bd_ctx *ctx, bd_layer *layer, const int *option) {
  size_t bytes = sizeof *option * (size_t)layer->problem.nodes;
  for (int i = 0; i < layer->measured_count; i++)
    if (memcmp(layer->measured[i], option, bytes) == 0) return true;
  if (layer->measured_count == layer->measured_capacity) {
    int wanted = layer->measured_capacity ? 2 * layer->measured_capacity : 64;
    layer->measured = bd_arena_grow(ctx->arena, layer->measured, (size_t)layer->measured_count,
                                    (size_t)wanted, sizeof *layer->measured);
    layer->measured_capacity = wanted;
  }
  layer->measured[layer->measured_count++] = option;
  return false;
}

static bd_status add_candidate(bd_ctx *ctx, bd_layer *layer, int form, const int *option,
                               bd_layer_candidate *list, int *count) {
  if (was_measured(ctx, layer, option)) return BD_OK;
  bd_layer_candidate candidate = {
      .form = form,
      .strategy = bd_layer_strategy(ctx, &layer->space, option),
      .proven_seconds = layer->least_seconds,
  };
  BD_TRY(bd_layer_measure(ctx, layer->request, &candidate));
  keep(layer->request, list, count, &candidate);
  return BD_OK;
}

// What lies between the corners of a form, where integer programs can tell.
static bd_status add_between(front *f, int form, bd_layer_candidate *list, int *count) {
  const bd_layer_point *fast = &f->points[form][1], *lean = &f->points[form][2];
  bd_choice_problem problem = f->layer->problem;
  if (!f->layer->request->between || !bd_choice_is_small(&problem) || fast->bytes <= lean->bytes)
    return BD_OK;
  problem.node = BD_NEW_ARRAY(f->ctx->arena, bd_choice_node, problem.nodes);
  memcpy(problem.node, f->layer->problem.node, sizeof *problem.node * (size_t)problem.nodes);
  bd_choice_node *boundary = &problem.node[problem.nodes - 1];
  boundary->cost = BD_NEW_ARRAY(f->ctx->arena, double, boundary->options);
  for (int other = 0; other < boundary->options; other++)
    boundary->cost[other] = other == form ? 0 : INFINITY;
  for (int b = 1; b <= BUDGETS; b++) {
    bd_choice choice;
    problem.budget = lean->bytes + (fast->bytes - lean->bytes) * b / (BUDGETS + 1);
    BD_TRY(bd_choice_solve(f->ctx, &problem, PROGRAM_SECONDS, &choice));
    if (choice.feasible) BD_TRY(add_candidate(f->ctx, f->layer, form, choice.option, list, count));
  }
  return BD_OK;
}

// Whether layers of the form that is best beside a price mix two points there, which is to say that
// it is the price of the cap: where those differ in one node alone, there are more candidates. They
// cost as much a byte, but need not hold the workspace of the leaner one.
static bd_status add_switched(front *f, double price, bd_layer_candidate *list, int *count) {
  const bd_choice_problem *problem = &f->layer->problem;
  const bd_layer_point *fast = NULL, *lean = NULL;
  int best = -1;
  for (int form = 0; form < f->forms; form++) {
    const bd_layer_point *p = &f->points[form][f->prices - 2];
    if (!p->option || !f->points[form][f->prices - 1].option) continue;
    if (best >= 0 && p->seconds + price * p->bytes >= fast->seconds + price * fast->bytes) continue;
    best = form;
    fast = p;
    lean = &f->points[form][f->prices - 1];
  }
  for (int node = 0; best >= 0 && node < problem->nodes; node++) {
    if (fast->option[node] == lean->option[node]) continue;
    double seconds, bytes;
    int *option = BD_NEW_ARRAY(f->ctx->arena, int, problem->nodes);
    memcpy(option, fast->option, sizeof *option * (size_t)problem->nodes);
    option[node] = lean->option[node];
    bd_choice_evaluate(problem, option, &seconds, &bytes);
    if (isfinite(seconds)) BD_TRY(add_candidate(f->ctx, f->layer, best, option, list, count));
  }
  return BD_OK;
}

bd_status bd_layer_candidates(bd_ctx *ctx, bd_layer *layer, int in_flight, double price,
                              bd_layer_candidate **out_candidates, int *out_count) {
  front f = {.ctx = ctx, .layer = layer, .in_flight = in_flight};
  f.forms = layer->request->form_count;
  f.points = bd_arena_array(ctx->arena, (size_t)f.forms, sizeof *f.points);
  *out_count = 0;
  *out_candidates = NULL;
  if (!find_corners(&f)) return BD_OK;
  bd_layer_point beside;
  for (int side = -1; side <= 1 && price > 0; side += 2)
    add_price(&f, 1, price * (1 + side * BESIDE), &beside);
  int *forms = BD_NEW_ARRAY(ctx->arena, int, f.forms + FORM_LIMIT);
  int form_count = choose_forms(&f, forms);
  *out_candidates = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate,
                                 form_count * (PRICES + 2 + BUDGETS) + layer->problem.nodes + 1);
  for (int i = 0; i < form_count; i++) {
    const bd_layer_point *points = f.points[forms[i]];
    for (int k = 1; k < f.prices; k++) {
      bool again = !points[k].option;
      for (int before = 1; before < k && !again; before++)
        again = points[before].option && points[before].seconds == points[k].seconds &&
                points[before].bytes == points[k].bytes;
      if (!again)
        BD_TRY(add_candidate(ctx, layer, forms[i], points[k].option, *out_candidates, out_count));
    }
    BD_TRY(add_between(&f, forms[i], *out_candidates, out_count));
  }
  return price > 0 ? add_switched(&f, price, *out_candidates, out_count) : BD_OK;
}

// What is best at a price, for every form that has candidates.
static bd_status add_priced(bd_ctx *ctx, bd_layer *layer, int in_flight, double price,
                            bd_layer_point *out, bd_layer_candidate *list, int *count) {
  int forms = layer->request->form_count;
  bool *wanted = BD_NEW_ARRAY(ctx->arena, bool, forms);
  if (!eliminate(ctx, layer, 1, price, in_flight, out)) {
    out->option = NULL;
    return BD_OK;
  }
  for (int k = 0; k < *count; k++)
    wanted[list[k].form] = true;
  for (int form = 0; form < forms; form++) {
    int *option = BD_NEW_ARRAY(ctx->arena, int, layer->problem.nodes);
    if (wanted[form] && isfinite(bd_elimination_choose(layer->elimination, form, option)))
      BD_TRY(add_candidate(ctx, layer, form, option, list, count));
  }
  return BD_OK;
}

bd_status bd_layer_reprice(bd_ctx *ctx, bd_layer *layer, int in_flight, double price, int layers,
                           bd_layer_candidate **candidates, int *count, bool *out_new) {
  bd_layer_point point;
  int moment, before = layer->measured_count, room = *count + 2 * layer->request->form_count;
  *out_new = false;
  *candidates =
      bd_arena_grow(ctx->arena, *candidates, (size_t)*count, (size_t)room, sizeof **candidates);
  BD_TRY(add_priced(ctx, layer, in_flight, price, &point, *candidates, count));
  if (!point.option) return BD_OK;
  bd_layer_workspace_of(layer, point.option, &moment);
  bd_layer_hold_workspace(ctx, layer, moment, 1.0 / layers);
  bd_status status = add_priced(ctx, layer, in_flight, price, &point, *candidates, count);
  bd_layer_hold_workspace(ctx, layer, moment, 0);
  *out_new = layer->measured_count > before;
  return status;
}
