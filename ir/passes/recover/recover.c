// The pass `recover`: what exporters have written out in primitives becomes the macro-ops that
// plans, kernels and memory know, and weights get the dimensions that the model computes with.
#include "ir/passes/recover/recover.h"
#include "ir/pass.h"
#include "ir/passes/recover/attention.h"
#include "ir/passes/recover/loss.h"
#include "ir/passes/recover/matched.h"
#include "ir/passes/recover/push.h"
#include "ir/passes/recover/rope.h"
#include "ir/passes/recover/route.h"
#include "ir/passes/recover/stack.h"
#include "ir/passes/recover/views.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/stages.h"

// Each round undoes one layer of views around a weight; what is left then stays.
enum { MAX_ROUNDS = 6 };

// The module while it is rewritten, step by step.
typedef struct recovery {
  bd_ctx *ctx;
  const bd_recover_options *options;
  bd_stages stages;
  bd_module *module;
  int changes;
} recovery;

static bd_status run_patterns(recovery *r) {
  for (int rule = 0; rule < bd_match_rule_count(); ++rule) {
    for (int i = 0; i < r->module->function_count; ++i)
      BD_TRY(bd_recover_matched(r->ctx, rule, &r->module->functions[i], &r->changes));
    r->module = bd_stages_keep(&r->stages, r->module);
  }
  return BD_OK;
}

static bd_status run_rules(recovery *r, int count, const bd_edit_rule *rules) {
  for (int rule = 0; rule < count; ++rule) {
    for (int i = 0; i < r->module->function_count; ++i)
      BD_TRY(bd_edit_run(r->ctx, rules[rule], r->options, &r->module->functions[i], &r->changes));
    r->module = bd_stages_keep(&r->stages, r->module);
  }
  return BD_OK;
}

// Short views, and those of weights in the weights.
static bd_status tidy(recovery *r) {
  static const bd_edit_rule tidied[] = {bd_shorten_views, bd_absorb_views, bd_push_to_weights,
                                        bd_join_with_weights};
  r->changes = 1;
  for (int round = 0; r->changes > 0 && round < MAX_ROUNDS; ++round) {
    r->changes = 0;
    BD_TRY(run_rules(r, 4, tidied));
    bd_settle_weights(r->ctx, r->module, &r->changes);
    r->module = bd_stages_keep(&r->stages, r->module);
  }
  return BD_OK;
}

static bd_status recover(recovery *r) {
  static const bd_edit_rule found[] = {bd_recover_loss, bd_scale_views,  bd_scale_views,
                                       bd_recover_rope, bd_absorb_views, bd_recover_attention};
  static const bd_edit_rule routed[] = {bd_recover_routing};
  BD_TRY(run_patterns(r));
  BD_TRY(run_rules(r, sizeof found / sizeof *found, found));
  BD_TRY(tidy(r));
  r->changes = 0;
  BD_TRY(run_rules(r, 1, routed));
  if (r->changes > 0) {
    BD_TRY(tidy(r));
    bd_stack_weights(r->ctx, r->module, &r->changes);
    r->module = bd_stages_keep(&r->stages, r->module);
  }
  for (int i = 0; i < r->module->function_count; ++i)
    r->module->functions[i] = bd_rewrite_drop_unused(r->ctx, r->module->functions[i]);
  return BD_OK;
}

bd_status bd_recover(bd_ctx *ctx, const bd_recover_options *options, const bd_module *in,
                     bd_module **out_module) {
  recovery r = {.ctx = ctx, .options = options};
  bd_stages_begin(ctx, &r.stages);
  r.module = bd_stages_keep(&r.stages, in);
  bd_status status = recover(&r);
  bd_module *made = bd_stages_end(&r.stages, status == BD_OK ? r.module : NULL);
  if (status == BD_OK) *out_module = made;
  return status;
}

bd_status bd_pass_recover(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  return bd_recover(ctx, &(bd_recover_options){0}, in, out_module);
}
