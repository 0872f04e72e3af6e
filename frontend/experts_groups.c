// Tokens choose experts of their best groups alone (DeepSeek-V2, Liu et al. 2024, section 2.2.2).
#include "frontend/experts.h"

// What a group's best experts are worth: the best one's score, or the sum of the best two.
static bd_id rate_groups(bd_graph_build *g, const bd_llama_config *c, bd_id grouped) {
  bd_attr rule = bd_attr_string(g->ctx, "rule", "abcd->abc"), two = bd_attr_int(g->ctx, "k", 2);
  if (!c->corrected) return bd_graph_op(g, "group_best", BD_OP_REDUCE_MAX, 1, &grouped, 1, &rule);
  bd_id best = bd_graph_op(g, "group_two", BD_OP_TOPK, 1, &grouped, 1, &two);
  return bd_graph_sum(g, "group_best", best, "abcd->abc");
}

// Whether a token has chosen each group, bool [batch, token, group].
static bd_id mark_groups(bd_graph_build *g, const bd_llama_config *c, int64_t sequence,
                         bd_id rates) {
  bd_type type =
      bd_type_make(BD_I32, 4, (int64_t[]){BD_DIM_BATCH, sequence, c->chosen_groups, c->groups});
  bd_attr k = bd_attr_int(g->ctx, "k", c->chosen_groups);
  bd_attr any = bd_attr_string(g->ctx, "rule", "abcd->abd");
  bd_attr places[] = {bd_attr_string(g->ctx, "dtype", bd_dtype_name(BD_I32)),
                      bd_attr_ints(g->ctx, "dims", type.rank, type.dims),
                      bd_attr_int(g->ctx, "dim", 3)};
  bd_id best = bd_graph_op(g, "best_groups", BD_OP_TOPK, 1, &rates, 1, &k);
  if (g->status != BD_OK) return BD_NO_ID;
  bd_id chosen = bd_graph_cast(g, "chosen_groups", best + 1, BD_I32);
  chosen = bd_graph_repeat(g, "chosen_groups_each", chosen, "abc->abcd", &type);
  bd_id group = bd_graph_op(g, "group", BD_OP_IOTA, 0, NULL, 3, places);
  bd_id is_it = bd_graph_binary(g, "is_group", BD_OP_EQ, chosen, group);
  return bd_graph_op(g, "has_group", BD_OP_REDUCE_MAX, 1, &is_it, 1, &any);
}

bd_id bd_experts_limit(bd_graph_build *g, const bd_llama_config *c, int64_t sequence,
                       bd_id scores) {
  bd_type type = bd_type_make(
      BD_F32, 4, (int64_t[]){BD_DIM_BATCH, sequence, c->groups, c->experts / c->groups});
  int64_t whole[] = {BD_DIM_BATCH, sequence, c->experts};
  bd_attr apart = bd_attr_ints(g->ctx, "dims", type.rank, type.dims);
  bd_attr together = bd_attr_ints(g->ctx, "dims", 3, whole);
  bd_id grouped = bd_graph_op(g, "scores_by_group", BD_OP_RESHAPE, 1, &scores, 1, &apart);
  bd_id has = mark_groups(g, c, sequence, rate_groups(g, c, grouped));
  has = bd_graph_repeat(g, "has_expert", has, "abc->abcd", &type);
  bd_id limited = bd_graph_select(g, "scores_limited_by_group", has, grouped,
                                  bd_graph_fill(g, "no_score", &type, 0));
  return bd_graph_op(g, "scores_limited", BD_OP_RESHAPE, 1, &limited, 1, &together);
}
