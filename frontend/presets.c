#include "frontend/image.h"
#include "frontend/transformer.h"
#include "ir/base/suggest.h"
#include <string.h>

static const bd_preset presets[] = {
#define BD_PRESET_GPT2(name, summary, ...) {name, summary, "gpt2"},
#define BD_PRESET_LLAMA(name, summary, ...) {name, summary, "llama"},
#define BD_PRESET_RESNET(name, summary, ...) {name, summary, "resnet"},
#define BD_PRESET_UNET3D(name, summary, ...) {name, summary, "unet3d"},
#include "frontend/presets.def"
#undef BD_PRESET_GPT2
#undef BD_PRESET_LLAMA
#undef BD_PRESET_RESNET
#undef BD_PRESET_UNET3D
};
enum { PRESET_COUNT = sizeof presets / sizeof presets[0] };

static bd_gpt2_config gpt2_config(int64_t vocabulary, int64_t positions, int64_t width,
                                  int64_t layers, int64_t heads, double dropout) {
  return (bd_gpt2_config){.vocabulary = vocabulary,
                          .positions = positions,
                          .width = width,
                          .layers = layers,
                          .heads = heads,
                          .inner = 4 * width,
                          .activation = BD_OP_GELU,
                          .epsilon = 1e-5,
                          .dropout_embedding = dropout,
                          .dropout_attention = dropout,
                          .dropout_residual = dropout,
                          .init_scale = 0.02,
                          .tied = true,
                          .stored_prefix = ""};
}

static bd_llama_config llama_config(int64_t vocabulary, int64_t positions, int64_t width,
                                    int64_t layers, int64_t heads, int64_t kv_heads,
                                    int64_t head_width, int64_t inner, double rope_theta,
                                    double dropout) {
  return (bd_llama_config){.vocabulary = vocabulary,
                           .positions = positions,
                           .width = width,
                           .layers = layers,
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .head_width = head_width,
                           .inner = inner,
                           .activation = BD_OP_SILU,
                           .epsilon = 1e-5,
                           .rope_theta = rope_theta,
                           .dropout_attention = dropout,
                           .init_scale = 0.02};
}

static bd_resnet_config resnet_config(int64_t size, int64_t width, int64_t classes, int a, int b,
                                      int c, int d) {
  return (bd_resnet_config){size, width, classes, {a, b, c, d}};
}

static bd_unet3d_config unet3d_config(int64_t size, int64_t channels_in, int64_t classes, int64_t a,
                                      int64_t b, int64_t c, int64_t d, int64_t e) {
  return (bd_unet3d_config){size, channels_in, classes, {a, b, c, d, e}};
}

static const bd_preset *find(const char *name) {
  for (int i = 0; i < PRESET_COUNT; ++i) {
    if (strcmp(presets[i].name, name) == 0) return &presets[i];
  }
  return NULL;
}

const bd_preset *bd_presets(int *out_count) {
  *out_count = PRESET_COUNT;
  return presets;
}

bool bd_preset_exists(const char *name) {
  return find(name) != NULL;
}

static bd_status fail_unknown(bd_ctx *ctx, const char *name) {
  const char *names[PRESET_COUNT + 1] = {0};
  for (int i = 0; i < PRESET_COUNT; ++i)
    names[i] = presets[i].name;
  const char *meant = bd_suggest(name, names);
  if (meant)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                   "\"%s\" is no preset, file or folder; did you mean \"%s\"?", name, meant);
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "\"%s\" is no preset, file or folder; `braid presets` lists the presets", name);
}

// The configuration of a preset of the family, or NULL.
static const bd_gpt2_config *find_gpt2(bd_ctx *ctx, const char *name) {
  const struct {
    const char *name;
    bd_gpt2_config config;
  } known[] = {
#define BD_PRESET_GPT2(name, summary, ...) {name, gpt2_config(__VA_ARGS__)},
#define BD_PRESET_LLAMA(name, summary, ...)
#define BD_PRESET_RESNET(name, summary, ...)
#define BD_PRESET_UNET3D(name, summary, ...)
#include "frontend/presets.def"
#undef BD_PRESET_GPT2
#undef BD_PRESET_LLAMA
#undef BD_PRESET_RESNET
#undef BD_PRESET_UNET3D
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(known[i].name, name) != 0) continue;
    bd_gpt2_config *config = BD_NEW(ctx->arena, bd_gpt2_config);
    *config = known[i].config;
    return config;
  }
  return NULL;
}

static const bd_llama_config *find_llama(bd_ctx *ctx, const char *name) {
  const struct {
    const char *name;
    bd_llama_config config;
  } known[] = {
#define BD_PRESET_GPT2(name, summary, ...)
#define BD_PRESET_LLAMA(name, summary, ...) {name, llama_config(__VA_ARGS__)},
#define BD_PRESET_RESNET(name, summary, ...)
#define BD_PRESET_UNET3D(name, summary, ...)
#include "frontend/presets.def"
#undef BD_PRESET_GPT2
#undef BD_PRESET_LLAMA
#undef BD_PRESET_RESNET
#undef BD_PRESET_UNET3D
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(known[i].name, name) != 0) continue;
    bd_llama_config *config = BD_NEW(ctx->arena, bd_llama_config);
    *config = known[i].config;
    return config;
  }
  return NULL;
}

static const bd_resnet_config *find_resnet(bd_ctx *ctx, const char *name) {
  const struct {
    const char *name;
    bd_resnet_config config;
  } known[] = {
#define BD_PRESET_GPT2(name, summary, ...)
#define BD_PRESET_LLAMA(name, summary, ...)
#define BD_PRESET_RESNET(name, summary, ...) {name, resnet_config(__VA_ARGS__)},
#define BD_PRESET_UNET3D(name, summary, ...)
#include "frontend/presets.def"
#undef BD_PRESET_GPT2
#undef BD_PRESET_LLAMA
#undef BD_PRESET_RESNET
#undef BD_PRESET_UNET3D
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(known[i].name, name) != 0) continue;
    bd_resnet_config *config = BD_NEW(ctx->arena, bd_resnet_config);
    *config = known[i].config;
    return config;
  }
  return NULL;
}

static const bd_unet3d_config *find_unet3d(bd_ctx *ctx, const char *name) {
  const struct {
    const char *name;
    bd_unet3d_config config;
  } known[] = {
#define BD_PRESET_GPT2(name, summary, ...)
#define BD_PRESET_LLAMA(name, summary, ...)
#define BD_PRESET_RESNET(name, summary, ...)
#define BD_PRESET_UNET3D(name, summary, ...) {name, unet3d_config(__VA_ARGS__)},
#include "frontend/presets.def"
#undef BD_PRESET_GPT2
#undef BD_PRESET_LLAMA
#undef BD_PRESET_RESNET
#undef BD_PRESET_UNET3D
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(known[i].name, name) != 0) continue;
    bd_unet3d_config *config = BD_NEW(ctx->arena, bd_unet3d_config);
    *config = known[i].config;
    return config;
  }
  return NULL;
}

bd_status bd_preset_load(bd_ctx *ctx, const char *name, const bd_model_options *options,
                         bd_module **out_graph) {
  const bd_gpt2_config *gpt2 = find_gpt2(ctx, name);
  if (gpt2) return bd_gpt2_build(ctx, name, gpt2, options, BD_NOWHERE, out_graph);
  const bd_llama_config *llama = find_llama(ctx, name);
  if (llama) return bd_llama_build(ctx, name, llama, options, BD_NOWHERE, out_graph);
  const bd_resnet_config *resnet = find_resnet(ctx, name);
  if (resnet) return bd_resnet_build(ctx, name, resnet, options, BD_NOWHERE, out_graph);
  const bd_unet3d_config *unet3d = find_unet3d(ctx, name);
  if (unet3d) return bd_unet3d_build(ctx, name, unet3d, options, BD_NOWHERE, out_graph);
  return fail_unknown(ctx, name);
}
