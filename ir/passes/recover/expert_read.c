#include "ir/passes/recover/expert_node.h"
#include "ir/passes/recover/pattern.h"
#include "ir/passes/recover/views.h"
#include <string.h>

// Values of all experts are [batch, expert, place, features..].
enum { MOST_FEATURES = BD_MAX_RANK - 3 };

bd_expert_node *bd_experts_room(bd_edit *e) {
  return BD_NEW_ARRAY(e->ctx->arena, bd_expert_node, BD_EXPERT_MOST_NODES);
}

static const bd_type *type_of(const bd_experts *x, bd_id id) {
  return &x->e->from->values[id].type;
}

// Weights looked up by the tokens' choices.
static bool are_looked_up(const bd_experts *x, bd_id id, bd_expert_node *node) {
  const bd_op *op = bd_edit_producer(x->e, id);
  if (!op || op->kind != BD_OP_GATHER || bd_op_int(op, "dim", 0) != 0 ||
      bd_op_int(op, "batch", 0) != 0 || x->follows[op->in[0]] ||
      type_of(x, op->in[0])->dims[0] != x->count)
    return false;
  bd_traced chosen = bd_trace_begin(x->e, op->in[1]);
  node->leading = chosen.rank;
  node->weights = op->in;
  for (int d = 0; d < chosen.rank; ++d)
    node->roles[d] = BD_EXPERT_FEATURE;
  if (!bd_trace_chosen(x->e, &chosen) || chosen.id != x->chosen) return false;
  for (int d = 0; d < chosen.rank; ++d)
    if (chosen.dim[d] >= 0) node->roles[chosen.dim[d]] = (bd_expert_role)d;
  return true;
}

// Weights of all experts, which are their first dimension.
static bool are_stacked(const bd_experts *x, const bd_id *ids, bd_expert_node *node) {
  node->leading = 1;
  node->roles[0] = BD_EXPERT_NUMBER;
  node->weights = ids;
  return bd_function_is_weight(x->e->from, ids[0]) && type_of(x, ids[0])->rank > 1 &&
         type_of(x, ids[0])->dims[0] == x->count;
}

// Whether the values are weights of the experts, in one of three ways.
static bool are_weights(const bd_experts *x, const bd_id *ids, bd_expert_node *node) {
  if (x->lanes == 1 && x->follows) return are_looked_up(x, ids[0], node);
  if (x->lanes == 1) return are_stacked(x, ids, node);
  node->leading = 0;
  node->weights = ids;
  for (int i = 0; i < x->lanes; ++i) {
    if (!bd_function_is_weight(x->e->from, ids[i]) ||
        !bd_type_equal(type_of(x, ids[i]), type_of(x, ids[0])) ||
        type_of(x, ids[i])->rank == BD_MAX_RANK)
      return false;
    for (int k = 0; k < i; ++k)
      if (ids[k] == ids[i]) return false;
  }
  return true;
}

// Whether the expert's number is among the dimensions of what the value repeats.
static bool has_number(const bd_experts *x, bd_id id, const bd_expert_role *roles) {
  bd_traced value = bd_trace_begin(x->e, id);
  bd_trace_views(x->e, &value);
  for (int d = 0; d < value.rank; ++d)
    if (value.dim[d] >= 0 && roles[value.dim[d]] == BD_EXPERT_NUMBER) return true;
  return false;
}

static bool is_given(const bd_experts *x, const bd_id *ids, const bd_expert_role *roles) {
  if (x->lanes == 1) return x->follows ? !x->follows[ids[0]] : !has_number(x, ids[0], roles);
  for (int i = 1; i < x->lanes; ++i)
    if (ids[i] != ids[0]) return false;
  return true;
}

// What all experts are given is the tokens, for each choice the same.
static bool read_given(bd_experts *x, bd_id id, bd_expert_node *node) {
  bd_traced value = bd_trace_begin(x->e, id);
  bd_trace_views(x->e, &value);
  if (value.rank < 3) return false;
  for (int d = 0; d < value.rank; ++d) {
    bd_expert_role role = d < 2 ? (bd_expert_role)d : BD_EXPERT_FEATURE;
    if (value.dim[d] < 0 || node->roles[value.dim[d]] != role) return false;
    if (d > 2 && value.dim[d] < value.dim[d - 1]) return false;
  }
  if (x->x != BD_NO_ID && x->x != value.id) return false;
  if (type_of(x, value.id)->dtype != BD_F32) return false;
  x->x = value.id;
  node->kind = BD_EXPERT_NODE_PLACED;
  return true;
}

static bool same_attrs(const bd_op *a, const bd_op *b) {
  if (a->attr_count != b->attr_count) return false;
  for (int i = 0; i < a->attr_count; ++i) {
    const bd_attr *x = &a->attrs[i], *y = bd_op_find_attr(b, x->name);
    if (!y || y->kind != x->kind || y->integer != x->integer || y->count != x->count ||
        !(y->real == x->real) || y->string != x->string || x->count > 0)
      return false;
  }
  return true;
}

// The op that makes the values in all lanes.
static const bd_op *read_op(const bd_experts *x, const bd_id *ids) {
  const bd_op *first = bd_edit_producer(x->e, ids[0]);
  if (!first || first->out[0] != ids[0]) return NULL;
  for (int i = 1; i < x->lanes; ++i) {
    const bd_op *op = bd_edit_producer(x->e, ids[i]);
    if (!op || op->kind != first->kind || op->out[0] != ids[i] || op->in_count != first->in_count ||
        !same_attrs(first, op) || !bd_type_equal(type_of(x, ids[i]), type_of(x, ids[0])))
      return NULL;
  }
  return first;
}

static bd_id *operands(const bd_experts *x, const bd_id *ids, int k) {
  bd_id *in = BD_NEW_ARRAY(x->e->ctx->arena, bd_id, x->lanes);
  for (int i = 0; i < x->lanes; ++i)
    in[i] = bd_edit_producer(x->e, ids[i])->in[k];
  return in;
}

// Weights, which have the last of the features that the result has.
static bool read_weights(bd_experts *x, const bd_id *ids, bd_expert_node *node, int *out) {
  if (!are_weights(x, ids, node) || x->node_count == BD_EXPERT_MOST_NODES) return false;
  node->kind = BD_EXPERT_NODE_WEIGHT;
  node->id = ids[0];
  node->made = BD_NO_ID;
  *out = x->node_count;
  x->nodes[x->node_count++] = *node;
  return true;
}

static bool features_last(const bd_expert_node *node, int rank, int features) {
  for (int d = 0; d < rank; ++d)
    if ((node->roles[d] == BD_EXPERT_FEATURE) != (d >= rank - features)) return false;
  return true;
}

// A bias of all experts, repeated for the tokens.
static bool read_repeated(bd_experts *x, bd_id id, const bd_expert_node *node, int *out) {
  bd_traced value = bd_trace_begin(x->e, id);
  bd_expert_node bias = {.kind = BD_EXPERT_NODE_WEIGHT};
  if (x->lanes > 1 || x->follows) return false;
  int last = value.rank;
  bd_trace_views(x->e, &value);
  bd_id *weights = bd_arena_copy(x->e->ctx->arena, &value.id, 1, sizeof value.id);
  if (!are_stacked(x, weights, &bias) || value.dim[0] < 0 ||
      node->roles[value.dim[0]] != BD_EXPERT_NUMBER)
    return false;
  for (int d = value.rank - 1; d > 0; --d)
    if (value.dim[d] != --last || node->roles[last] != BD_EXPERT_FEATURE) return false;
  return read_weights(x, weights, &bias, out);
}

// A pointwise op of values, numbers and biases.
static bool read_pointwise(bd_experts *x, const bd_id *ids, bd_expert_node *node) {
  int rank = type_of(x, ids[0])->rank;
  for (int k = 0; k < node->op->in_count; ++k) {
    const bd_id *in = operands(x, ids, k);
    bd_expert_node bias = {.kind = BD_EXPERT_NODE_WEIGHT};
    bool whole = type_of(x, in[0])->rank == rank;
    if (are_weights(x, in, &bias)) {
      int features = type_of(x, in[0])->rank - bias.leading;
      bool fits = bias.leading == 0 ||
                  memcmp(bias.roles, node->roles, (size_t)bias.leading * sizeof *bias.roles) == 0;
      if (!fits || !features_last(node, rank, features) ||
          !read_weights(x, in, &bias, &node->in[k]))
        return false;
      continue;
    }
    double number;
    bool same = x->lanes == 1 || is_given(x, in, node->roles);
    if (same && bd_uniform_number(x->e->from, in[0], &number)) {
      if (x->node_count == BD_EXPERT_MOST_NODES) return false;
      x->nodes[x->node_count] = (bd_expert_node){
          .kind = BD_EXPERT_NODE_NUMBER, .id = in[0], .number = number, .made = BD_NO_ID};
      node->in[k] = x->node_count++;
      continue;
    }
    if (whole && read_repeated(x, in[0], node, &node->in[k])) continue;
    if (!whole || !bd_experts_read(x, in, node->roles, &node->in[k])) return false;
  }
  return true;
}

int bd_expert_place_of(const char *letters, char letter) {
  const char *at = strchr(letters, letter);
  return at ? (int)(at - letters) : -1;
}

// A product of values and weights, whose letters are roles by the result's.
static bool read_contract(bd_experts *x, const bd_id *ids, bd_expert_node *node) {
  bd_lettered in[2];
  if (!bd_split_rule(bd_op_string(node->op, "rule"), in, node->result)) return false;
  for (int w = 0; w < 2; ++w) {
    const bd_id *weights = operands(x, ids, w), *values = operands(x, ids, 1 - w);
    bd_expert_node weight = {.kind = BD_EXPERT_NODE_WEIGHT};
    bd_expert_role roles[BD_MAX_RANK];
    if (!are_weights(x, weights, &weight)) continue;
    for (int d = 0; in[1 - w].letters[d]; ++d) {
      int at = bd_expert_place_of(node->result, in[1 - w].letters[d]);
      roles[d] = at >= 0 ? node->roles[at] : BD_EXPERT_FEATURE;
    }
    for (int d = 0; in[w].letters[d]; ++d) {
      int at = bd_expert_place_of(node->result, in[w].letters[d]);
      bd_expert_role wanted = d < weight.leading ? weight.roles[d] : BD_EXPERT_FEATURE;
      if ((at >= 0 ? node->roles[at] : BD_EXPERT_FEATURE) != wanted) return false;
    }
    for (int i = 0; i < 2; ++i)
      memcpy(node->letters[i], in[i].letters, sizeof in[i].letters);
    return read_weights(x, weights, &weight, &node->in[w]) &&
           bd_experts_read(x, values, roles, &node->in[1 - w]);
  }
  return false;
}

static bool read_applied(bd_experts *x, const bd_id *ids, bd_expert_node *node) {
  node->op = read_op(x, ids);
  if (!node->op) return false;
  unsigned traits = bd_op_get_info(node->op->kind)->traits;
  node->kind = BD_EXPERT_NODE_APPLIED;
  if (node->op->kind == BD_OP_CONTRACT) return read_contract(x, ids, node);
  if (node->op->kind == BD_OP_SLICE)
    return node->roles[bd_op_int(node->op, "dim", 0)] == BD_EXPERT_FEATURE &&
           bd_experts_read(x, operands(x, ids, 0), node->roles, &node->in[0]);
  return (traits & BD_POINTWISE) && !(traits & BD_RANDOM) && node->op->in_count > 0 &&
         node->op->in_count <= 2 && read_pointwise(x, ids, node);
}

// A permutation that keeps the order of features makes the same node.
static bool read_permuted(bd_experts *x, const bd_id *ids, const bd_expert_role *roles, int *out) {
  bd_expert_role turned[BD_MAX_RANK];
  int rank = type_of(x, ids[0])->rank, last = -1;
  const char *rule = bd_op_string(bd_edit_producer(x->e, ids[0]), "rule");
  const char *to = strstr(rule, "->") + 2;
  if (!read_op(x, ids)) return false;
  for (int d = 0; d < rank; ++d) {
    int at = bd_expert_place_of(to, rule[d]);
    turned[d] = roles[at];
    if (roles[at] == BD_EXPERT_FEATURE && at < last) return false;
    if (roles[at] == BD_EXPERT_FEATURE) last = at;
  }
  return bd_experts_read(x, operands(x, ids, 0), turned, out);
}

bool bd_experts_read(bd_experts *x, const bd_id *ids, const bd_expert_role *roles, int *out) {
  int rank = type_of(x, ids[0])->rank, features = 0;
  const bd_op *op = bd_edit_producer(x->e, ids[0]);
  bd_expert_node node = {.kind = BD_EXPERT_NODE_APPLIED, .id = ids[0], .made = BD_NO_ID};
  for (int i = 0; i < x->node_count; ++i)
    if (x->nodes[i].id == ids[0] && x->nodes[i].kind != BD_EXPERT_NODE_WEIGHT) {
      *out = i;
      return memcmp(x->nodes[i].roles, roles, (size_t)rank * sizeof *roles) == 0;
    }
  memcpy(node.roles, roles, (size_t)rank * sizeof *roles);
  for (int d = 0; d < rank; ++d)
    features += roles[d] == BD_EXPERT_FEATURE;
  if (features > MOST_FEATURES || ++x->depth > BD_EXPERT_MOST_NODES) return false;
  bool given = is_given(x, ids, roles);
  if (op && op->kind == BD_OP_PERMUTE && !given) {
    bool read = read_permuted(x, ids, roles, out);
    --x->depth;
    return read;
  }
  if (given ? !read_given(x, ids[0], &node) : !read_applied(x, ids, &node)) return false;
  --x->depth;
  if (x->node_count == BD_EXPERT_MOST_NODES) return false;
  *out = x->node_count;
  x->nodes[x->node_count++] = node;
  return true;
}
