// What no plan of a setting beats, from the ops of its layers alone.
#include "planner/bound/chain.h"
#include <math.h>

static double sum_apart(const bd_scene *scene, const bd_setting_layers *sketched) {
  double seconds = 0;
  for (int r = 0; r < scene->runs->count; r++)
    seconds += scene->runs->runs[r].calls * bd_layer_sketch_apart(sketched->sketches[r]);
  return seconds;
}

bd_apart_layers bd_bound_apart_layers(bd_ctx *ctx, const bd_scene *scene, int stages,
                                      const bd_setting_layers *sketched, double enough) {
  const bd_layer_holding **held =
      BD_NEW_ARRAY(ctx->arena, const bd_layer_holding *, scene->runs->count);
  for (int r = 0; r < scene->runs->count; r++)
    held[r] = bd_layer_sketch_holding(sketched->sketches[r]);
  double again = bd_bound_shortage(ctx, scene, stages, held);
  bd_apart_layers out = {sum_apart(scene, sketched), again};
  for (int r = 0; r < scene->runs->count && out.seconds + again < enough; r++) {
    bd_layer_sketch_weigh(sketched->sketches[r]);
    if (scene->runs->runs[r].like == r) out.seconds = sum_apart(scene, sketched);
  }
  return out;
}

// With one tied form.
static bd_chain_bound bound_form(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                                 const bd_setting_layers *sketched, double cutoff) {
  double *points = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  const double **of_form = BD_NEW_ARRAY(ctx->arena, const double *, scene->runs->count);
  double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  bd_apart_layers apart =
      bd_bound_apart_layers(ctx, scene, setting->stages, sketched, cutoff / stretch);
  if (isinf(apart.seconds)) return (bd_chain_bound){INFINITY, INFINITY};
  for (int r = 0; r < scene->runs->count; r++) {
    points[r] = bd_layer_sketch_apart(sketched->sketches[r]);
    of_form[r] = &points[r];
  }
  bd_moves none = {.sum = 0};
  bd_chain_bound out = bd_bound_chain(ctx, scene, setting, sketched, of_form, &none);
  out.seconds = fmax(out.seconds, (apart.seconds + apart.again_seconds) * stretch);
  return out;
}

bd_status bd_bound_apart(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                         double cutoff, bd_bounded *out) {
  bd_setting *tied;
  int count = bd_setting_tied_forms(ctx, scene, setting, &tied);
  bd_setting_layers first, now;
  bd_chain_bound least = {INFINITY, INFINITY};
  for (int t = 0; t < count; t++) {
    BD_TRY(bd_setting_sketch(ctx, scene, &tied[t], t ? &first : NULL, &now));
    if (!t) first = now;
    bd_chain_bound bound = bound_form(ctx, scene, &tied[t], &now, cutoff);
    least.seconds = fmin(least.seconds, bound.seconds);
    least.free_seconds = fmin(least.free_seconds, bound.free_seconds);
  }
  *out = (bd_bounded){.setting = *setting};
  if (isinf(least.seconds)) return BD_OK;
  out->seconds = least.seconds;
  out->free_seconds = least.free_seconds;
  return BD_OK;
}
