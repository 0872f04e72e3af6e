// The pass `no-masters`: weights in bf16 lose their masters. Their updates are rounded
// stochastically (Gupta, Agrawal, Gopalakrishnan, Narayanan: "Deep Learning with Limited Numerical
// Precision", ICML 2015, section 3), see docs/numerics.md.
#include "ir/pass.h"

bd_status bd_pass_no_masters(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *out = bd_module_clone(ctx, in);
  bool any = false;
  for (int i = 0; i < out->weight_count; i++) {
    bd_weight *weight = &out->weights[i];
    if (weight->type.dtype == BD_F16)
      return bd_fail(ctx, BD_UNSUPPORTED, in->main->loc,
                     "@%s is f16, whose numbers end at 2^-24 and at 65504: weights keep their "
                     "masters in it; bf16 has the range of f32",
                     weight->name);
    if (!bd_weight_has_master(weight)) continue;
    weight->masters = BD_MASTERS_NONE;
    any = true;
  }
  if (!any)
    return bd_fail(ctx, BD_INVALID, in->main->loc,
                   "no weight has a master; the pass precision comes first");
  *out_module = out;
  return BD_OK;
}
