// What configurations say of rotary positions.
#ifndef BD_FRONTEND_HF_ROPE_CONFIG_H
#define BD_FRONTEND_HF_ROPE_CONFIG_H
#include "frontend/hf/hf.h"

typedef struct bd_hf_rotary_family {
  // Its members beside `rope_scaling` and `rope_parameters`.
  const char *theta, *share;
  const char *layers; // the member of `rope_parameters` that has them; NULL: layers are alike
  bool apart;         // of these layers nothing tells but that member and `theta`
  double usual_share; // of each head that is turned, from its first element on
  bool whole;         // no other share is known
  int64_t positions;  // of the model: those of the first training if nothing is said of them
} bd_hf_rotary_family;

// YaRN (Peng et al. 2023) as transformers has it.
typedef struct bd_hf_yarn {
  double factor;
  double fast, slow; // turns over the first positions: pairs that make more are left as they are,
                     // those that make fewer are slowed by the factor
  int64_t positions; // of the first training
  double amplitude;  // 0: that of the factor
  bool truncate;     // the two pairs have whole numbers
} bd_hf_yarn;
// Of heads of `head_width` and *rotary's theta. Errors: BD_INVALID where `fast` is less than
// `slow`, where theta is not above 1, and where no pair is between the two.
BD_NODISCARD bd_status bd_hf_yarn_set(bd_ctx *ctx, bd_loc loc, const bd_hf_yarn *yarn,
                                      int64_t head_width, bd_rotary *rotary);

// What the object `rope` says of it; `positions` where it does not say.
BD_NODISCARD bd_status bd_hf_yarn_read(bd_ctx *ctx, const bd_json *rope, int64_t positions,
                                       int64_t head_width, bd_rotary *rotary);

// LongRoPE (Ding et al. 2024) as transformers has it: what the object `rope` says of it, and `json`
// of the positions of the first training, `positions` where neither does. Of each head `turned`
// elements are turned.
BD_NODISCARD bd_status bd_hf_longrope_read(bd_ctx *ctx, const bd_json *json, const bd_json *rope,
                                           int64_t positions, int64_t turned, bd_rotary *rotary);

// Of heads of `head_width`. An absent theta is the one that *rotary has already. Errors: BD_INVALID
// where two members that say one thing differ, or what is turned makes no pairs.
BD_NODISCARD bd_status bd_hf_rotary_read(bd_ctx *ctx, const bd_json *json,
                                         const bd_hf_rotary_family *family, int64_t head_width,
                                         bd_rotary *rotary);
// What YaRN multiplies lengths by at a stretch of `factor`, of which `share` counts: a tenth of its
// logarithm more than 1.
double bd_hf_yarn_amplitude(double factor, double share);
#endif
