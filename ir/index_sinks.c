// Index rules of attention's sinks, one for each query head, and of what their gradient is made of.
#include "ir/index_rule.h"

bd_status bd_infer_sinks(bd_inference *inference, int query, int sinks) {
  bd_index_map *map = inference->map;
  BD_TRY(bd_inference_check_static(inference, sinks, 1, 0));
  BD_TRY(bd_inference_check_extent(inference, sinks, 0, inference->in[query]->dims[2]));
  map->in[sinks][0] = map->in[query][2];
  map->in[sinks][1] = map->in[sinks][2] = -1;
  return BD_OK;
}

// The loops of attention that queries have, so that what splits those splits what is made of them:
// b, key-value heads k, the query heads g of each, and t. `in` has a bit for each operand that is
// shaped as queries are.
static bd_status add_query_loops(bd_inference *inference, unsigned in) {
  bd_index_map *map = inference->map;
  const int64_t *dims = inference->in[0]->dims, group = bd_op_int(inference->op, "group", 1);
  if (dims[2] % group != 0)
    return bd_inference_fail(inference, "group %lld does not divide %lld heads", (long long)group,
                             (long long)dims[2]);
  int batch = bd_inference_add_loop(inference, 'b', BD_LOOP_PARALLEL, dims[0]);
  int head = bd_inference_add_loop(inference, 'k', BD_LOOP_PARALLEL, dims[2] / group);
  int query = bd_inference_add_loop(inference, 't', BD_LOOP_PARALLEL, dims[1]);
  map->loop[query].exact = true;
  if (group > 1) {
    int inner = bd_inference_add_loop(inference, 'g', BD_LOOP_PARALLEL, group);
    map->loop[head].exact = map->loop[inner].exact = true;
    map->loop[inner].within = (int8_t)head;
    map->loop[inner].inner_in = map->loop[inner].inner_out = ~0u;
  }
  for (int i = 0; i < inference->op->in_count; ++i) {
    if (!(in >> i & 1u)) continue;
    map->in[i][0] = (int8_t)batch;
    map->in[i][1] = (int8_t)query;
    map->in[i][2] = (int8_t)head;
  }
  return BD_OK;
}

bd_status bd_infer_row_products(bd_inference *inference) {
  BD_TRY(bd_inference_check_static(inference, 0, 4, 1));
  BD_TRY(bd_inference_check_shape(inference, 1, 4, inference->in[0]->dims));
  BD_TRY(add_query_loops(inference, 3));
  bd_inference_add_loop(inference, 'd', BD_LOOP_WHOLE, inference->in[0]->dims[3]);
  for (int d = 0; d < 3; ++d)
    inference->map->out[0][d] = inference->map->in[0][d];
  inference->out[0] = bd_type_make(BD_F32, 3, inference->in[0]->dims);
  return BD_OK;
}

bd_status bd_infer_sinks_grad(bd_inference *inference) {
  BD_TRY(bd_inference_check_static(inference, 0, 3, 1));
  BD_TRY(bd_inference_check_shape(inference, 1, 3, inference->in[0]->dims));
  BD_TRY(add_query_loops(inference, 3));
  BD_TRY(bd_infer_sinks(inference, 0, 2));
  inference->map->out[0][0] = inference->map->in[0][2];
  inference->out[0] = *inference->in[2];
  return BD_OK;
}
