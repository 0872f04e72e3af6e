// layernorm and rmsnorm, and their gradients. `mean` is absent in rmsnorm. On GPUs a run of
// pointwise ops may come along: one that makes `x`, or the gradient dy, which goes to memory on its
// way, or one that reads y or dx.
#include "codegen/kernel/norm.h"
#include "codegen/kernel/columns.h"
#include "codegen/kernel/rows.h"

typedef bd_gen_norm norm;

static LLVMValueRef mul(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFMul(g->b, a, b, "");
}

static LLVMValueRef sub(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFSub(g->b, a, b, "");
}

LLVMValueRef bd_gen_norm_gain(bd_gen *g, const norm *n, LLVMValueRef held) {
  if (n->base == 0) return held;
  return LLVMBuildFAdd(g->b, held, bd_gen_real_like(held, n->base), "");
}

static LLVMValueRef load_gain(bd_gen *g, const norm *n) {
  return bd_gen_norm_gain(g, n, bd_gen_load(g, &n->gain));
}

static LLVMValueRef centered(bd_gen *g, const norm *n) {
  LLVMValueRef x = bd_gen_load(g, &n->x);
  return n->centered ? sub(g, x, bd_gen_splat(g, n->m)) : x;
}

static LLVMValueRef normalized(bd_gen *g, const norm *n) {
  return mul(g, centered(g, n), bd_gen_splat(g, n->r));
}

static bool has_run(const bd_gen *g) {
  return g->kernel->run_count > 0;
}

static bool run_leads(const bd_gen *g) {
  return bd_gen_norm_run_leads(g);
}

// Whether the loops of the norm's rows are the dimensions of a run, and rows are packed alike with
// it and without, so that they add up to the same bits.
static bool is_along(const bd_gen *g, const norm *n) {
  const bd_kernel *k = g->kernel;
  for (int d = 0; d <= n->nest.outer_count; d++)
    if (g->map.in[0][d] != d) return false;
  for (int i = 0; i < k->in_count + k->out_count; i++) {
    bd_id id = i < k->in_count ? k->in[i] : k->out[i - k->in_count];
    if (!bd_gen_packs(g, n->nest.lane_loop, &n->run->access[id], &n->x)) return false;
  }
  return true;
}

// Lays rows out over items, packed as all that is read and written along them allows.
static bd_status over_rows(bd_gen *g, norm *n, bd_gen_body body) {
  const bd_kernel *k = g->kernel;
  const bd_access *along[] = {&n->x, &n->dy, &n->gain, &n->bias, &n->y};
  bd_gen_pack(g, n->nest.lane_loop, BD_GEN_ALIGNED, (int)(sizeof along / sizeof *along), along);
  bd_gen_run run;
  if (has_run(g)) {
    run = bd_gen_run_open(g, k->run_op, k->run_count);
    n->run = &run;
    if (!is_along(g, n))
      return bd_fail(g->ctx, BD_INTERNAL, g->op->loc, "a run does not lie along the rows of '%s'",
                     bd_op_get_info(g->op->kind)->name);
  }
  if (!bd_gen_norm_in_registers(g, n)) bd_gen_items(g, &n->nest, body, n);
  return has_run(g) ? bd_gen_run_close(g, &run) : BD_OK;
}

static void along(bd_gen *g, norm *n, bd_gen_body body) {
  bd_gen_lanes(g, n->nest.lane_loop, BD_GEN_LANES, body, n);
}

// The mean of a sum over the row, double.
static LLVMValueRef mean_of(bd_gen *g, const norm *n, LLVMValueRef sum) {
  LLVMValueRef total = bd_gen_sum_end(g, sum);
  double count = (double)g->loop[n->nest.lane_loop].extent;
  return LLVMBuildFDiv(g->b, total, bd_gen_real_like(total, count), "");
}

// The first operand, which a run may make, when it is first asked for.
static LLVMValueRef first(bd_gen *g, const norm *n, const bd_access *operand) {
  if (!run_leads(g)) return bd_gen_load(g, operand);
  bd_gen_run_point(g, n->run);
  return n->run->value[g->op->in[0]];
}

static void add_x(bd_gen *g, void *user) {
  norm *n = user;
  bd_gen_sum_add(g, n->sum, first(g, n, &n->x));
}

static void add_square(bd_gen *g, void *user) {
  norm *n = user;
  LLVMTypeRef wide = bd_gen_type(g, bd_gen_f64(g));
  LLVMValueRef x = n->centered ? centered(g, n) : first(g, n, &n->x);
  LLVMValueRef d = LLVMBuildFPExt(g->b, x, wide, "");
  bd_gen_sum_add(g, n->sum2, mul(g, d, d));
}

// The first result: to memory, or to the run that reads it, or both.
static void give(bd_gen *g, norm *n, LLVMValueRef value) {
  bool runs = has_run(g) && !run_leads(g);
  if (!runs || g->kernel->keeps) bd_gen_store(g, &n->y, value);
  if (!runs) return;
  value = bd_gen_rounded(g, n->x.dtype, value);
  n->run->value[g->op->out[0]] = value;
  bd_gen_run_point(g, n->run);
}

// Where it goes: nowhere, if a run takes it from registers.
static bd_access result(bd_gen *g) {
  const bd_kernel *k = g->kernel;
  return has_run(g) && !run_leads(g) && !k->keeps ? (bd_access){0} : bd_gen_out(g, 0);
}

static void scale_row(bd_gen *g, void *user) {
  norm *n = user;
  LLVMValueRef y = mul(g, normalized(g, n), load_gain(g, n));
  if (n->centered) y = LLVMBuildFAdd(g->b, y, bd_gen_load(g, &n->bias), "");
  give(g, n, y);
}

static void forward_row(bd_gen *g, void *user) {
  norm *n = user;
  if (n->centered) {
    n->sum = bd_gen_sum_begin(g);
    along(g, n, add_x);
    n->m = bd_gen_to_f32(g, mean_of(g, n, n->sum));
    bd_gen_store(g, &n->mean, n->m);
  }
  n->sum2 = bd_gen_sum_begin(g);
  along(g, n, add_square);
  LLVMValueRef variance = mean_of(g, n, n->sum2);
  LLVMValueRef eps = bd_gen_real_like(variance, bd_op_real(g->op, "eps", 1e-5));
  LLVMValueRef root = bd_gen_sqrt(g, LLVMBuildFAdd(g->b, variance, eps, ""));
  LLVMValueRef rstd = LLVMBuildFDiv(g->b, bd_gen_real_like(root, 1.0), root, "");
  n->r = bd_gen_to_f32(g, rstd);
  bd_gen_store(g, &n->rstd, n->r);
  along(g, n, scale_row);
}

bd_status bd_gen_layernorm(bd_gen *g) {
  norm n = {.centered = true,
            .nest = bd_gen_row_nest(g, 0),
            .x = bd_gen_in(g, 0),
            .gain = bd_gen_in(g, 1),
            .bias = bd_gen_in(g, 2),
            .y = result(g),
            .mean = bd_gen_out(g, 1),
            .rstd = bd_gen_out(g, 2)};
  return over_rows(g, &n, forward_row);
}

bd_status bd_gen_rmsnorm(bd_gen *g) {
  norm n = {.nest = bd_gen_row_nest(g, 0),
            .x = bd_gen_in(g, 0),
            .gain = bd_gen_in(g, 1),
            .base = bd_op_real(g->op, "base", 0),
            .y = result(g),
            .rstd = bd_gen_out(g, 1)};
  return over_rows(g, &n, forward_row);
}

static LLVMValueRef scaled(bd_gen *g, const norm *n, LLVMValueRef dy) {
  return mul(g, dy, load_gain(g, n));
}

static void load_statistics(bd_gen *g, norm *n) {
  if (n->centered) n->m = bd_gen_load(g, &n->mean);
  n->r = bd_gen_load(g, &n->rstd);
}

static void add_gradient(bd_gen *g, void *user) {
  norm *n = user;
  LLVMValueRef dy = scaled(g, n, first(g, n, &n->dy));
  if (n->centered) bd_gen_sum_add(g, n->sum, dy);
  bd_gen_sum_add(g, n->sum2, mul(g, dy, normalized(g, n)));
}

static void gradient_lanes(bd_gen *g, void *user) {
  norm *n = user;
  LLVMValueRef d = scaled(g, n, bd_gen_load(g, &n->dy));
  if (n->centered) d = sub(g, d, bd_gen_splat(g, n->mean_g));
  d = sub(g, d, mul(g, normalized(g, n), bd_gen_splat(g, n->mean_gx)));
  d = mul(g, d, bd_gen_splat(g, n->r));
  give(g, n, d);
}

// With d = dy * gain and h = (x - mean) rstd: dx = rstd (d - mean(d) - h mean(d h)).
static void gradient_row(bd_gen *g, void *user) {
  norm *n = user;
  load_statistics(g, n);
  if (n->centered) n->sum = bd_gen_sum_begin(g);
  n->sum2 = bd_gen_sum_begin(g);
  along(g, n, add_gradient);
  if (n->centered) n->mean_g = bd_gen_to_f32(g, mean_of(g, n, n->sum));
  n->mean_gx = bd_gen_to_f32(g, mean_of(g, n, n->sum2));
  along(g, n, gradient_lanes);
}

bd_status bd_gen_layernorm_dx(bd_gen *g) {
  norm n = {.centered = true,
            .nest = bd_gen_row_nest(g, 0),
            .dy = bd_gen_in(g, 0),
            .x = bd_gen_in(g, 1),
            .gain = bd_gen_in(g, 2),
            .mean = bd_gen_in(g, 3),
            .rstd = bd_gen_in(g, 4),
            .y = result(g)};
  return over_rows(g, &n, gradient_row);
}

bd_status bd_gen_rmsnorm_dx(bd_gen *g) {
  norm n = {.nest = bd_gen_row_nest(g, 0),
            .dy = bd_gen_in(g, 0),
            .x = bd_gen_in(g, 1),
            .gain = bd_gen_in(g, 2),
            .base = bd_op_real(g->op, "base", 0),
            .rstd = bd_gen_in(g, 3),
            .y = result(g)};
  return over_rows(g, &n, gradient_row);
}

// Of dy, x, where the norm is centered its mean, and 1/deviation. The row's statistics are the same
// for all columns: with stride 0 along the lanes they are loaded once and spread.
static void weight_terms(bd_gen *g, void *user, const LLVMValueRef *values,
                         LLVMValueRef *out_terms) {
  bool has_mean = ((norm *)user)->centered;
  LLVMValueRef x = has_mean ? sub(g, values[1], values[2]) : values[1];
  out_terms[0] = mul(g, values[0], mul(g, x, values[has_mean ? 3 : 2]));
  if (has_mean) out_terms[1] = values[0];
}

static void weight_gradient(bd_gen *g, norm *n) {
  bd_gen_columns c = {.lane_loop = n->nest.lane_loop,
                      .row_count = n->nest.outer_count,
                      .sums = n->centered ? 2 : 1,
                      .read_count = g->op->in_count,
                      .term = weight_terms,
                      .user = n};
  for (int i = 0; i < c.read_count; i++)
    c.read[i] = bd_gen_in(g, i);
  for (int i = 0; i < c.row_count; i++)
    c.row[i] = n->nest.outer[i];
  for (int i = 0; i < c.sums; i++)
    c.out[i] = bd_gen_out(g, i);
  bd_gen_sum_columns(g, &c);
}

bd_status bd_gen_layernorm_dw(bd_gen *g) {
  norm n = {.centered = true, .nest = bd_gen_row_nest(g, 0)};
  weight_gradient(g, &n);
  return BD_OK;
}

bd_status bd_gen_rmsnorm_dw(bd_gen *g) {
  norm n = {.nest = bd_gen_row_nest(g, 0)};
  weight_gradient(g, &n);
  return BD_OK;
}
