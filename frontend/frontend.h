// Models in: presets, Hugging Face folders, native JSON graphs -> a verified graph module.
#ifndef BD_FRONTEND_FRONTEND_H
#define BD_FRONTEND_FRONTEND_H
#include "ir/print.h"

typedef struct bd_model_options {
  int64_t sequence;   // 0: the model's own
  int64_t vocabulary; // 0: the model's own; smaller sets are refused at load time, not here
  bool samples; // of models of token streams: each sample has targets of its own, some below 0
} bd_model_options;

// `spec`: a preset's name, a Hugging Face folder, a .json graph, or a .braid text of stage graph.
// Errors: BD_INVALID, with a did-you-mean for presets.
BD_NODISCARD bd_status bd_model_load(bd_ctx *ctx, const char *spec, const bd_model_options *options,
                                     bd_module **out_graph);

typedef struct bd_preset {
  const char *name, *summary;
  const char *family; // "gpt2", "llama", "resnet" or "unet3d"
} bd_preset;
const bd_preset *bd_presets(int *out_count);
#endif
