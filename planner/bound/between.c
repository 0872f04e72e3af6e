#include "planner/bound/between.h"
#include "ir/memory.h"

// A value between calls of main, or an input.
typedef struct passing {
  double bytes;
  int maker;                    // the layer; -1: none, it is an input
  int last_reader, last_learns; // the last layers that read it, and that hand a gradient back; -1
  // A gradient of it is made: its layer makes nothing else, and learns or hands a gradient on.
  bool active;
  // On the stage at hand, where `stage` says so: layers that hand a gradient back, and whether
  // backward restores it.
  int stage, learning;
  bool restored;
  double held;
} passing;

typedef struct reading {
  int value;
  bool restored, learns;
} reading;

// What a layer reads and makes, by ids of main.
typedef struct passed {
  int read_count, made_count;
  reading *read;
  const bd_id *made;
} passed;

struct bd_between {
  const bd_scene *scene;
  passing *values; // by ids of main
  passed *layers;
  int stage; // they are numbered
  int first, in_flight;
  double bytes;
};

// Whether ops of the backward function read what it restores of a value, whatever is recomputed.
static bool restores(const bd_function *forward, const bd_function *backward, bd_id value) {
  for (int p = 0; p < backward->restore_count; p++) {
    if (forward->saves[p] != value) continue;
    for (int i = 0; i < backward->op_count; i++)
      for (int k = 0; k < backward->ops[i].in_count; k++)
        if (backward->ops[i].in[k] == backward->params[p]) return true;
  }
  return false;
}

static double least_bytes(const bd_setting *setting, const bd_setting_layers *layers,
                          const bd_type *type) {
  int64_t least = INT64_MAX;
  for (int f = 0; f < layers->form_count; f++) {
    bd_sharding form = bd_sharding_for_type(&layers->forms[f], &setting->mesh, type);
    int64_t bytes = bd_align(bd_local_elements(&setting->mesh, &form, type, setting->micro_batch) *
                             bd_dtype_bytes(type->dtype));
    if (bytes < least) least = bytes;
  }
  return layers->form_count ? (double)least : 0;
}

// Whether the layer has a gradient for a weight, or for what one is made of.
static bool hands_back(const bd_between *b, const bd_op *call, const bd_function *forward,
                       const bd_function *backward) {
  for (int p = 0; p < call->in_count; p++)
    if ((forward->is_weight[p] || b->values[call->in[p]].active) && bd_layer_learns(backward, p))
      return true;
  return false;
}

static void find_reads(bd_ctx *ctx, bd_between *b, const bd_op *call, int layer) {
  const bd_function *forward = bd_module_find(b->scene->train, call->callee);
  const bd_function *backward = bd_layer_backward(b->scene->train, forward);
  passed *out = &b->layers[layer];
  *out = (passed){.read = BD_NEW_ARRAY(ctx->arena, reading, call->in_count),
                  .made_count = call->out_count,
                  .made = call->out};
  for (int p = 0; p < call->in_count; p++) {
    passing *value = &b->values[call->in[p]];
    if (forward->is_weight[p] || value->bytes <= 0) continue;
    reading of = {call->in[p], restores(forward, backward, forward->params[p]),
                  value->active && bd_layer_learns(backward, p)};
    out->read[out->read_count++] = of;
    value->last_reader = layer;
    if (of.learns) value->last_learns = layer;
  }
  b->values[call->out[0]].active = call->out_count == 1 && hands_back(b, call, forward, backward);
}

bd_between *bd_between_open(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                            const bd_setting_layers *layers) {
  const bd_function *main = scene->train->main;
  bd_between *b = BD_NEW(ctx->arena, bd_between);
  *b = (bd_between){.scene = scene,
                    .values = BD_NEW_ARRAY(ctx->arena, passing, main->value_count),
                    .layers = BD_NEW_ARRAY(ctx->arena, passed, scene->runs->calls)};
  for (bd_id v = 0; v < main->value_count; v++)
    b->values[v] = (passing){.maker = -1, .last_reader = -1, .last_learns = -1};
  for (int p = 0; p < scene->train->input_count; p++)
    b->values[main->params[p]].bytes =
        least_bytes(setting, layers, &main->values[main->params[p]].type);
  for (int i = 0, layer = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (!bd_module_calls_forward(scene->train, op)) continue;
    find_reads(ctx, b, op, layer);
    for (int r = 0; r < op->out_count; r++) {
      b->values[op->out[r]].maker = layer;
      b->values[op->out[r]].bytes = least_bytes(setting, layers, &main->values[op->out[r]].type);
    }
    layer++;
  }
  return b;
}

void bd_between_begin(bd_between *b, int first, int in_flight) {
  b->stage++;
  b->first = first;
  b->in_flight = in_flight;
  b->bytes = 0;
}

// What a value holds on the stage whose last layer is `layer`.
static double bytes_of(const bd_between *b, const passing *v, int layer) {
  int times = 0, sends = b->scene->train->cuda;
  if (v->maker < b->first) {
    times = (v->restored ? b->in_flight : 1) + (v->learning > 0 ? sends : 0);
  } else {
    int behind = v->last_learns > layer;
    if (v->restored) times = b->in_flight - 1;
    times += behind + (v->learning + behind > 1) + (v->last_reader > layer ? sends : 0);
  }
  return times * v->bytes;
}

// Takes note that a layer has to do with a value.
static void meet(bd_between *b, int value, int layer, bool learns, bool restored) {
  passing *v = &b->values[value];
  if (v->stage != b->stage) {
    v->stage = b->stage;
    v->learning = 0;
    v->restored = false;
    v->held = 0;
  }
  v->learning += learns;
  v->restored = v->restored || restored;
  double held = bytes_of(b, v, layer);
  b->bytes += held - v->held;
  v->held = held;
}

double bd_between_add(bd_between *b, int layer) {
  const passed *own = &b->layers[layer];
  for (int i = 0; i < own->made_count; i++)
    meet(b, own->made[i], layer, false, false);
  for (int i = 0; i < own->read_count; i++)
    meet(b, own->read[i].value, layer, own->read[i].learns, own->read[i].restored);
  return b->bytes;
}
