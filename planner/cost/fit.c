// Rates that explain measured seconds best.
#include "planner/cost/fit.h"
#include <math.h>
#include <string.h>

typedef struct fit {
  bd_ctx *ctx;
  const bd_fit_rows *measured;
  bd_cluster *cluster; // so far
} fit;

bool bd_fit_is_collective(bd_op_kind kind) {
  return bd_op_get_info(kind)->level == BD_COLLECTIVE && kind != BD_OP_SHARD &&
         kind != BD_OP_SEND && kind != BD_OP_RECV;
}

static const bd_op *first_op(const bd_fit_row *row) {
  return &row->function->ops[row->first];
}

// Seconds of the arithmetic of one op of a row on a cluster.
static bd_status arithmetic(const fit *f, const bd_cluster *cluster, const bd_fit_row *row, int op,
                            double *out) {
  bd_cost_model model = row->model;
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  const bd_op *at = &row->function->ops[op];
  model.cluster = cluster;
  BD_TRY(bd_op_infer(f->ctx, row->function, at, &map, types));
  *out = bd_cost_arithmetic(&model, row->function, at, &map, at->split);
  return BD_OK;
}

// With sums over rows of x, the seconds at a rate of 1, and t, those measured, each row weighing as
// long as it took: the rate r whose x/r is nearest to t in relative terms.
typedef struct line {
  double xx, x, error;
} line;

static bd_status fit_products_at(const fit *f, double edge, double depth, double *out_rate,
                                 double *out_error) {
  bd_cluster unit = *f->cluster;
  unit.flops = (bd_flops){1, 1, 1, 1};
  unit.work.product_edge = edge;
  unit.work.product_depth = depth;
  line sum = {0};
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < f->measured->row_count; i++) {
      const bd_fit_row *row = &f->measured->rows[i];
      double x;
      if (!bd_op_is_product(first_op(row)->kind)) continue;
      BD_TRY(arithmetic(f, &unit, row, row->first, &x));
      double relative = x / row->seconds;
      if (pass == 0) {
        sum.xx += row->weight * relative * relative;
        sum.x += row->weight * relative;
      } else {
        double miss = relative * sum.x / sum.xx - 1;
        sum.error += row->weight * miss * miss;
      }
    }
  *out_rate = sum.x > 0 ? sum.xx / sum.x : 0;
  *out_error = sum.error;
  return BD_OK;
}

static bd_status fit_products(const fit *f) {
  static const double edges[] = {0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
  static const double depths[] = {0, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256};
  double best = INFINITY;
  for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
      double rate, error;
      BD_TRY(fit_products_at(f, edges[e], depths[d], &rate, &error));
      if (rate <= 0 || error >= best) continue;
      best = error;
      f->cluster->flops = (bd_flops){rate, rate, rate, rate};
      f->cluster->work.product_edge = edges[e];
      f->cluster->work.product_depth = depths[d];
    }
  return BD_OK;
}

// The part of the rate of products that attention reaches.
static bd_status fit_attention(const fit *f, bool (*is_kind)(bd_op_kind), double *out_fraction) {
  bd_cluster full = *f->cluster;
  double ideal = 0, measured = 0;
  memset(&full.work, 0, sizeof full.work);
  for (int i = 0; i < f->measured->row_count; i++) {
    const bd_fit_row *row = &f->measured->rows[i];
    double x;
    if (!is_kind(first_op(row)->kind)) continue;
    BD_TRY(arithmetic(f, &full, row, row->first, &x));
    ideal += row->weight * x / row->seconds;
    measured += row->weight;
  }
  if (measured > 0) *out_fraction = ideal / measured;
  return BD_OK;
}

// The ops of a row that have no measured seconds yet; *out_known is what the others take.
static bd_status unknown_ops(const fit *f, const bd_fit_row *row, int *out_unknown,
                             bd_op_kind *out_kind, double *out_known) {
  *out_unknown = 0;
  *out_known = 0;
  for (int op = row->first; op < row->first + row->count; op++) {
    bd_op_kind kind = row->function->ops[op].kind;
    double x;
    if (f->cluster->work.point_seconds[kind] > 0) {
      BD_TRY(arithmetic(f, f->cluster, row, op, &x));
      *out_known += x;
    } else {
      ++*out_unknown;
      *out_kind = kind;
    }
  }
  return BD_OK;
}

static bool is_plain(const bd_fit_row *row) {
  bd_op_kind kind = first_op(row)->kind;
  return !bd_op_is_product(kind) && !bd_op_attends(kind) &&
         bd_op_get_info(kind)->level != BD_COLLECTIVE && kind != BD_OP_CALL;
}

// Points of a kind's loops in all rows in which it alone is unknown, and the seconds left for it.
static bd_status fit_kind(const fit *f, bd_op_kind kind, bool alone, double *out_seconds) {
  bd_cluster unit = *f->cluster;
  double points = 0, seconds = 0;
  unit.work.point_seconds[kind] = 1;
  for (int i = 0; i < f->measured->row_count; i++) {
    const bd_fit_row *row = &f->measured->rows[i];
    bd_op_kind which = kind;
    double known, x, most = 0;
    int unknown;
    if (!is_plain(row) || (alone && row->count > 1)) continue;
    BD_TRY(unknown_ops(f, row, &unknown, &which, &known));
    if (unknown != 1 || which != kind) continue;
    for (int op = row->first; op < row->first + row->count; op++)
      if (row->function->ops[op].kind == kind) {
        BD_TRY(arithmetic(f, &unit, row, op, &x));
        most += x;
      }
    // Others of the row may explain it whole: something is left all the same.
    double left = fmax(row->seconds - known, 0.1 * row->seconds);
    points += row->weight / row->seconds * most;
    seconds += row->weight / row->seconds * left;
  }
  *out_seconds = points > 0 ? seconds / points : 0;
  return BD_OK;
}

// Kinds that stand alone somewhere first, then those that are alone unknown, until none is left.
static bd_status fit_points(const fit *f) {
  double *known = f->cluster->work.point_seconds;
  memset(known, 0, sizeof f->cluster->work.point_seconds);
  for (int round = 0; round < BD_OP_KIND_COUNT; round++) {
    bool any = false;
    for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++) {
      double seconds;
      if (known[kind] > 0) continue;
      BD_TRY(fit_kind(f, (bd_op_kind)kind, round == 0, &seconds));
      if (seconds <= 0) continue;
      known[kind] = seconds;
      any = true;
    }
    if (!any && round > 0) break;
  }
  return BD_OK;
}

// The fastest that any row moves its values: what is slower is not for the memory's sake.
static bd_status fit_memory(const fit *f) {
  double rate = 0;
  for (int i = 0; i < f->measured->row_count; i++) {
    const bd_fit_row *row = &f->measured->rows[i];
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    const bd_op *op = first_op(row);
    if (!(bd_op_get_info(op->kind)->traits & BD_POINTWISE) || row->count > 1) continue;
    BD_TRY(bd_op_infer(f->ctx, row->function, op, &map, types));
    double bytes =
        bd_op_bytes(row->function, op, &map, &row->model.mesh, op->split, row->model.micro_batch);
    rate = fmax(rate, bytes / row->seconds);
  }
  if (rate > 0) f->cluster->memory_bytes_per_second = rate;
  return BD_OK;
}

double bd_fit_update_rate(const bd_fit_rows *measured) {
  double bytes = 0, seconds = 0;
  for (int i = 0; i < measured->end_count; i++) {
    const bd_fit_end *end = &measured->ends[i];
    if (end->link_bytes > 0) continue;
    bytes += end->update_bytes;
    seconds += end->seconds;
  }
  return bytes > 0 && seconds > 0 ? bytes / seconds : 0;
}

// t = a latency + b / rate over the collectives, least squares of relative errors.
typedef struct squares {
  double aa, ab, bb, a1, b1;
} squares;

static void add_collective(squares *sum, double a, double b, double seconds, double weight) {
  a /= seconds;
  b /= seconds;
  sum->aa += weight * a * a;
  sum->ab += weight * a * b;
  sum->bb += weight * b * b;
  sum->a1 += weight * a;
  sum->b1 += weight * b;
}

static void add_rows(const fit *f, squares *sum) {
  bd_cluster slow = *f->cluster, far = *f->cluster;
  slow.kernel_seconds = far.kernel_seconds = 0;
  slow.intra = slow.inter = (bd_link){.bytes_per_second = 1};
  far.intra = far.inter = (bd_link){.latency_seconds = 1, .bytes_per_second = 1e21};
  for (int i = 0; i < f->measured->row_count; i++) {
    const bd_fit_row *row = &f->measured->rows[i];
    bd_cost_model model = row->model;
    if (!bd_fit_is_collective(first_op(row)->kind)) continue;
    model.cluster = &far;
    double a = bd_cost_collective(&model, row->function, first_op(row));
    model.cluster = &slow;
    double b = bd_cost_collective(&model, row->function, first_op(row));
    add_collective(sum, a, b, row->seconds, row->weight);
  }
}

static void fit_link(const fit *f) {
  squares sum = {0};
  add_rows(f, &sum);
  for (int i = 0; i < f->measured->end_count; i++) {
    const bd_fit_end *end = &f->measured->ends[i];
    double left = end->seconds - end->update_bytes / bd_cost_update_rate(f->cluster);
    if (end->link_bytes <= 0 || left <= 0) continue;
    add_collective(&sum, end->latencies, end->link_bytes, left, left);
  }
  if (sum.bb <= 0) return;
  double determinant = sum.aa * sum.bb - sum.ab * sum.ab;
  double latency = 0;
  if (determinant > 1e-9 * sum.aa * sum.bb)
    latency = fmax(0, (sum.a1 * sum.bb - sum.b1 * sum.ab) / determinant);
  double slowness = (sum.b1 - latency * sum.ab) / sum.bb;
  bd_link link = {.latency_seconds = latency,
                  .bytes_per_second = f->cluster->intra.bytes_per_second};
  if (slowness > 0) link.bytes_per_second = 1 / slowness;
  f->cluster->intra = f->cluster->inter = link;
}

bd_status bd_fit_rates(bd_ctx *ctx, const bd_fit_rows *measured, const bd_cluster *nominal,
                       bd_cluster *out) {
  *out = *nominal;
  out->name = "measured";
  out->kernel_seconds = measured->least_seconds;
  fit f = {ctx, measured, out};
  BD_TRY(fit_products(&f));
  BD_TRY(fit_attention(&f, bd_op_is_attention, &out->work.attention_forward));
  BD_TRY(fit_attention(&f, bd_op_is_attention_grad, &out->work.attention_backward));
  BD_TRY(fit_points(&f));
  BD_TRY(fit_memory(&f));
  double update = bd_fit_update_rate(measured);
  if (update > 0) out->work.update_bytes_per_second = update;
  fit_link(&f);
  return bd_cluster_check(ctx, out, BD_NOWHERE);
}
