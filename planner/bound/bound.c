#include "planner/bound/bound.h"
#include "planner/bound/chain.h"
#include "planner/bound/room.h"
#include <math.h>

bd_schedule bd_scene_schedule(const bd_scene *scene) {
  int asked = scene->request->schedule;
  return asked < 0 ? BD_SCHEDULE_1F1B : (bd_schedule)asked;
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
  bd_moves moves = bd_bound_moves(scene, setting, layers);
  double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  bd_chain_bound chain = bd_bound_chain(ctx, scene, setting, layers, fastest.of_form, &moves);
  double enough = chain.seconds < cutoff ? cutoff / stretch - moves.sum : 0;
  out->free_seconds = chain.free_seconds;
  bd_room room = bd_room_of_sums(ctx, scene, setting, layers, &fastest, enough, out->price);
  out->seconds = fmax(chain.seconds, (room.seconds + moves.sum) * stretch);
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
  bd_room_hint hint = {.charged = false};
  for (int t = 0; t < count; t++) {
    bd_bounded *out = &bounded[t];
    const bd_setting *setting = &out->setting;
    double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
    bd_priced fastest;
    if (!bd_price_layers(ctx, scene, &layers[t], 1, 0, &fastest)) continue;
    double sent = bd_bound_moves(scene, setting, &layers[t]).sum;
    if (hint.price.seconds <= 0) hint.price = out->price;
    double enough = cutoff > 0 ? least / stretch - sent : 0;
    bd_room room = bd_room_of_stages(ctx, scene, setting, &layers[t], &fastest, enough, &hint);
    out->seconds = fmax(out->seconds, (room.seconds + sent) * stretch);
    out->seconds = fmax(out->seconds, room.step_seconds);
    out->bytes = fmax(out->bytes, room.bytes);
    out->price = room.price;
    out->tight = true;
    least = fmin(least, out->seconds);
  }
}
