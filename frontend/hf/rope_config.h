// What configurations say of rotary positions.
#ifndef BD_FRONTEND_HF_ROPE_CONFIG_H
#define BD_FRONTEND_HF_ROPE_CONFIG_H
#include "frontend/hf/hf.h"

typedef struct bd_hf_rotary_family {
  const char *theta, *share; // its members beside `rope_scaling` and `rope_parameters`
  double usual_share;        // of each head that is turned, from its first element on
  bool whole;                // no other share is known
  int64_t ramp_positions;    // above 0: "yarn" is known, and these are the model's positions
} bd_hf_rotary_family;

// Of heads of `head_width`. An absent theta is the one that *rotary has already. Errors: BD_INVALID
// where two members that say one thing differ, or what is turned makes no pairs.
BD_NODISCARD bd_status bd_hf_rotary_read(bd_ctx *ctx, const bd_json *json,
                                         const bd_hf_rotary_family *family, int64_t head_width,
                                         bd_rotary *rotary);
// What YaRN multiplies lengths by at a stretch of `factor`, of which `share` counts: a tenth of its
// logarithm more than 1.
double bd_hf_rotary_magnitude(double factor, double share);
#endif
