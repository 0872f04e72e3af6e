#include "ir/index_rule.h"
#include <assert.h>
#include <string.h>

bd_status bd_inference_check_static(const bd_inference *inference, int operand, int rank,
                                    int free) {
  const bd_type *type = inference->in[operand];
  if (type->rank != rank)
    return bd_inference_fail(inference, "operand %d must have %d dimensions, not %s", operand + 1,
                             rank, bd_type_describe(inference->ctx, type));
  for (int d = free; d < rank; ++d)
    if (type->dims[d] == BD_DIM_BATCH)
      return bd_inference_fail(inference, "dimension %d of operand %d may not be the batch", d + 1,
                               operand + 1);
  return BD_OK;
}

bd_status bd_inference_check_extent(const bd_inference *inference, int operand, int dim,
                                    int64_t wanted) {
  int64_t extent = inference->in[operand]->dims[dim];
  if (extent == wanted) return BD_OK;
  return bd_inference_fail(inference, "dimension %d of operand %d has extent %s, expected %s",
                           dim + 1, operand + 1, bd_extent_print(extent).text,
                           bd_extent_print(wanted).text);
}

bd_status bd_inference_check_shape(const bd_inference *inference, int operand, int rank,
                                   const int64_t *dims) {
  BD_TRY(bd_inference_check_static(inference, operand, rank, 1));
  for (int d = 0; d < rank; ++d)
    BD_TRY(bd_inference_check_extent(inference, operand, d, dims[d]));
  return BD_OK;
}

// Row-major elements of dims[from..rank), and how many of them are symbolic.
static bool count_elements(const int64_t *dims, int from, int rank, int64_t *out_elements,
                           int *out_symbolic) {
  *out_elements = 1;
  *out_symbolic = 0;
  for (int d = from; d < rank; ++d) {
    if (dims[d] == BD_DIM_BATCH)
      ++*out_symbolic;
    else if (__builtin_mul_overflow(*out_elements, dims[d], out_elements) ||
             *out_elements > BD_MAX_ELEMENTS)
      return false;
  }
  return true;
}

static bd_status infer_reshape(bd_inference *inference) {
  const bd_type *in = inference->in[0];
  const bd_attr *dims = bd_op_find_attr(inference->op, "dims");
  if (dims->count > BD_MAX_RANK)
    return bd_inference_fail(inference, "dims has %d extents, more than %d", dims->count,
                             BD_MAX_RANK);
  for (int d = 0; d < dims->count; ++d)
    if (dims->ints[d] < 1 && dims->ints[d] != BD_DIM_BATCH)
      return bd_inference_fail(inference, "dims holds %lld: extents are positive, or -1 for B",
                               (long long)dims->ints[d]);
  inference->out[0] = bd_type_make(in->dtype, dims->count, dims->ints);
  int prefix = 0;
  while (prefix < in->rank && prefix < dims->count && in->dims[prefix] == dims->ints[prefix]) {
    bd_inference_add_loop(inference, (char)('A' + prefix), BD_LOOP_PARALLEL, in->dims[prefix]);
    inference->map->in[0][prefix] = inference->map->out[0][prefix] = (int8_t)prefix;
    ++prefix;
  }
  int64_t old_elements, new_elements;
  int old_symbolic, new_symbolic;
  bool counted = count_elements(in->dims, prefix, in->rank, &old_elements, &old_symbolic) &&
                 count_elements(dims->ints, prefix, dims->count, &new_elements, &new_symbolic);
  if (!counted || old_elements != new_elements || old_symbolic != new_symbolic)
    return bd_inference_fail(inference, "%s does not have as many elements as %s",
                             bd_type_describe(inference->ctx, in),
                             bd_type_describe(inference->ctx, &inference->out[0]));
  return BD_OK;
}

// A split of v gives each part the rows it owns: parallel, although indexed by data.
static bd_status infer_embed_dw(bd_inference *inference) {
  const bd_type *dout = inference->in[0];
  if (dout->rank < 1)
    return bd_inference_fail(inference, "operand 1 must have at least 1 dimension");
  int64_t dims[2] = {bd_op_int(inference->op, "rows", 0), dout->dims[dout->rank - 1]};
  return bd_inference_apply(inference, "...c,...->vc|gather v", 2, dims);
}

// Of [batch, rows, features] and [batch, groups] only the samples may be symbolic.
static bd_status check_grouped(bd_inference *inference, int factors) {
  for (int i = 0; i < factors; ++i)
    BD_TRY(bd_inference_check_static(inference, i, 3, 1));
  BD_TRY(bd_inference_check_static(inference, 2, 2, 1));
  int64_t rows = inference->in[0]->dims[1], filled = bd_op_int(inference->op, "filled", rows);
  int64_t grain = bd_op_int(inference->op, "grain", 1);
  if (filled > rows)
    return bd_inference_fail(inference, "filled is %lld, of %lld rows", (long long)filled,
                             (long long)rows);
  if (rows % grain == 0) return BD_OK;
  return bd_inference_fail(inference, "the grain %lld does not divide %lld rows", (long long)grain,
                           (long long)rows);
}

// The letters are those of the product whose gradient a transposed one is.
static bd_status infer_grouped_contract(bd_inference *inference) {
  BD_TRY(check_grouped(inference, 1));
  BD_TRY(bd_inference_check_static(inference, 1, 3, 0));
  bool transposed = bd_op_int(inference->op, "transpose", 0);
  const char *rule = transposed ? "brf,ecf,be->brc|whole r|one e" : "brc,ecf,be->brf|whole r|one e";
  return bd_inference_apply(inference, rule, 0, NULL);
}

static bd_status infer_grouped_contract_dw(bd_inference *inference) {
  BD_TRY(check_grouped(inference, 2));
  return bd_inference_apply(inference, "brc,brf,be->ecf|whole r|one e", 0, NULL);
}

// Queries that share random blocks of dropout, 8 apart, stay on one rank.
enum { DROPOUT_QUERIES = 16 };

// Chunks of queries, of which a rank has one: only so are its queries in a row.
static bd_status set_chunk(const bd_inference *inference, bd_loop *queries) {
  int64_t chunk = bd_op_int(inference->op, "chunk", 0);
  if (!chunk) return BD_OK;
  if (chunk > INT32_MAX || queries->extent % chunk != 0 ||
      (queries->unit > 1 && chunk % queries->unit != 0))
    return bd_inference_fail(inference, "%lld queries are no chunks of %lld%s",
                             (long long)queries->extent, (long long)chunk,
                             queries->unit > 1 ? ", multiples of 16 as there is dropout" : "");
  queries->unit = (int)chunk;
  return BD_OK;
}

// Loops of attention: b, the key-value heads k, the query heads g of each and the queries t split;
// k indexes dimension 2 of every tensor, and g with it that of query-shaped ones, whose dimension 1
// is t. Parts of g and t leave keys and values whole, and their gradients partial. Values have a
// width of their own, which the result has.
static bd_status add_attention_loops(bd_inference *inference, int query, int key) {
  BD_TRY(bd_inference_check_static(inference, query, 4, 1));
  BD_TRY(bd_inference_check_static(inference, key, 4, 1));
  const int64_t *q = inference->in[query]->dims, *k = inference->in[key]->dims;
  BD_TRY(bd_inference_check_extent(inference, key, 0, q[0]));
  BD_TRY(bd_inference_check_extent(inference, key, 3, q[3]));
  BD_TRY(bd_inference_check_static(inference, key + 1, 4, 1));
  const int64_t values[] = {k[0], k[1], k[2], inference->in[key + 1]->dims[3]};
  BD_TRY(bd_inference_check_shape(inference, key + 1, 4, values));
  if (q[2] % k[2] != 0)
    return bd_inference_fail(inference,
                             "%lld query heads are not a multiple of %lld key-value heads",
                             (long long)q[2], (long long)k[2]);
  bd_index_map *map = inference->map;
  bd_inference_add_loop(inference, 'b', BD_LOOP_PARALLEL, q[0]);
  int head = bd_inference_add_loop(inference, 'k', BD_LOOP_PARALLEL, k[2]);
  map->loop[head].exact = q[2] != k[2];
  int within = bd_inference_add_loop(inference, 'g', BD_LOOP_PARALLEL, q[2] / k[2]);
  int query_loop = bd_inference_add_loop(inference, 't', BD_LOOP_PARALLEL, q[1]);
  bd_inference_add_loop(inference, 's', BD_LOOP_WHOLE, k[1]);
  bd_inference_add_loop(inference, 'd', BD_LOOP_WHOLE, q[3]);
  map->loop[query_loop].exact = true;
  if (bd_op_real(inference->op, "dropout", 0) > 0) map->loop[query_loop].unit = DROPOUT_QUERIES;
  BD_TRY(set_chunk(inference, &map->loop[query_loop]));
  bd_loop *group = &map->loop[within];
  group->exact = true;
  group->within = (int8_t)head;
  group->inner_in = ~(3u << key);
  group->inner_out = bd_op_is_attention(inference->op->kind) ? ~0u : ~(3u << 1);
  for (int i = 0; i < inference->op->in_count; ++i) {
    map->in[i][0] = 0;
    map->in[i][1] = (int8_t)(group->inner_in >> i & 1u ? query_loop : -1);
    map->in[i][2] = (int8_t)head;
  }
  for (int i = 0; i < inference->op->out_count; ++i) {
    map->out[i][0] = 0;
    map->out[i][1] = (int8_t)(group->inner_out >> i & 1u ? query_loop : -1);
    map->out[i][2] = (int8_t)head;
  }
  return BD_OK;
}

// Biases [heads, places] by relative position, of queries as operand `query` has them: a place for
// each distance of a key before its query and, unless later keys are hidden, of one behind.
static bd_status add_biases(bd_inference *inference, int query, int biases) {
  int64_t heads = inference->in[query]->dims[2];
  BD_TRY(bd_inference_check_static(inference, biases, 2, 0));
  BD_TRY(bd_inference_check_extent(inference, biases, 0, heads));
  int64_t places = inference->in[biases]->dims[1];
  if (places > BD_MOST_BIASES)
    return bd_inference_fail(inference, "operand %d has %lld places, more than %d", biases + 1,
                             (long long)places, BD_MOST_BIASES);
  if (!bd_op_int(inference->op, "causal", 0) && places % 2 == 0)
    return bd_inference_fail(inference,
                             "operand %d has %lld places: as many before as behind, and one "
                             "between, are an odd number",
                             biases + 1, (long long)places);
  bd_index_map *map = inference->map;
  map->in[biases][0] = map->in[query][2];
  map->in[biases][1] = map->in[biases][2] = -1;
  return BD_OK;
}

// As queries, but as wide as values.
static bd_type attended_type(const bd_inference *inference, int query) {
  bd_type type = *inference->in[query];
  type.dims[3] = inference->in[query + 2]->dims[3];
  return type;
}

static bd_status infer_attention(bd_inference *inference) {
  BD_TRY(add_attention_loops(inference, 0, 1));
  inference->out[0] = attended_type(inference, 0);
  inference->out[1] = bd_type_make(BD_F32, 3, inference->in[0]->dims);
  if (inference->op->kind == BD_OP_SINK_ATTENTION) return bd_infer_sinks(inference, 0, 3);
  return inference->op->kind == BD_OP_ATTENTION ? BD_OK : add_biases(inference, 0, 3);
}

static bd_status infer_attention_grad(bd_inference *inference) {
  BD_TRY(add_attention_loops(inference, 1, 2));
  const bd_type attended = attended_type(inference, 1);
  BD_TRY(bd_inference_check_shape(inference, 0, 4, attended.dims));
  BD_TRY(bd_inference_check_shape(inference, 4, 4, attended.dims));
  BD_TRY(bd_inference_check_shape(inference, 5, 3, inference->in[1]->dims));
  for (int i = 0; i < 3; ++i)
    inference->out[i] = *inference->in[i + 1];
  if (inference->op->kind == BD_OP_ATTENTION_GRAD) return BD_OK;
  BD_TRY(add_biases(inference, 1, 6));
  inference->out[3] = *inference->in[6];
  memcpy(inference->map->out[3], inference->map->in[6], sizeof inference->map->out[3]);
  return BD_OK;
}

bd_named_rule bd_named_rule_find(const char *name) {
  static const struct {
    const char *name;
    bd_named_rule rule;
  } rules[] = {
      {"reshape", infer_reshape},
      {"slice", bd_infer_slice},
      {"concat", bd_infer_concat},
      {"alternate", bd_infer_alternate},
      {"interleave", bd_infer_interleave},
      {"cumsum", bd_infer_cumsum},
      {"gather", bd_infer_gather},
      {"gather_dx", bd_infer_gather_dx},
      {"scatter", bd_infer_scatter},
      {"route", bd_infer_route},
      {"search", bd_infer_search},
      {"row_items", bd_infer_row_items},
      {"topk", bd_infer_topk},
      {"unfold", bd_infer_unfold},
      {"fold", bd_infer_fold},
      {"constant", bd_infer_constant},
      {"iota", bd_infer_iota},
      {"embed_dw", infer_embed_dw},
      {"grouped_contract", infer_grouped_contract},
      {"grouped_contract_dw", infer_grouped_contract_dw},
      {"attention", infer_attention},
      {"attention_grad", infer_attention_grad},
      {"row_products", bd_infer_row_products},
      {"sinks_grad", bd_infer_sinks_grad},
      {"conv", bd_infer_conv},
      {"conv_dx", bd_infer_conv_dx},
      {"conv_dw", bd_infer_conv_dw},
      {"maxpool", bd_infer_maxpool},
      {"maxpool_grad", bd_infer_maxpool_grad},
  };
  size_t i = 0;
  while (i < sizeof rules / sizeof rules[0] && strcmp(rules[i].name, name) != 0)
    ++i;
  assert(i < sizeof rules / sizeof rules[0]);
  return rules[i].rule;
}
