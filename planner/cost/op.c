// Arithmetic of one op on one rank.
#include "ir/float8.h"
#include "ir/memory.h"
#include "planner/cost/cost.h"
#include "planner/cost/kernel.h"
#include <math.h>

enum { FLOAT8_KERNELS = 10 }; // that scale and round the factors of a product in 8 bits

// An op on a rank: its loops are as long as the rank's part of them, padding included.
typedef struct part {
  const bd_cost_model *model;
  const bd_function *function;
  const bd_op *op;
  const bd_index_map *map;
  const int8_t *split;
} part;

static double extent(const part *p, int loop) {
  int64_t parts = 1, whole = bd_extent(p->map->loop[loop].extent, p->model->micro_batch);
  for (int axis = 0; axis < p->model->mesh.axes; axis++)
    if (p->split[axis] == loop) parts *= p->model->mesh.size[axis];
  return (double)(whole / parts + (whole % parts != 0));
}

// The product of the extents of loops by letter.
static double extents(const part *p, const char *letters) {
  double product = 1;
  for (; *letters; letters++) {
    int loop = bd_index_find(p->map, *letters);
    if (loop >= 0) product *= extent(p, loop);
  }
  return product;
}

static bool carries(const int8_t dims[BD_MAX_RANK], int loop) {
  for (int d = 0; d < BD_MAX_RANK; d++)
    if (dims[d] == loop) return true;
  return false;
}

// Loops that the result lacks are summed; those that both operands and the result have number
// separate products.
static bd_product contract_product(const part *p) {
  bd_product out = {1, 1, 1, 1};
  for (int loop = 0; loop < p->map->loops; loop++) {
    bool left = carries(p->map->in[0], loop), right = carries(p->map->in[1], loop);
    bool result = carries(p->map->out[0], loop);
    double *at = !result         ? &out.terms
                 : left && right ? &out.count
                 : right         ? &out.columns
                                 : &out.rows;
    *at *= extent(p, loop);
  }
  return out;
}

// Convolutions as the products that they are lowered to (Chetlur et al. 2014, section 3), one for
// each group: image points by filters, windows summed.
static bd_product conv_product(const part *p) {
  double groups = extents(p, "g"), points = extents(p, "nzyx"), window = extents(p, "chij");
  double filters = extents(p, "o");
  if (p->op->kind == BD_OP_CONV) return (bd_product){groups, points, filters, window};
  if (p->op->kind == BD_OP_CONV_DX) return (bd_product){groups, points, window, filters};
  return (bd_product){groups, filters, window, points};
}

// Library calls on halves run on the units for them, everything else in f32.
static double rate_of(const part *p) {
  bool library = bd_op_get_info(p->op->kind)->traits & BD_LIBRARY;
  bd_dtype operands = p->op->in_count ? p->function->values[p->op->in[0]].type.dtype : BD_F32;
  return bd_flops_of(&p->model->cluster->flops, library ? operands : BD_F32);
}

static double flops_of(const part *p) {
  return bd_op_flops(p->function, p->op, p->map, &p->model->mesh, p->split, p->model->micro_batch);
}

// What attention in one kernel reaches on long sequences of wide heads: on GPUs that of the kernel
// which the program has for it. The whole op decides, so that its parts are no faster.
static double attention_rate(const part *p, bool forward) {
  const bd_cluster *cluster = p->model->cluster;
  const bd_work_rates *work = &cluster->work;
  const bd_id *in = p->op->in + !forward;
  const bd_type *q = &p->function->values[in[0]].type, *v = &p->function->values[in[2]].type;
  if (!cluster->gpu || bd_attention_in_library(p->function, p->op))
    return rate_of(p) * bd_part_or(forward ? work->attention_forward : work->attention_backward, 1);
  int64_t widest = q->dims[3] > v->dims[3] ? q->dims[3] : v->dims[3];
  double generated = bd_dtype_bytes(q->dtype) == 2 && widest <= BD_ATTENTION_TENSOR_WIDTH
                         ? bd_part_or(work->attention_generated, BD_ATTENTION_GENERATED)
                         : bd_part_or(work->attention_generated_f32, BD_ATTENTION_GENERATED_F32);
  return cluster->flops.f32 * generated;
}

// Multiplications for each score: of two products forward one is as wide as values, and of five
// backward two.
static double score_width(const bd_attention *a) {
  return a->forward ? a->width + a->values : 3 * a->width + 2 * a->values;
}

static double attention_seconds(const part *p) {
  const bd_work_rates *work = &p->model->cluster->work;
  bool forward = bd_op_is_attention(p->op->kind);
  const bd_type *v = &p->function->values[p->op->in[forward ? 2 : 3]].type;
  bd_attention attention = {.forward = forward,
                            .heads = extents(p, "bkg"),
                            .queries = extents(p, "t"),
                            .keys = extents(p, "s"),
                            .width = extents(p, "d"),
                            .values = (double)v->dims[3],
                            .dropout = bd_op_real(p->op, "dropout", 0) > 0};
  bd_dtype dtype = p->function->values[p->op->in[0]].type.dtype;
  attention.element_bytes = (double)bd_dtype_bytes(dtype);
  if (work->attention_materialized)
    return bd_cost_attention_materialized(p->model->cluster, rate_of(p), &attention);
  double seen = fmin(attention.keys, (double)bd_op_int(p->op, "window", INT64_MAX)); // of a query
  double ramp = (1 + work->attention_tokens / seen) * (1 + work->attention_width / attention.width);
  double flops = flops_of(p), seconds = flops / attention_rate(p, forward) * ramp;
  if (!bd_op_find_attr(p->op, "softcap")) return seconds;
  return seconds + flops / (2 * score_width(&attention)) * work->transcendental_seconds;
}

// Of loops that are not indexed by data: of those, a point touches one.
static double loop_points(const part *p) {
  double points = 1;
  for (int loop = 0; loop < p->map->loops; loop++)
    if (!p->map->loop[loop].gather) points *= extent(p, loop);
  return points;
}

// Transcendental functions per point of the loops of an op.
static const unsigned char transcendentals[BD_OP_KIND_COUNT] = {
    [BD_OP_EXP] = 1,  [BD_OP_LOG] = 1,       [BD_OP_TANH] = 1,     [BD_OP_SIGMOID] = 1,
    [BD_OP_GELU] = 1, [BD_OP_GELU_GRAD] = 1, [BD_OP_GELU_ERF] = 1, [BD_OP_GELU_ERF_GRAD] = 2,
    [BD_OP_SILU] = 1, [BD_OP_SILU_GRAD] = 1, [BD_OP_LSE] = 1,      [BD_OP_XENT_GRAD] = 1,
    [BD_OP_SIN] = 1,  [BD_OP_COS] = 1,       [BD_OP_ERF] = 1,      [BD_OP_POW] = 3,
};

static double plain_seconds(const part *p) {
  double measured = p->model->cluster->work.point_seconds[p->op->kind];
  if (measured > 0) return measured * loop_points(p);
  double points = transcendentals[p->op->kind];
  if (points > 0) points *= loop_points(p);
  return flops_of(p) / rate_of(p) + points * p->model->cluster->work.transcendental_seconds;
}

// A product in 8 bits of so many rows, columns and terms: twice its factors are read, to be scaled
// and to be rounded, and once they are written and read in 8 bits.
static double float8_seconds(const part *p, const bd_product *product) {
  const bd_cluster *cluster = p->model->cluster;
  double factors = product->count * (product->rows + product->columns) * product->terms;
  return bd_cost_product(cluster, cluster->flops.f8, product) +
         factors * (2 * 2 + 2 * 1) / cluster->memory_bytes_per_second +
         FLOAT8_KERNELS * cluster->kernel_seconds;
}

static bd_type local_operand(const part *p, int operand) {
  bd_type type = p->function->values[p->op->in[operand]].type;
  for (int d = 0; d < type.rank; d++)
    type.dims[d] = (int64_t)extent(p, p->map->in[operand][d]);
  return type;
}

// Whether GPUs compute the rank's part of it in 8 bits.
static bool is_float8(const part *p) {
  if (!p->model->cluster->gpu || !bd_op_find_attr(p->op, "fp8")) return false;
  bd_type a = local_operand(p, 0), b = local_operand(p, 1);
  return bd_float8_takes(p->op, &a, &b);
}

static double product_seconds(const part *p) {
  bd_product product = p->op->kind == BD_OP_CONTRACT ? contract_product(p) : conv_product(p);
  if (is_float8(p)) return float8_seconds(p, &product);
  return bd_cost_product(p->model->cluster, rate_of(p), &product);
}

// A product of rows in groups: one for each group, of the rows of all samples, taken to be alike.
typedef struct grouped {
  bd_product one;
  double count;
  double read,
      written;    // elements of one: of its factors, and of the result (twice what is added to)
  double factors; // elements of both factors, of all together
} grouped;

static grouped grouped_product(const part *p) {
  double all = extents(p, "br"), count = extents(p, "e"), rows = all / count;
  double c = extents(p, "c"), f = extents(p, "f");
  if (p->op->kind == BD_OP_GROUPED_CONTRACT_DW)
    return (grouped){{1, c, f, rows}, count, rows * (c + f), 2 * c * f, all * (c + f)};
  bool transposed = bd_op_int(p->op, "transpose", 0);
  double terms = transposed ? f : c, columns = transposed ? c : f;
  return (grouped){{1, rows, columns, terms},
                   count,
                   (rows + columns) * terms,
                   rows * columns,
                   all * terms + extents(p, "ecf")};
}

// Every product has a launch, tiles and traffic of its own: a matrix is read, or a gradient added
// to, once for all samples of the rank. Of factors that have been rounded to 8 bits an element is a
// byte.
static double grouped_seconds_at(const part *p, const grouped *g, double rate, double bytes_each) {
  const bd_cluster *cluster = p->model->cluster;
  double result = (double)bd_dtype_bytes(p->function->values[p->op->out[0]].type.dtype);
  int starters = cluster->work.starters;
  return g->count *
             fmax(bd_cost_product_beside(cluster, rate, &g->one),
                  (g->read * bytes_each + g->written * result) / cluster->memory_bytes_per_second) +
         (g->count - 1) * cluster->kernel_seconds / (starters > 0 ? starters : 1);
}

static double grouped_plain_seconds(const part *p) {
  grouped g = grouped_product(p);
  bd_dtype dtype = p->function->values[p->op->in[0]].type.dtype;
  return grouped_seconds_at(p, &g, rate_of(p), (double)bd_dtype_bytes(dtype));
}

// Factors are read twice, to be scaled and to be rounded, and once they are written in 8 bits.
static double grouped_float8_seconds(const part *p) {
  const bd_cluster *cluster = p->model->cluster;
  grouped g = grouped_product(p);
  return grouped_seconds_at(p, &g, cluster->flops.f8, 1) +
         g.factors * (2 * 2 + 1) / cluster->memory_bytes_per_second +
         FLOAT8_KERNELS * cluster->kernel_seconds;
}

static double grouped_seconds(const part *p) {
  return is_float8(p) ? grouped_float8_seconds(p) : grouped_plain_seconds(p);
}

// Of a product that is marked for 8 bits: in those, and in bf16.
static double marked_float8_seconds(const part *p) {
  if (bd_op_is_grouped(p->op->kind)) return grouped_float8_seconds(p);
  bd_product product = contract_product(p);
  return float8_seconds(p, &product);
}

static double marked_bf16_seconds(const part *p) {
  if (bd_op_is_grouped(p->op->kind)) return grouped_plain_seconds(p);
  bd_product product = contract_product(p);
  return bd_cost_product(p->model->cluster, rate_of(p), &product);
}

// Of a product that is marked for 8 bits, whether it is better computed in bf16 on GPUs: where it
// would not be in 8 bits all the same, and where that takes more.
static bool is_better_bf16(const part *p) {
  if (!p->model->cluster->gpu || !bd_op_find_attr(p->op, "fp8")) return false;
  return !is_float8(p) || marked_bf16_seconds(p) < marked_float8_seconds(p);
}

static double (*const arithmetic[BD_OP_KIND_COUNT])(const part *) = {
    [BD_OP_CONTRACT] = product_seconds,
    [BD_OP_GROUPED_CONTRACT] = grouped_seconds,
    [BD_OP_GROUPED_CONTRACT_DW] = grouped_seconds,
    [BD_OP_CONV] = product_seconds,
    [BD_OP_CONV_DX] = product_seconds,
    [BD_OP_CONV_DW] = product_seconds,
    [BD_OP_ATTENTION] = attention_seconds,
    [BD_OP_ATTENTION_GRAD] = attention_seconds,
    [BD_OP_SINK_ATTENTION] = attention_seconds,
    [BD_OP_RELATIVE_ATTENTION] = attention_seconds,
    [BD_OP_RELATIVE_ATTENTION_GRAD] = attention_seconds,
};

double bd_cost_arithmetic(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                          const bd_index_map *map, const int8_t split[BD_MAX_AXES]) {
  part p = {model, function, op, map, split};
  return arithmetic[op->kind] ? arithmetic[op->kind](&p) : plain_seconds(&p);
}

bool bd_cost_prefers_bf16(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                          const bd_index_map *map, const int8_t split[BD_MAX_AXES]) {
  part p = {model, function, op, map, split};
  return is_better_bf16(&p);
}

double bd_cost_choose_arithmetic(const bd_cost_model *model, const bd_function *function,
                                 const bd_op *op, const bd_index_map *map,
                                 const int8_t split[BD_MAX_AXES]) {
  part p = {model, function, op, map, split};
  if (!is_better_bf16(&p)) return bd_cost_arithmetic(model, function, op, map, split);
  return marked_bf16_seconds(&p);
}

bd_cut_product bd_cost_cut_product(const bd_cost_model *model, const bd_function *function,
                                   const bd_op *op, const bd_index_map *map,
                                   const int8_t split[BD_MAX_AXES]) {
  part p = {model, function, op, map, split};
  const bd_cluster *cluster = model->cluster;
  bd_cut_product out = {bd_cost_choose_op(model, function, op, map, split),
                        cluster->kernel_seconds};
  if (bd_op_find_attr(op, "fp8") && !is_better_bf16(&p)) out.start_seconds = INFINITY;
  bd_product product = contract_product(&p);
  double bytes = bd_op_bytes(function, op, map, &model->mesh, split, model->micro_batch);
  // Where traffic counts, idle tiles may not.
  if (bd_cost_product(cluster, rate_of(&p), &product) >= bytes / cluster->memory_bytes_per_second)
    out.start_seconds += bd_cost_idle_wave(cluster, rate_of(&p), &product, BD_MAX_PARTS);
  return out;
}
