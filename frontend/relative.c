#include "frontend/relative.h"
#include <math.h>

// What hides a later position: exp of it and any score is 0, and an f16 holds it.
#define HIDDEN (-60000.0)

static int64_t buckets_of_direction(const bd_relative *r) {
  return r->causal ? r->buckets : r->buckets / 2;
}

bool bd_relative_is_sound(const bd_relative *r) {
  int64_t exact = buckets_of_direction(r) / 2;
  return exact >= 1 && r->distance > exact;
}

// The bucket of a distance (Raffel et al. 2020, section 2.1): half of them are exact, the others
// grow with its logarithm. In f32 as the published models compute it, whose roundings decide at the
// borders.
static int64_t bucket_of(const bd_relative *r, int64_t distance) {
  int64_t count = buckets_of_direction(r), exact = count / 2;
  if (distance < exact) return distance;
  float span = (float)log((double)r->distance / (double)exact);
  float part = logf((float)distance / (float)exact) / span * (float)(count - exact);
  int64_t bucket = exact + (int64_t)part;
  return bucket < count - 1 ? bucket : count - 1;
}

static bd_type grid_type(const bd_relative *r) {
  return bd_type_make(BD_I32, 2, (int64_t[]){r->sequence, r->sequence});
}

static bd_id fill(bd_graph_build *g, const char *name, const bd_type *type, double value) {
  bd_attr attrs[] = {bd_attr_string(g->ctx, "dtype", bd_dtype_name(type->dtype)),
                     bd_attr_ints(g->ctx, "dims", type->rank, type->dims),
                     bd_attr_real(g->ctx, "value", value)};
  return bd_graph_op(g, name, BD_OP_CONSTANT, 0, NULL, 3, attrs);
}

static bd_id positions(bd_graph_build *g, const char *name, const bd_relative *r, int dim) {
  bd_type type = grid_type(r);
  bd_attr attrs[] = {bd_attr_string(g->ctx, "dtype", bd_dtype_name(type.dtype)),
                     bd_attr_ints(g->ctx, "dims", type.rank, type.dims),
                     bd_attr_int(g->ctx, "dim", dim)};
  return bd_graph_op(g, name, BD_OP_IOTA, 0, NULL, 3, attrs);
}

static bd_id to_integer(bd_graph_build *g, const char *name, bd_id x) {
  bd_attr dtype = bd_attr_string(g->ctx, "dtype", bd_dtype_name(BD_I32));
  return bd_graph_op(g, name, BD_OP_CAST, 1, &x, 1, &dtype);
}

// sum + (x >= least ? step : 0)
static bd_id add_from(bd_graph_build *g, const bd_relative *r, bd_id sum, bd_id x, int64_t least,
                      int64_t step) {
  bd_type type = grid_type(r);
  const char *name = bd_intern_f(g->ctx, "from%lld", (long long)least);
  bd_id border = fill(g, bd_intern_f(g->ctx, "%s.border", name), &type, (double)least);
  bd_id height = fill(g, bd_intern_f(g->ctx, "%s.step", name), &type, (double)step);
  bd_id past = bd_graph_binary(g, bd_intern_f(g->ctx, "%s.past", name), BD_OP_LE, border, x);
  past = to_integer(g, bd_intern_f(g->ctx, "%s.one", name), past);
  past = bd_graph_binary(g, bd_intern_f(g->ctx, "%s.more", name), BD_OP_MUL, past, height);
  return bd_graph_binary(g, name, BD_OP_ADD, sum, past);
}

// The bucket of every pair of positions, the steps of bucket_of added up.
static bd_id find_buckets(bd_graph_build *g, const bd_relative *r, bd_id query, bd_id key) {
  if (g->status != BD_OK) return BD_NO_ID; // the grid may be too large to count over
  bd_type type = grid_type(r);
  int64_t exact = buckets_of_direction(r) / 2;
  bd_id ahead = bd_graph_binary(g, "back", BD_OP_SUB, query, key);
  bd_id distance = r->causal
                       ? bd_graph_binary(g, "distance", BD_OP_MAX, ahead, fill(g, "none", &type, 0))
                       : bd_graph_unary(g, "distance", BD_OP_ABS, ahead);
  bd_id bucket =
      bd_graph_binary(g, "exact", BD_OP_MIN, distance, fill(g, "most", &type, (double)exact));
  for (int64_t n = exact + 1; n < r->sequence && n <= r->distance; ++n) {
    int64_t step = bucket_of(r, n) - bucket_of(r, n - 1);
    if (step > 0) bucket = add_from(g, r, bucket, distance, n, step);
  }
  if (r->causal) return bucket;
  bd_id later = to_integer(g, "later.one", bd_graph_binary(g, "later", BD_OP_LT, query, key));
  bd_id half = fill(g, "half", &type, (double)buckets_of_direction(r));
  return bd_graph_binary(g, "bucket", BD_OP_ADD, bucket,
                         bd_graph_binary(g, "later.half", BD_OP_MUL, later, half));
}

bd_id bd_relative_bias(bd_graph_build *g, const bd_relative *r, bd_id table) {
  bd_id query = positions(g, "query_position", r, 0), key = positions(g, "key_position", r, 1);
  bd_id rows = bd_graph_binary(g, "bias_rows", BD_OP_EMBED, table, find_buckets(g, r, query, key));
  bd_attr rule = bd_attr_string(g->ctx, "rule", "abc->cab");
  bd_id bias = bd_graph_op(g, "bias", BD_OP_PERMUTE, 1, &rows, 1, &rule);
  if (!r->causal) return bias;
  bd_type type = bd_type_make(BD_F32, 3, (int64_t[]){r->heads, r->sequence, r->sequence});
  bd_id seen = bd_graph_binary(g, "seen", BD_OP_LE, key, query);
  bd_id operands[] = {seen, bias, fill(g, "hidden", &type, HIDDEN)};
  return bd_graph_op(g, "causal_bias", BD_OP_SELECT, 3, operands, 0, NULL);
}
