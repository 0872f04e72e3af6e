#include "frontend/hf/rope_config.h"
#include <math.h>

// The pair, a real number, that makes so many turns over the positions.
static double pair_of(const bd_hf_yarn *y, double turns, double width, double theta) {
  return width * log((double)y->positions / (turns * 2 * M_PI)) / (2 * log(theta));
}

double bd_hf_yarn_amplitude(double factor, double share) {
  return factor <= 1 ? 1 : 0.1 * share * log(factor) + 1;
}

bd_status bd_hf_yarn_set(bd_ctx *ctx, bd_loc loc, const bd_hf_yarn *y, int64_t head_width,
                         bd_rotary *r) {
  double width = (double)head_width;
  if (y->fast < y->slow || r->theta <= 1)
    return bd_fail(ctx, BD_INVALID, loc,
                   "\"beta_fast\" must be at least \"beta_slow\", and \"rope_theta\" above 1");
  double low = pair_of(y, y->fast, width, r->theta), high = pair_of(y, y->slow, width, r->theta);
  low = fmax(y->truncate ? floor(low) : low, 0);
  high = fmin(y->truncate ? ceil(high) : high, width - 1);
  if (low > high)
    return bd_fail(ctx, BD_INVALID, loc,
                   "rotary scaling \"yarn\": no pair lies between \"beta_fast\" %g and "
                   "\"beta_slow\" %g turns of %lld positions",
                   y->fast, y->slow, (long long)y->positions);
  r->ramp = (bd_rope_ramp){y->factor, low, low == high ? high + 0.001 : high};
  r->amplitude = y->amplitude > 0 ? y->amplitude : bd_hf_yarn_amplitude(y->factor, 1);
  return BD_OK;
}

bd_status bd_hf_yarn_read(bd_ctx *ctx, const bd_json *rope, int64_t positions, int64_t head_width,
                          bd_rotary *r) {
  bd_hf_yarn y = {.fast = 32, .slow = 1, .positions = positions, .truncate = true};
  double scale = 0, all = 0;
  BD_TRY(bd_json_real(ctx, rope, "factor", true, 1, 1e6, &y.factor));
  BD_TRY(bd_json_real(ctx, rope, "beta_fast", false, 1e-6, 1e6, &y.fast));
  BD_TRY(bd_json_real(ctx, rope, "beta_slow", false, 1e-6, 1e6, &y.slow));
  BD_TRY(bd_json_int(ctx, rope, "original_max_position_embeddings", false, 1, BD_MAX_CONFIG_EXTENT,
                     &y.positions));
  BD_TRY(bd_json_bool(ctx, rope, "truncate", false, &y.truncate));
  BD_TRY(bd_json_real(ctx, rope, "mscale", false, 0, 1e6, &scale));
  BD_TRY(bd_json_real(ctx, rope, "mscale_all_dim", false, 0, 1e6, &all));
  if (scale > 0 && all > 0)
    y.amplitude = bd_hf_yarn_amplitude(y.factor, scale) / bd_hf_yarn_amplitude(y.factor, all);
  BD_TRY(bd_json_real(ctx, rope, "attention_factor", false, 1e-6, 1e6, &y.amplitude));
  return bd_hf_yarn_set(ctx, rope->loc, &y, head_width, r);
}
