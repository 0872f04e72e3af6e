#include "cli/explain.h"

static void add_degrees(const bd_plan *plan, const bd_told_strategy *strategies, bd_text *text) {
  bd_degrees d = bd_explain_degrees(plan, strategies);
  bd_text_addf(text, "degrees     data %lld, tensor %lld, sequence %lld, pipeline %d",
               (long long)d.data, (long long)d.tensor, (long long)d.sequence, plan->stages);
  if (d.idle > 1) bd_text_addf(text, "; %lld ranks do the same", (long long)d.idle);
  bd_text_add(text, "\n");
}

static void add_states(const bd_plan *plan, bd_text *text) {
  int split = 0;
  bd_text_add(text, "optimizer   ");
  for (int axis = 0; axis < plan->mesh.axes; axis++)
    if (plan->zero_axes >> axis & 1u && bd_explain_has_ranks(plan, axis))
      bd_text_addf(text, split++ ? ", %d" : "states split over mesh axis %d", axis);
  bd_text_add(text, split ? " (ZeRO 1)\n" : "states on every replica (ZeRO 0)\n");
}

// Of plans in f8.
static void add_products(const bd_plan_details *details, bd_text *text) {
  if (!details || !details->marked_products) return;
  int declined = details->marked_products - details->float8_products;
  int others = details->products - details->marked_products;
  bd_text_addf(text, "products    %d of a micro-batch, %d in 8 bits", details->products,
               details->float8_products);
  if (declined)
    bd_text_addf(text, "; %d in bf16, where rounding the factors would cost more than 8 bits save",
                 declined);
  if (others) bd_text_addf(text, "; %d in bf16 in any case", others);
  bd_text_add(text, "\n");
}

static void add_head(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                     bd_text *text) {
  bd_text_add(text, "model       ");
  bd_explain_add_name(text, plan->model);
  bd_text_addf(text, ", %s%s%s, %s, on %s", bd_dtype_name(plan->precision),
               plan->masters == BD_MASTERS_NONE ? " without masters" : "",
               plan->gradients == BD_GRADIENTS_BF16 ? ", gradients in bf16" : "", plan->optimizer,
               plan->target);
  if (plan->cluster) bd_text_add(text, ", for ");
  if (plan->cluster) bd_explain_add_name(text, plan->cluster);
  bd_text_add(text, "\n");
  bd_text_addf(text, "ranks       %d = %d stage%s x a mesh of %s, %d thread%s each\n",
               bd_plan_ranks(plan), plan->stages, bd_plural(plan->stages, "s"),
               plan->mesh.axes ? bd_mesh_words(ctx, &plan->mesh) : "1", plan->threads_per_rank,
               bd_plural(plan->threads_per_rank, "s"));
  add_products(plan->details, text);
  add_degrees(plan, strategies, text);
  bd_explain_mesh(plan, strategies, text);
  int micro_batches = bd_plan_micro_batches(plan);
  bd_text_addf(text, "step        %lld sample%s", (long long)plan->global_batch,
               bd_plural(plan->global_batch, "s"));
  if (plan->sequence) bd_text_addf(text, " of %lld tokens", (long long)plan->sequence);
  bd_text_addf(text, ", in %d micro-batch%s of %lld, schedule %s\n", micro_batches,
               bd_plural(micro_batches, "es"), (long long)plan->micro_batch,
               bd_schedule_name(plan->schedule));
  add_states(plan, text);
  const bd_plan_details *details = plan->details;
  if (details && details->gradient_parts)
    bd_text_addf(text, "            gradients of %d of %d weights in parts (ZeRO 2)\n",
                 details->gradient_parts, details->weights);
  if (details && details->gathered)
    bd_text_addf(text,
                 "            %d of %d weights in parts, gathered when they are used (ZeRO 3)\n",
                 details->gathered, details->weights);
}

static void add_stages(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "\nstages (calls of main, by strategy)\n");
  for (int stage = 0; stage < plan->stages; stage++) {
    bd_text_addf(text, "  %-3d", stage);
    bool first = true;
    for (int i = 0; i < plan->range_count; i++) {
      const bd_layer_range *range = &plan->ranges[i];
      if (range->stage != stage) continue;
      bd_text_add(text, first ? "" : ", ");
      if (range->count > 1)
        bd_text_addf(text, "%d-%d ", range->first, range->first + range->count - 1);
      else
        bd_text_addf(text, "%d ", range->first);
      bd_explain_add_name(text, plan->strategies[range->strategy].name);
      first = false;
    }
    bd_text_add(text, first ? "nothing\n" : "\n");
  }
}

void bd_explain_page(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                     bool with_ops, bd_text *text) {
  add_head(ctx, plan, strategies, text);
  add_stages(plan, text);
  bd_explain_strategies(plan, strategies, with_ops, text);
  bd_explain_times(plan, text);
  bd_explain_memory(plan, text);
  bd_explain_search(ctx, plan, strategies, text);
}
