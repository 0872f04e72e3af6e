#include "planner/attempt_bound.h"
#include <math.h>

bd_status bd_attempt_bound_apart(bd_ctx *ctx, bd_attempt *a) {
  a->bounded = BD_NEW(ctx->arena, bd_bounded);
  a->bounded_count = 1;
  return bd_bound_apart(ctx, a->scene, &a->setting, a->cutoff, a->bounded);
}

bd_status bd_attempt_bound_sketch(bd_ctx *ctx, bd_attempt *a) {
  a->bounded = BD_NEW(ctx->arena, bd_bounded);
  a->bounded_count = 1;
  return bd_bound_sketch(ctx, a->scene, &a->setting, a->cutoff, a->bounded);
}

// Of tied forms those that may beat the cutoff, whose layers are open, the least bound first.
static void bound_open_room(bd_ctx *ctx, bd_attempt *a, const bd_setting_layers *layers) {
  bd_setting_layers *of = BD_NEW_ARRAY(ctx->arena, bd_setting_layers, a->bounded_count);
  int *from = BD_NEW_ARRAY(ctx->arena, int, a->bounded_count), count = 0;
  bd_bounded *bounded = BD_NEW_ARRAY(ctx->arena, bd_bounded, a->bounded_count);
  for (int t = 0; t < a->bounded_count; t++) {
    if (a->bounded[t].seconds >= a->cutoff) continue;
    int at = count++;
    for (; at > 0 && a->bounded[from[at - 1]].seconds > a->bounded[t].seconds; at--)
      from[at] = from[at - 1];
    from[at] = t;
  }
  for (int i = 0; i < count; i++) {
    of[i] = layers[from[i]];
    bounded[i] = a->bounded[from[i]];
  }
  bd_bound_room(ctx, a->scene, count, of, a->cutoff, bounded);
  for (int i = 0; i < count; i++)
    a->bounded[from[i]] = bounded[i];
}

// Options of fine meshes are by far the most, and most of them take too long.
static bool opens_below(const bd_attempt *a) {
  return isfinite(a->cutoff) && bd_setting_is_fine(&a->setting);
}

static bd_status bound_all(bd_ctx *ctx, bd_attempt *a, int count, const bd_setting *tied,
                           bd_setting_layers *layers) {
  bd_setting_layers first;
  for (int t = 0; t < count; t++) {
    bd_bounded *out = &a->bounded[a->bounded_count];
    bd_setting_layers *open = &layers[a->bounded_count];
    out->setting = tied[t];
    out->price = a->bounded_count ? out[-1].price : a->tied[0].price; // most layers are the same
    BD_TRY(bd_setting_open(ctx, a->scene, &tied[t], t ? &first : NULL, open));
    if (!t) first = *open;
    bd_bound_layers(ctx, a->scene, open, a->cutoff, out);
    if (isfinite(out->bytes)) a->bounded_count++;
  }
  return BD_OK;
}

static bd_status bound_below(bd_ctx *ctx, bd_attempt *a, int count, const bd_setting *tied,
                             bd_setting_layers *layers) {
  bd_setting_layers *open = BD_NEW_ARRAY(ctx->arena, bd_setting_layers, count);
  bd_bounded *all = BD_NEW_ARRAY(ctx->arena, bd_bounded, count);
  bd_byte_price price = a->tied[0].price;
  for (int t = 0; t < count; t++)
    all[t].setting = tied[t];
  BD_TRY(bd_setting_open_below(ctx, a->scene, a->cutoff, NULL, count, all, open));
  for (int t = 0; t < count; t++) {
    all[t].price = price;
    if (open[t].layers) bd_bound_layers(ctx, a->scene, &open[t], a->cutoff, &all[t]);
    if (isinf(all[t].bytes)) continue;
    if (open[t].layers) price = all[t].price;
    layers[a->bounded_count] = open[t];
    a->bounded[a->bounded_count++] = all[t];
  }
  return BD_OK;
}

// Where a sketch left the setting in doubt, layers seldom tell without workspaces.
bd_status bd_attempt_bound_layers(bd_ctx *ctx, bd_attempt *a) {
  bd_setting *tied;
  int count = bd_setting_tied_forms(ctx, a->scene, &a->setting, &tied);
  bd_setting_layers *layers = BD_NEW_ARRAY(ctx->arena, bd_setting_layers, count);
  a->bounded = BD_NEW_ARRAY(ctx->arena, bd_bounded, count);
  BD_TRY((opens_below(a) ? bound_below : bound_all)(ctx, a, count, tied, layers));
  if (a->roomed) bound_open_room(ctx, a, layers);
  return BD_OK;
}

bd_status bd_attempt_bound_room(bd_ctx *ctx, bd_attempt *a) {
  bd_setting_layers *layers = BD_NEW_ARRAY(ctx->arena, bd_setting_layers, a->tied_count);
  a->bounded = bd_arena_copy(ctx->arena, a->tied, a->tied_count, sizeof *a->bounded);
  a->bounded_count = a->tied_count;
  if (opens_below(a)) {
    BD_TRY(
        bd_setting_open_below(ctx, a->scene, a->cutoff, NULL, a->tied_count, a->bounded, layers));
    bound_open_room(ctx, a, layers);
    return BD_OK;
  }
  for (int t = 0; t < a->tied_count; t++)
    BD_TRY(bd_setting_open(ctx, a->scene, &a->tied[t].setting, t ? &layers[0] : NULL, &layers[t]));
  bd_bound_room(ctx, a->scene, a->tied_count, layers, a->lean ? 0 : a->cutoff, a->bounded);
  return BD_OK;
}
