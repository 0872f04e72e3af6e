#include "frontend/experts_run.h"

typedef bd_mixture mixture;

enum { GATE, UP, DOWN };

static const bd_expert_names mixtral_names = {.router = "block_sparse_moe.gate.weight",
                                              .experts = "block_sparse_moe.experts.",
                                              .gate = ".w1.weight",
                                              .up = ".w3.weight",
                                              .down = ".w2.weight"};

const bd_expert_names *bd_mixture_names(const bd_llama_config *c) {
  return c->expert_names ? c->expert_names : &mixtral_names;
}

static const char *rest_of(const bd_expert_names *stored, int part) {
  return part == GATE ? stored->gate : part == UP ? stored->up : stored->down;
}

// Of the columns of a tensor of gate and up, those of `part`.
static void take_turns(bd_storage *storage, int part) {
  int last = storage->rank - 1;
  if (part == DOWN) return;
  storage->dims[last] *= 2;
  storage->slice_dim = last;
  storage->slice_start = part == UP;
  storage->slice_size = 1;
  storage->slice_every = 2;
}

// A matrix [in, out] of every expert.
static bd_id add_matrices(const mixture *m, bd_layer *layer, const char *name, int part, int64_t in,
                          int64_t out) {
  const bd_llama_config *c = m->config;
  const bd_expert_names *stored = bd_mixture_names(c);
  bd_weight_pattern pattern = bd_transformer_linear(name, stored->experts, in, out, c->init_scale);
  pattern.type = bd_type_make(BD_F32, 3, (int64_t[]){c->experts, in, out});
  bd_storage *storage = &pattern.storage;
  if (stored->joined) {
    *storage =
        (bd_storage){.name = bd_intern_f(m->g->ctx, "%s%s", stored->experts, rest_of(stored, part)),
                     .rank = 3,
                     .dims = {c->experts, in, out},
                     .slice_dim = -1};
    take_turns(storage, part);
  } else {
    storage->stack = c->experts;
    storage->stack_rest = rest_of(stored, part);
  }
  return bd_graph_layer_weight(m->g, layer, pattern);
}

// Each expert's matrix times the tokens in its places, [batch, expert, place, ..], or, where there
// are ends, in its rows, [batch, row, ..].
static bd_id multiply(const mixture *m, const char *name, const char *rule, bd_id x, bd_id matrices,
                      const bd_routed *routed) {
  if (routed->ends == BD_NO_ID) return bd_graph_contract(m->g, name, rule, x, matrices);
  bd_attr attrs[] = {bd_attr_int(m->g->ctx, "filled", m->config->choices * m->sequence),
                     bd_attr_int(m->g->ctx, "grain", m->grain)};
  return bd_graph_op(m->g, name, BD_OP_GROUPED_CONTRACT, 3, (bd_id[]){x, matrices, routed->ends}, 2,
                     attrs);
}

// y and the bias of the expert in whose places it is; behind the last expert's rows there is none.
static bd_id add_bias(const mixture *m, bd_layer *layer, const char *name, int part, bd_id y,
                      const bd_routed *routed) {
  bd_graph_build *g = m->g;
  const bd_expert_names *stored = bd_mixture_names(m->config);
  if (!stored->bias || g->status != BD_OK) return y;
  bd_type type = g->function->values[y].type;
  int64_t width = type.dims[type.rank - 1];
  bd_weight_pattern pattern = bd_transformer_matrix(
      bd_intern_f(g->ctx, "%s.b", name),
      bd_intern_f(g->ctx, "%s%s%s", stored->experts, rest_of(stored, part), stored->bias),
      m->config->experts, width, 0);
  pattern.init = BD_INIT_ZEROS;
  take_turns(&pattern.storage, part);
  bd_id bias = bd_graph_layer_weight(g, layer, pattern);
  const char *each = bd_intern_f(g->ctx, "%s_bias", name);
  bd_id rows = routed->expert == BD_NO_ID
                   ? bd_graph_repeat(g, each, bias, "bd->abcd", &type)
                   : bd_graph_binary(g, each, BD_OP_EMBED, bias, routed->expert);
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%s_biased", name), BD_OP_ADD, y, rows);
}

static bd_id clamp(bd_graph_build *g, const char *name, bd_id x, double limit, bool both) {
  if (g->status != BD_OK) return BD_NO_ID;
  bd_type type = g->function->values[x].type;
  bd_id most = bd_graph_fill(g, bd_intern_f(g->ctx, "%s_most", name), &type, limit);
  x = bd_graph_binary(g, bd_intern_f(g->ctx, "%s_clamped", name), BD_OP_MIN, x, most);
  if (!both) return x;
  bd_id least = bd_graph_fill(g, bd_intern_f(g->ctx, "%s_least", name), &type, -limit);
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%s_bounded", name), BD_OP_MAX, x, least);
}

// What goes down, of gate and up.
static bd_id join(const mixture *m, bd_id gate, bd_id up) {
  bd_graph_build *g = m->g;
  const bd_llama_config *c = m->config;
  if (c->limit == 0)
    return bd_graph_binary(g, "gated", BD_OP_MUL,
                           bd_graph_unary(g, "activated", c->activation, gate), up);
  bd_attr slope = bd_attr_real(g->ctx, "value", c->slope), one = bd_attr_real(g->ctx, "value", 1);
  gate = clamp(g, "gate", gate, c->limit, false);
  up = clamp(g, "up", up, c->limit, true);
  bd_id share = bd_graph_op(g, "gate_steep", BD_OP_SCALE, 1, &gate, 1, &slope);
  share = bd_graph_unary(g, "gate_share", BD_OP_SIGMOID, share);
  bd_id activated = bd_graph_binary(g, "activated", BD_OP_MUL, gate, share);
  up = bd_graph_op(g, "up_and_one", BD_OP_OFFSET, 1, &up, 1, &one);
  return bd_graph_binary(g, "gated", BD_OP_MUL, up, activated);
}

bd_id bd_mixture_run(const mixture *m, bd_layer *layer, bd_id placed, const bd_routed *routed) {
  const bd_llama_config *c = m->config;
  bd_id w1 = add_matrices(m, layer, "w1", GATE, c->width, c->inner);
  bd_id w2 = add_matrices(m, layer, "w2", DOWN, c->inner, c->width);
  bd_id w3 = add_matrices(m, layer, "w3", UP, c->width, c->inner);
  bd_id gate = multiply(m, "gate", "bepc,ecf->bepf", placed, w1, routed);
  bd_id up = multiply(m, "up", "bepc,ecf->bepf", placed, w3, routed);
  gate = add_bias(m, layer, "gate", GATE, gate, routed);
  up = add_bias(m, layer, "up", UP, up, routed);
  bd_id down = multiply(m, "down", "bepf,efc->bepc", join(m, gate, up), w2, routed);
  return add_bias(m, layer, "down", DOWN, down, routed);
}
