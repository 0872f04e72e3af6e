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
                                    double dropout, int64_t experts, int64_t choices,
                                    int64_t capacity) {
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
                           .rotary.theta = rope_theta,
                           .dropout_attention = dropout,
                           .init_scale = 0.02,
                           .stored_prefix = "model.",
                           .experts = experts,
                           .choices = choices,
                           .capacity = capacity};
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

bd_status bd_preset_load(bd_ctx *ctx, const char *name, const bd_model_options *options,
                         bd_module **out_graph) {
#define LOAD(family, preset, ...)                                                                  \
  if (strcmp(name, preset) == 0) {                                                                 \
    bd_##family##_config *config = BD_NEW(ctx->arena, bd_##family##_config);                       \
    *config = family##_config(__VA_ARGS__);                                                        \
    return bd_##family##_build(ctx, name, config, options, BD_NOWHERE, out_graph);                 \
  }
#define BD_PRESET_GPT2(preset, summary, ...) LOAD(gpt2, preset, __VA_ARGS__)
#define BD_PRESET_LLAMA(preset, summary, ...) LOAD(llama, preset, __VA_ARGS__)
#define BD_PRESET_RESNET(preset, summary, ...) LOAD(resnet, preset, __VA_ARGS__)
#define BD_PRESET_UNET3D(preset, summary, ...) LOAD(unet3d, preset, __VA_ARGS__)
#include "frontend/presets.def"
#undef BD_PRESET_GPT2
#undef BD_PRESET_LLAMA
#undef BD_PRESET_RESNET
#undef BD_PRESET_UNET3D
#undef LOAD
  return fail_unknown(ctx, name);
}
