// The families that are built as Llama is, and how their configurations differ.
#ifndef BD_FRONTEND_HF_LLAMA_FAMILIES_H
#define BD_FRONTEND_HF_LLAMA_FAMILIES_H
#include "frontend/hf/hf.h"

typedef struct bd_llama_family {
  const char *model_type;
  const char *const *keys;  // members beside those of all families; ends with NULL
  bd_llama_config defaults; // of transformers; 0: what most have
  bd_status (*read)(bd_ctx *ctx, const bd_json *json, bd_llama_config *config); // what it alone has
  bool turns_in_part;  // some elements of a head may be turned alone
  bool latent;         // heads are made of latent vectors
  bool divides_width;  // into heads where `head_dim` is null, whatever it is where it is left out
  double turned_share; // of each head, where the configuration does not say; 0: 1
  // Of layers that have positions of their own, the member of `rope_parameters` for the others.
  const char *turned_layers;
  const char *epsilon; // the norms' member for it; NULL: rms_norm_eps, which others lack
} bd_llama_family;

// That of `model_type`, which is one of them. Static.
const bd_llama_family *bd_llama_family_find(const char *model_type);
#endif
