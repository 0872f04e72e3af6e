// What configurations say of rotary positions.
#ifndef BD_FRONTEND_HF_ROPE_CONFIG_H
#define BD_FRONTEND_HF_ROPE_CONFIG_H
#include "frontend/hf/hf.h"

typedef struct bd_hf_rotary {
  double theta;
  bd_rope_stretch stretch;
  double share; // of each head that is turned, from its first element on
  const char *share_key;
  bd_loc share_loc; // of the member that says so
} bd_hf_rotary;

// What a family calls the members beside `rope_scaling` and `rope_parameters`.
typedef struct bd_hf_rotary_keys {
  const char *theta, *share;
} bd_hf_rotary_keys;

// Absent members take the values that are in *rotary already.
BD_NODISCARD bd_status bd_hf_rotary_read(bd_ctx *ctx, const bd_json *json,
                                         const bd_hf_rotary_keys *keys, bd_hf_rotary *rotary);

// How many elements of a head of `head_width` are turned. Errors: BD_INVALID where they make no
// pairs.
BD_NODISCARD bd_status bd_hf_rotary_turned(bd_ctx *ctx, const bd_hf_rotary *rotary,
                                           int64_t head_width, int64_t *out_turned);
// Refuses heads that are turned in part.
BD_NODISCARD bd_status bd_hf_rotary_whole(bd_ctx *ctx, const bd_hf_rotary *rotary);
#endif
