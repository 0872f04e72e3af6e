#include "planner/bound/bound.h"
#include "planner/bound/room.h"
#include "planner/layer/op.h"
#include "planner/step/bound.h"
#include <math.h>

enum { CUT_ROUNDS = 40 };

bd_schedule bd_scene_schedule(const bd_scene *scene) {
  int asked = scene->request->schedule;
  return asked < 0 ? BD_SCHEDULE_1F1B : (bd_schedule)asked;
}

static int micro_batches_of(const bd_scene *scene, int64_t micro_batch) {
  return (int)(scene->request->global_batch / micro_batch);
}

// Least seconds of a step whose stages take `sum` together.
static double least_step(const bd_scene *scene, int stages, int64_t micro_batch, double sum) {
  return bd_step_least_seconds(bd_scene_schedule(scene), stages,
                               micro_batches_of(scene, micro_batch), sum);
}

static bd_status add_work(bd_ctx *ctx, const bd_cost_model *cost, const bd_function *f,
                          double *seconds) {
  for (int i = 0; i < f->op_count; i++) {
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    BD_TRY(bd_op_infer(ctx, f, &f->ops[i], &map, types));
    *seconds += bd_layer_even_seconds(cost, f, i, &map);
  }
  return BD_OK;
}

bd_status bd_bound_work(bd_ctx *ctx, const bd_scene *scene, int stages, int64_t micro_batch,
                        double *out_seconds) {
  // One device as fast as all of a stage.
  int devices = bd_cluster_devices(scene->cluster) / stages;
  bd_cluster whole = bd_cost_unite(scene->cluster, devices);
  bd_cost_model cost = {&whole, {1, {1}}, micro_batch};
  double total = 0;
  for (int r = 0; r < scene->runs->count; r++) {
    const bd_function *forward = scene->runs->runs[r].function;
    double seconds = 0;
    BD_TRY(add_work(ctx, &cost, forward, &seconds));
    BD_TRY(add_work(ctx, &cost, bd_layer_backward(scene->train, forward), &seconds));
    total += scene->runs->runs[r].calls * seconds;
  }
  *out_seconds = least_step(scene, stages, micro_batch, total);
  return BD_OK;
}

static bool is_activation(const bd_value *value) {
  return bd_dtype_is_float(value->type.dtype) && value->type.rank > 0;
}

static bd_sharding form_for(const bd_value *value, const bd_sharding *form) {
  bd_sharding out = *form;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (out.at[axis] >= value->type.rank) out.at[axis] = BD_REPLICATED;
  return out;
}

// Bytes on a rank of what a function hands on.
static double handed_bytes(const bd_function *f, const bd_setting *setting,
                           const bd_sharding *form) {
  double bytes = 0;
  for (int i = 0; i < f->result_count; i++) {
    const bd_value *value = &f->values[f->results[i]];
    if (!is_activation(value)) continue;
    bd_sharding at = form_for(value, form);
    bd_type local = bd_local_type(&setting->mesh, &at, &value->type, setting->micro_batch);
    bytes += (double)bd_type_elements(&local, 1) * (double)bd_dtype_bytes(local.dtype);
  }
  return bytes;
}

// A message between the neighbours with the nearest (or the farthest) link: what the sender and the
// receiver spend on it.
typedef struct handing {
  double send, receive;
} handing;

static handing hand_over(const bd_scene *scene, const bd_setting *setting, double bytes, bool far) {
  bd_cost_model cost = {scene->cluster, setting->mesh, setting->micro_batch};
  handing out = {0, far ? 0 : INFINITY};
  for (int s = 0; s == 0 || s + 1 < setting->stages; s++) {
    double seconds = bd_cost_receive(&cost, s, s + 1, bytes);
    out.receive = far ? fmax(out.receive, seconds) : fmin(out.receive, seconds);
  }
  if (bytes > 0) out.send = bd_cost_copy(&cost, bytes);
  return bytes > 0 ? out : (handing){0, 0};
}

double bd_bound_transfer(const bd_scene *scene, const bd_setting *setting,
                         const bd_setting_layers *layers) {
  double least = INFINITY;
  for (int r = 0; r < scene->runs->count && setting->stages > 1; r++)
    for (int f = 0; f < layers->form_count; f++) {
      if (r + 1 == scene->runs->count && scene->runs->runs[r].calls == 1) continue;
      double bytes = handed_bytes(scene->runs->runs[r].function, setting, &layers->forms[f]);
      handing over = hand_over(scene, setting, bytes, false);
      least = fmin(least, over.send + over.receive);
    }
  return isfinite(least) ? least : 0;
}

// Whether the chain of layers, of so many seconds each by run, can be cut into the setting's stages
// so that a step takes no more than the sum of all stages and `rest`: the last stages take as many
// layers as they can.
static bool can_cut(const bd_scene *scene, const bd_setting *setting, const double *points,
                    double stage_seconds, double rest) {
  int run = scene->runs->count - 1, left = scene->runs->runs[run].calls;
  int micro_batches = micro_batches_of(scene, setting->micro_batch);
  double after = 0;
  for (int s = setting->stages - 1; s >= 0; s--) {
    double filled = stage_seconds,
           most = bd_step_most_seconds(bd_scene_schedule(scene), s, setting->stages, micro_batches,
                                       after, rest);
    while (filled + points[run] <= most) {
      filled += points[run];
      if (--left > 0) continue;
      if (run == 0) return true;
      left = scene->runs->runs[--run].calls;
    }
    after += filled;
  }
  return false;
}

// What a step takes beside the sum `total` of its stages, whatever the cut into contiguous stages,
// to a small fraction; it is `least` at least.
static double rest_seconds(const bd_scene *scene, const bd_setting *setting, const double *points,
                           double stage_seconds, double total, double least) {
  int others = micro_batches_of(scene, setting->micro_batch) - 1;
  double low = least, high = others * (total + stage_seconds);
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    if (can_cut(scene, setting, points, stage_seconds, middle))
      high = middle;
    else
      low = middle;
  }
  return low;
}

bd_status bd_bound_apart(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                         bd_bounded *out) {
  bd_sharding *tied;
  int count = bd_space_tied_forms(ctx, &setting->mesh, scene->runs->any_tied, &tied);
  double *points = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  double stretch = least_step(scene, setting->stages, setting->micro_batch, 1);
  *out = (bd_bounded){.setting = *setting, .seconds = INFINITY, .free_seconds = INFINITY};
  for (int t = 0; t < count; t++) {
    bd_setting with = *setting;
    double total = 0;
    with.tied_form = tied[t];
    BD_TRY(bd_setting_apart(ctx, scene, &with, t > 0, points));
    for (int r = 0; r < scene->runs->count; r++)
      total += scene->runs->runs[r].calls * points[r];
    double rest = rest_seconds(scene, setting, points, 0, total, total * (stretch - 1));
    out->seconds = fmin(out->seconds, total + rest);
    out->free_seconds = fmin(out->free_seconds, total);
  }
  return BD_OK;
}

// With t the time of a micro-batch on a stage, y its synchronization, S stages and m micro-batches,
// a step takes max y and one of several sums of t (planner/step/bound.h), in which t occurs at most
// S + m - 1 times. A layer's problem minimizes u = t + y/(S + m - 1), so that a step takes that sum
// of u or more. The layers are in order, so that it is at least that of the best cut of the chain.
void bd_bound_layers(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                     double cutoff, bd_bounded *out) {
  const bd_setting *setting = &out->setting;
  bd_priced fastest;
  out->seconds = out->bytes = INFINITY;
  if (!bd_price_layers(ctx, scene, layers, 1, 0, &fastest)) return;
  double *points = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  for (int r = 0; r < scene->runs->count; r++)
    points[r] = fastest.points[r].seconds;
  double moved = bd_bound_transfer(scene, setting, layers);
  double sent = 2 * (setting->stages - 1) * moved, total = fastest.seconds + sent;
  double stretch = least_step(scene, setting->stages, setting->micro_batch, 1);
  out->free_seconds = total;
  double seconds = total + rest_seconds(scene, setting, points, setting->stages > 1 ? moved : 0,
                                        total, total * (stretch - 1));
  double enough = seconds < cutoff ? cutoff / stretch - sent : 0;
  bd_room room = bd_room_of_sums(ctx, scene, setting, layers, &fastest, enough, out->price);
  out->seconds = fmax(seconds, (room.seconds + sent) * stretch);
  out->bytes = room.bytes;
  out->price = room.price;
  out->tight = room.tight;
}

// A layer's t + y/(p + m - 1) is at least its part of that of the whole micro-batch, as there are
// no more than so many times as many passes.
double bd_bound_part(const bd_scene *scene, const bd_bounded *whole, int64_t micro_batch) {
  double part = (double)micro_batch / (double)whole->setting.micro_batch;
  return least_step(scene, whole->setting.stages, micro_batch, part * whole->free_seconds);
}

void bd_bound_room(bd_ctx *ctx, const bd_scene *scene, int count, const bd_setting_layers *layers,
                   double cutoff, bd_bounded *bounded) {
  double least = cutoff;
  bd_room_hint hint = {.price = 0};
  for (int t = 0; t < count; t++) {
    bd_bounded *out = &bounded[t];
    const bd_setting *setting = &out->setting;
    double stretch = least_step(scene, setting->stages, setting->micro_batch, 1);
    bd_priced fastest;
    if (!bd_price_layers(ctx, scene, &layers[t], 1, 0, &fastest)) continue;
    double sent = 2 * (setting->stages - 1) * bd_bound_transfer(scene, setting, &layers[t]);
    hint.price = hint.price > 0 ? hint.price : out->price;
    bd_room room =
        bd_room_of_stages(ctx, scene, setting, &layers[t], &fastest, least / stretch - sent, &hint);
    out->seconds = fmax(out->seconds, (room.seconds + sent) * stretch);
    out->bytes = fmax(out->bytes, room.bytes);
    out->price = room.price;
    out->tight = true;
    least = fmin(least, out->seconds);
  }
}

// Bringing every activation from one form to another.
static double conversion_seconds(const bd_scene *scene, const bd_setting *setting,
                                 const bd_function *f, const bd_sharding *from,
                                 const bd_sharding *to) {
  bd_cost_model cost = {scene->cluster, setting->mesh, setting->micro_batch};
  double seconds = 0;
  for (int i = 0; i < f->result_count; i++) {
    const bd_value *value = &f->values[f->results[i]];
    if (!is_activation(value)) continue;
    bd_sharding before = form_for(value, from), after = form_for(value, to);
    seconds += bd_cost_reshard(&cost, &value->type, &before, &after);
  }
  return seconds;
}

void bd_setting_hand_on(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int run,
                        int form_count, const bd_sharding *forms, bd_pipeline_run *out) {
  const bd_function *f = scene->runs->runs[run].function;
  bd_both_ways *change = BD_NEW_ARRAY(ctx->arena, bd_both_ways, form_count * form_count);
  bd_both_ways *send = BD_NEW_ARRAY(ctx->arena, bd_both_ways, form_count * form_count);
  bd_both_ways *receive = BD_NEW_ARRAY(ctx->arena, bd_both_ways, form_count * form_count);
  for (int from = 0; from < form_count; from++)
    for (int to = 0; to < form_count; to++) {
      int at = from * form_count + to;
      double there = conversion_seconds(scene, setting, f, &forms[from], &forms[to]);
      double back = conversion_seconds(scene, setting, f, &forms[to], &forms[from]);
      handing value = hand_over(scene, setting, handed_bytes(f, setting, &forms[from]), true);
      handing gradient = hand_over(scene, setting, handed_bytes(f, setting, &forms[to]), true);
      change[at] = (bd_both_ways){there, back};
      send[at] = (bd_both_ways){value.send, gradient.receive + back};
      receive[at] = (bd_both_ways){value.receive + there, gradient.send};
    }
  double *handed = BD_NEW_ARRAY(ctx->arena, double, form_count);
  for (int form = 0; form < form_count; form++)
    handed[form] = handed_bytes(f, setting, &forms[form]);
  out->handed_bytes = handed;
  out->change = change;
  out->send = send;
  out->receive = receive;
}
