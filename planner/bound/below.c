// The layers of settings, opened as far as plans that beat the one in hand may use them.
#include "planner/bound/chain.h"
#include <math.h>

// Options that take a plan this much above the cutoff are left out: what stands for them holds so
// little that nearer ones would lower bounds where memory is short.
#define BEYOND 1.06

// A setting with one tied form.
typedef struct form {
  bd_apart_layers apart;
  double enough; // seconds of all layers of a micro-batch
  double sent;
  bool beyond; // its ops apart are enough
} form;

static form sketch_form(bd_ctx *ctx, const bd_scene *scene, const bd_bounded *of, double cutoff,
                        const bd_setting_layers *sketched) {
  const bd_setting *setting = &of->setting;
  double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  form out = {.sent = bd_bound_moves(scene, setting, sketched).sum};
  out.enough = cutoff * BEYOND / stretch - out.sent;
  out.apart = bd_bound_apart_layers(ctx, scene, setting->stages, sketched, out.enough);
  out.beyond = out.apart.seconds + out.apart.again_seconds >= out.enough;
  return out;
}

static void bound_beyond(const bd_scene *scene, const form *of, double cutoff, bd_bounded *out) {
  const bd_setting *setting = &out->setting;
  double sum = of->apart.seconds + of->apart.again_seconds + of->sent;
  double seconds = sum * bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  out->seconds = fmax(out->seconds, fmax(seconds, cutoff));
  out->free_seconds = fmax(out->free_seconds, of->apart.seconds + of->sent);
  out->tight = true;
}

// `more`: seconds of all layers beside those of their ops apart. Layers that are sketched once are
// opened once.
static void open_form(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, double more,
                      const bd_setting_layers *first, bd_setting_layers *out) {
  out->links = bd_setting_links_of(ctx, scene, setting, first, out);
  out->layers = BD_NEW_ARRAY(ctx->arena, bd_layer *, scene->runs->count);
  for (int r = 0; r < scene->runs->count; r++) {
    const bd_layer_sketch *sketch = out->sketches[r];
    int like = scene->runs->runs[r].like;
    double enough = bd_layer_sketch_apart(sketch) + more / bd_scene_calls_like(scene, like);
    if (like < r)
      out->layers[r] = out->layers[like];
    else if (first && first->sketches[r] == sketch)
      out->layers[r] = first->layers[r];
    else
      out->layers[r] = bd_layer_open_below(ctx, sketch, enough);
  }
}

bd_status bd_setting_open_below(bd_ctx *ctx, const bd_scene *scene, double cutoff,
                                const bd_setting_layers *share_tied, int count, bd_bounded *bounded,
                                bd_setting_layers *out) {
  form *forms = BD_NEW_ARRAY(ctx->arena, form, count);
  double more = 0; // the most that any form leaves, so that layers are the same to all
  for (int t = 0; t < count; t++) {
    const bd_setting_layers *like = t && !share_tied ? &out[0] : share_tied;
    BD_TRY(bd_setting_sketch(ctx, scene, &bounded[t].setting, like, &out[t]));
    forms[t] = sketch_form(ctx, scene, &bounded[t], cutoff, &out[t]);
    if (!forms[t].beyond) more = fmax(more, forms[t].enough - forms[t].apart.seconds);
  }
  const bd_setting_layers *first = share_tied;
  for (int t = 0; t < count; t++) {
    if (forms[t].beyond) {
      bound_beyond(scene, &forms[t], cutoff, &bounded[t]);
      continue;
    }
    open_form(ctx, scene, &bounded[t].setting, more, first, &out[t]);
    if (!first) first = &out[t];
  }
  return BD_OK;
}
