// One factor for each kind of work, between what a cluster's rates tell and what was measured.
#include "planner/cost/fit.h"
#include <math.h>

typedef enum kind {
  PRODUCTS, // that are not in 8 bits
  ATTENTION,
  ATTENTION_GRAD,
  MEMORY, // all other ops
  INSIDE, // collectives inside a node
  BETWEEN,
  KINDS,
  NO_KIND = KINDS
} kind;

#define MOST_PART 10.0 // of the rate of products that a cluster may say attention reaches
enum { PASSES = 6 };   // an op that goes by two rates tells of both at once

// By how much slower each kind is than the nominal rates tell.
typedef struct slowness {
  double of[KINDS];
} slowness;

static kind kind_of_collective(const bd_fit_row *row, const bd_op *op, const bd_cluster *cluster) {
  int stride = 1, axis = (int)bd_op_int(op, "axis", 0);
  for (int a = row->model.mesh.axes - 1; a > axis; a--)
    stride *= row->model.mesh.size[a];
  bd_ring ring = bd_cluster_ring(cluster, stride, row->model.mesh.size[axis]);
  return ring.levels == ring.node_levels ? INSIDE : BETWEEN;
}

static kind kind_of(const bd_fit_row *row, const bd_cluster *cluster) {
  const bd_op *op = &row->function->ops[row->first];
  if (op->kind == BD_OP_CALL) return NO_KIND;
  if (bd_fit_is_collective(op->kind)) return kind_of_collective(row, op, cluster);
  if (bd_op_get_info(op->kind)->level == BD_COLLECTIVE) return NO_KIND;
  if (bd_op_is_product(op->kind)) return bd_op_find_attr(op, "fp8") ? NO_KIND : PRODUCTS;
  if (bd_op_is_attention(op->kind)) return ATTENTION;
  return bd_op_is_attention_grad(op->kind) ? ATTENTION_GRAD : MEMORY;
}

// What the row takes by a cluster's rates.
static bd_status tell(bd_ctx *ctx, const bd_fit_row *row, const bd_cluster *cluster, double *out) {
  bd_cost_model model = row->model;
  bd_fusion fusion;
  model.cluster = cluster;
  if (row->function == row->module->main)
    return bd_cost_main_op(ctx, &model, row->function, &row->function->ops[row->first], out);
  bd_fuse(ctx, row->module, row->function, &fusion);
  int step = 0;
  while (fusion.first_op[step] != row->first)
    step++;
  return bd_cost_step(ctx, &model, row->module, row->function, &fusion, step, out);
}

// The same, with nothing left behind: there are many rows.
static bd_status tell_apart(bd_ctx *ctx, const bd_fit_row *row, const bd_cluster *cluster,
                            double *out) {
  bd_owned held;
  bd_arena *own = bd_ctx_open_arena(ctx, &held), *outer = ctx->arena;
  ctx->arena = own;
  bd_status status = tell(ctx, row, cluster, out);
  ctx->arena = outer;
  bd_ctx_close_arena(ctx, &held);
  return status;
}

// How much slower still the kinds are than the rates of a cluster tell; 1 where nothing was
// measured.
static bd_status compare(bd_ctx *ctx, const bd_fit_rows *measured, const bd_cluster *cluster,
                         slowness *out) {
  double took[KINDS] = {0}, told[KINDS] = {0};
  for (int i = 0; i < measured->row_count; i++) {
    const bd_fit_row *row = &measured->rows[i];
    kind kind = kind_of(row, cluster);
    double seconds;
    if (kind == NO_KIND) continue;
    BD_TRY(tell_apart(ctx, row, cluster, &seconds));
    took[kind] += row->weight;
    told[kind] += row->weight / row->seconds * seconds;
  }
  for (int k = 0; k < KINDS; k++)
    out->of[k] = took[k] > 0 && told[k] > 0 ? took[k] / told[k] : 1;
  return BD_OK;
}

static void slow_link(bd_link *link, double by) {
  link->latency_seconds *= by;
  link->bytes_per_second /= by;
}

static void scale_part(double *part, double otherwise, double by) {
  *part = fmin(bd_part_or(*part, otherwise) * by, MOST_PART);
}

static void apply(const slowness *s, bd_cluster *c) {
  bd_work_rates *w = &c->work;
  // Attention reaches parts of the rate of products, whose slowness is not its own.
  double forward = s->of[PRODUCTS] / s->of[ATTENTION];
  double backward = s->of[PRODUCTS] / s->of[ATTENTION_GRAD];
  c->flops.f32 /= s->of[PRODUCTS];
  c->flops.bf16 /= s->of[PRODUCTS];
  c->flops.f16 /= s->of[PRODUCTS];
  c->flops.f8 /= s->of[PRODUCTS];
  double both = sqrt(forward * backward);
  scale_part(&w->attention_forward, 1, forward);
  scale_part(&w->attention_backward, 1, backward);
  scale_part(&w->attention_generated, BD_ATTENTION_GENERATED, both);
  scale_part(&w->attention_generated_f32, BD_ATTENTION_GENERATED_F32, both);
  c->memory_bytes_per_second /= s->of[MEMORY];
  slow_link(&c->intra, s->of[INSIDE]);
  if (c->node.island_devices) slow_link(&c->node.island, s->of[INSIDE]);
  if (c->node.switch_sum.bytes_per_second > 0) slow_link(&c->node.switch_sum, s->of[INSIDE]);
  slow_link(&c->inter, c->nodes > 1 ? s->of[BETWEEN] : s->of[INSIDE]);
}

static void set_update(const bd_fit_rows *measured, const bd_cluster *nominal, bd_cluster *out) {
  double rate = bd_fit_update_rate(measured), usual = bd_cost_update_rate(nominal);
  if (rate > 0)
    out->work.update_bytes_per_second =
        fmin(fmax(rate, usual / BD_FIT_MOST_SCALE), usual * BD_FIT_MOST_SCALE);
}

bd_status bd_fit_scales(bd_ctx *ctx, const bd_fit_rows *measured, const bd_cluster *nominal,
                        bd_cluster *out) {
  slowness all, more;
  for (int k = 0; k < KINDS; k++)
    all.of[k] = 1;
  *out = *nominal;
  for (int pass = 0; pass < PASSES; pass++) {
    BD_TRY(compare(ctx, measured, out, &more));
    for (int k = 0; k < KINDS; k++)
      all.of[k] = fmin(fmax(all.of[k] * more.of[k], 1 / BD_FIT_MOST_SCALE), BD_FIT_MOST_SCALE);
    *out = *nominal;
    apply(&all, out);
  }
  out->name = "measured";
  set_update(measured, nominal, out);
  return bd_cluster_check(ctx, out, BD_NOWHERE);
}
