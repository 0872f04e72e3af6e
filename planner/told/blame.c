#include "planner/told/blame.h"
#include "planner/space.h"
#include <string.h>

typedef struct listing {
  bd_ctx *ctx;
  bd_pin *pins;
  int count;
} listing;

static void add(listing *l, bd_pin_kind kind, int index, const char *words) {
  if (l->count < BD_MAX_PINS) l->pins[l->count++] = (bd_pin){kind, index, words};
}

static const char *mesh_words(bd_ctx *ctx, const bd_mesh *mesh) {
  return bd_intern_f(ctx, "mesh %s", bd_mesh_words(ctx, mesh));
}

static const char *place_words(bd_ctx *ctx, const char *what, bd_loc loc) {
  return bd_intern_f(ctx, "%s at %s:%d:%d", what, loc.file, loc.line, loc.column);
}

static const char *const degree_words[BD_CUT_COUNT] = {
    [BD_CUT_SAMPLES] = "dp", [BD_CUT_TOKENS] = "sp", [BD_CUT_FEATURES] = "tp"};

const char *bd_pin_degrees(bd_ctx *ctx, const bd_constraints *c) {
  const char *all = "";
  for (int kind = BD_CUT_NONE + 1; kind < BD_CUT_COUNT; kind++)
    if (c->degree[kind])
      all =
          bd_intern_f(ctx, "%s%s%s=%d", all, *all ? "," : "", degree_words[kind], c->degree[kind]);
  return all;
}

static void add_constraints(listing *l, const bd_constraints *c) {
  for (int kind = BD_CUT_NONE + 1; kind < BD_CUT_COUNT; kind++)
    if (c->degree[kind])
      add(l, BD_PIN_DEGREE, kind,
          bd_intern_f(l->ctx, "%s=%d", degree_words[kind], c->degree[kind]));
  for (int i = 0; i < c->forbid_count; i++)
    add(l, BD_PIN_FORBID, i, bd_intern_f(l->ctx, "--forbid %s", c->forbids[i].words));
  for (int i = 0; i < c->layer_count; i++)
    add(l, BD_PIN_LAYERS, i, place_words(l->ctx, "the layers", c->layers[i].loc));
  for (int i = 0; i < c->strategy_count; i++)
    add(l, BD_PIN_STRATEGY, i, place_words(l->ctx, "the strategy", c->strategies[i].loc));
}

int bd_pins_of(bd_ctx *ctx, const bd_plan_request *r, bd_pin out[BD_MAX_PINS]) {
  listing l = {.ctx = ctx, .pins = out};
  if (r->stages)
    add(&l, BD_PIN_STAGES, 0, bd_intern_f(ctx, "%d stage%s", r->stages, bd_plural(r->stages, "s")));
  if (r->mesh.axes) add(&l, BD_PIN_MESH, 0, mesh_words(ctx, &r->mesh));
  if (r->micro_batch)
    add(&l, BD_PIN_MICRO_BATCH, 0,
        bd_intern_f(ctx, "a micro-batch of %lld", (long long)r->micro_batch));
  if (r->schedule >= 0)
    add(&l, BD_PIN_SCHEDULE, 0,
        bd_intern_f(ctx, "schedule %s", bd_schedule_name((bd_schedule)r->schedule)));
  if (r->zero >= 0) add(&l, BD_PIN_ZERO, 0, bd_intern_f(ctx, "ZeRO %d", r->zero));
  if (r->recompute >= 0)
    add(&l, BD_PIN_RECOMPUTE, 0, r->recompute ? "everything recomputed" : "nothing recomputed");
  if (r->constraints) add_constraints(&l, r->constraints);
  return l.count;
}

static bd_constraints without(const bd_constraints *from, const bd_pin *pin) {
  bd_constraints out = *from;
  if (pin->kind == BD_PIN_DEGREE) out.degree[pin->index] = 0;
  if (pin->kind == BD_PIN_FORBID) out.forbids[pin->index].what = BD_FORBID_NOTHING;
  if (pin->kind == BD_PIN_LAYERS)
    out.layers[pin->index].stage = out.layers[pin->index].strategy = -1;
  if (pin->kind == BD_PIN_STRATEGY) {
    out.strategies[pin->index].function = "";
    for (int i = 0; i < out.layer_count; i++)
      if (out.layers[i].strategy == pin->index) out.layers[i].strategy = -1;
  }
  return out;
}

void bd_pin_drop(bd_ctx *ctx, const bd_plan_request *request, const bd_pin *pin,
                 bd_plan_request *out, bd_constraints *out_constraints) {
  *out = *request;
  switch (pin->kind) {
  case BD_PIN_STAGES:
    out->stages = 0;
    return;
  case BD_PIN_MESH:
    out->mesh = (bd_mesh){0};
    return;
  case BD_PIN_MICRO_BATCH:
    out->micro_batch = 0;
    return;
  case BD_PIN_SCHEDULE:
    out->schedule = -1;
    return;
  case BD_PIN_ZERO:
    out->zero = -1;
    return;
  case BD_PIN_RECOMPUTE:
    out->recompute = -1;
    return;
  default:
    break;
  }
  bd_constraints own = *request->constraints;
  own.forbids = bd_arena_copy(ctx->arena, own.forbids, own.forbid_count, sizeof *own.forbids);
  own.layers = bd_arena_copy(ctx->arena, own.layers, own.layer_count, sizeof *own.layers);
  own.strategies =
      bd_arena_copy(ctx->arena, own.strategies, own.strategy_count, sizeof *own.strategies);
  *out_constraints = without(&own, pin);
  out->constraints = out_constraints;
}

static int layers_of(bd_ctx *ctx, const bd_module *train) {
  bd_model_runs runs = bd_model_runs_find(ctx, train, NULL);
  int layers = 0;
  for (int r = 0; r < runs.count; r++)
    layers += runs.runs[r].calls;
  return layers;
}

static const char *stages_impossible(bd_ctx *ctx, const bd_module *train, int devices, int stages) {
  int layers = layers_of(ctx, train);
  if (devices % stages)
    return bd_intern_f(ctx, "they do not divide %d device%s", devices, bd_plural(devices, "s"));
  if (stages > layers)
    return bd_intern_f(ctx, "the model has %d layer%s to place", layers, bd_plural(layers, "s"));
  return NULL;
}

static const char *degree_impossible(bd_ctx *ctx, const bd_plan_request *r, bd_cut kind,
                                     int devices) {
  int degree = r->constraints->degree[kind];
  if (devices % degree)
    return bd_intern_f(ctx, "it does not divide %d device%s", devices, bd_plural(devices, "s"));
  if (kind != BD_CUT_SAMPLES) return NULL;
  if (r->global_batch % degree)
    return bd_intern_f(ctx, "the global batch of %lld does not divide into %d parts",
                       (long long)r->global_batch, degree);
  if (r->micro_batch && r->micro_batch % degree)
    return bd_intern_f(ctx, "a micro-batch of %lld does not divide into %d parts",
                       (long long)r->micro_batch, degree);
  return NULL;
}

// Why no plan keeps this pin, whatever the others.
static const char *pin_impossible(bd_ctx *ctx, const bd_module *train, int devices,
                                  const bd_plan_request *r, const bd_pin *pin) {
  int wanted = bd_mesh_devices(&r->mesh);
  switch (pin->kind) {
  case BD_PIN_STAGES:
    return stages_impossible(ctx, train, devices, r->stages);
  case BD_PIN_MICRO_BATCH:
    if (r->global_batch % r->micro_batch == 0) return NULL;
    return bd_intern_f(ctx, "it does not divide the global batch of %lld",
                       (long long)r->global_batch);
  case BD_PIN_MESH:
    if (r->stages && wanted * r->stages != devices)
      return bd_intern_f(ctx, "%d stage%s of it are %d devices, the cluster has %d", r->stages,
                         bd_plural(r->stages, "s"), wanted * r->stages, devices);
    if (devices % wanted == 0) return NULL;
    return bd_intern_f(ctx, "its %d devices do not divide the cluster's %d", wanted, devices);
  case BD_PIN_ZERO:
    return bd_constraints_allow_zero(r->constraints, r->zero, r->zero) ? NULL : "it is forbidden";
  case BD_PIN_DEGREE:
    return degree_impossible(ctx, r, (bd_cut)pin->index, devices);
  default:
    return NULL;
  }
}

// Degrees, and stages, that do not make up the devices together.
static const char *clash(bd_ctx *ctx, const bd_plan_request *r, const bd_pin *pins, int count,
                         int devices) {
  bd_mesh mesh;
  int64_t product = r->stages ? r->stages : 1;
  const char *all = "";
  if (!r->constraints || !bd_constraints_have_degrees(r->constraints)) return NULL;
  for (int s = (int)product; s <= (r->stages ? r->stages : devices); s++)
    if (devices % s == 0 && bd_constraints_mesh(r->constraints, devices / s, &mesh)) return NULL;
  for (int i = 0; i < count; i++) {
    if (pins[i].kind != BD_PIN_DEGREE && pins[i].kind != BD_PIN_STAGES) continue;
    if (pins[i].kind == BD_PIN_DEGREE) product *= r->constraints->degree[pins[i].index];
    all = bd_intern_f(ctx, "%s%s%s", all, *all ? ", " : "", pins[i].words);
  }
  return bd_intern_f(ctx, "%s: together they are %lld device%s, the cluster has %d", all,
                     (long long)product, bd_plural(product, "s"), devices);
}

const char *bd_pins_impossible(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                               const bd_plan_request *request) {
  bd_pin pins[BD_MAX_PINS];
  int count = bd_pins_of(ctx, request, pins), devices = bd_cluster_devices(cluster);
  for (int i = 0; i < count; i++) {
    const char *reason = pin_impossible(ctx, train, devices, request, &pins[i]);
    if (reason) return bd_intern_f(ctx, "%s: %s", pins[i].words, reason);
  }
  return clash(ctx, request, pins, count, devices);
}
