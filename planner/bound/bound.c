#include "planner/bound/bound.h"
#include "planner/bound/chain.h"
#include "planner/bound/room.h"
#include "planner/layer/op.h"
#include <math.h>

bd_schedule bd_scene_schedule(const bd_scene *scene) {
  int asked = scene->request->schedule;
  return asked < 0 ? BD_SCHEDULE_1F1B : (bd_schedule)asked;
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
  *out_seconds = bd_bound_step(scene, stages, micro_batch, total);
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
    bytes += (double)bd_local_elements(&setting->mesh, &at, &value->type, setting->micro_batch) *
             (double)bd_dtype_bytes(value->type.dtype);
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

bd_status bd_bound_apart(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                         bd_bounded *out) {
  bd_sharding *tied;
  int count = bd_space_tied_forms(ctx, &setting->mesh, scene->runs->any_tied, &tied);
  double *points = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  *out = (bd_bounded){.setting = *setting, .seconds = INFINITY, .free_seconds = INFINITY};
  for (int t = 0; t < count; t++) {
    bd_setting with = *setting;
    with.tied_form = tied[t];
    BD_TRY(bd_setting_apart(ctx, scene, &with, t > 0, points));
    bd_chain_bound bound = bd_bound_chain(scene, setting, points, 0);
    out->seconds = fmin(out->seconds, bound.seconds);
    out->free_seconds = fmin(out->free_seconds, bound.free_seconds);
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
  double sent = 2 * (setting->stages - 1) * moved;
  double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  bd_chain_bound chain = bd_bound_chain(scene, setting, points, moved);
  double enough = chain.seconds < cutoff ? cutoff / stretch - sent : 0;
  out->free_seconds = chain.free_seconds;
  bd_room room = bd_room_of_sums(ctx, scene, setting, layers, &fastest, enough, out->price);
  out->seconds = fmax(chain.seconds, (room.seconds + sent) * stretch);
  out->bytes = room.bytes;
  out->price = room.price;
  out->tight = room.tight;
}

// A layer's t + y/(p + m - 1) is at least its part of that of the whole micro-batch, as there are
// no more than so many times as many passes.
double bd_bound_part(const bd_scene *scene, const bd_bounded *whole, int64_t micro_batch) {
  double part = (double)micro_batch / (double)whole->setting.micro_batch;
  return bd_bound_step(scene, whole->setting.stages, micro_batch, part * whole->free_seconds);
}

void bd_bound_room(bd_ctx *ctx, const bd_scene *scene, int count, const bd_setting_layers *layers,
                   double cutoff, bd_bounded *bounded) {
  double least = cutoff;
  bd_room_hint hint = {.price = 0};
  for (int t = 0; t < count; t++) {
    bd_bounded *out = &bounded[t];
    const bd_setting *setting = &out->setting;
    double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
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
