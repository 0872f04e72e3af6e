#include "ir/passes/recover/route.h"
#include "ir/passes/recover/gate.h"
#include "ir/passes/recover/pattern.h"
#include "ir/passes/recover/recover.h"
#include "ir/passes/recover/views.h"
#include "ir/routing.h"
#include <string.h>

// A sum has so many terms at most; lookups are at most so many operands from the sum over choices,
// and the choices so many ops before it.
enum { MOST_TERMS = 512, NEAREST = 64, FARTHEST = 1024 };

// What one expert adds to the tokens that have chosen it.
typedef struct term {
  bd_id chosen, weights; // [batch, token, choice]: results of a topk, and the tokens' weights
  int64_t expert;
  bd_id value; // of the expert, before it is weighted
  int rank;
  bd_expert_role roles[BD_MAX_RANK]; // of the value's dimensions
} term;

static const bd_type *type_of(const bd_edit *e, bd_id id) {
  return &e->from->values[id].type;
}

// A product of an expert's value and the tokens' weights for it.
static bool find_weighted(const bd_edit *e, bd_id id, term *t) {
  const bd_op *op = bd_edit_producer(e, id);
  if (!op || op->kind != BD_OP_MUL) return false;
  bd_traced whole = bd_trace_begin(e, id);
  for (int side = 0; side < 2; ++side) {
    bd_traced weights = bd_trace_operand(e, &whole, side);
    if (type_of(e, op->in[1 - side])->rank != whole.rank) continue;
    bd_trace_views(e, &weights);
    if (!bd_is_by_choice(e, &weights, t->roles) || type_of(e, weights.id)->dtype != BD_F32)
      continue;
    t->weights = weights.id;
    t->value = op->in[1 - side];
    return true;
  }
  return false;
}

// The roles of a value's dimensions, some of which the choices have.
static void set_roles(const bd_traced *chosen, term *t) {
  for (int d = 0; d < t->rank; ++d)
    t->roles[d] = BD_EXPERT_FEATURE;
  for (int d = 0; d < chosen->rank; ++d)
    if (chosen->dim[d] >= 0) t->roles[chosen->dim[d]] = (bd_expert_role)d;
}

// Whether the dimensions without the choices are batch, token and features, in this order.
static bool is_in_order(const term *t, int summed) {
  int at = 0;
  if (summed >= 0 && t->roles[summed] != BD_EXPERT_CHOICE) return false;
  for (int d = 0; d < t->rank; ++d) {
    if (d == summed) continue;
    if (t->roles[d] != (at < 2 ? (bd_expert_role)at : BD_EXPERT_FEATURE)) return false;
    ++at;
  }
  return at >= 3;
}

static void set_gate_roles(const bd_gate *g, term *t) {
  for (int d = 0; d < t->rank; ++d)
    t->roles[d] = d == g->batch    ? BD_EXPERT_BATCH
                  : d == g->token  ? BD_EXPERT_TOKEN
                  : d == g->number ? BD_EXPERT_NUMBER
                                   : BD_EXPERT_FEATURE;
  t->chosen = g->chosen;
  t->weights = g->weights;
  t->expert = g->expert;
}

// A value of an expert for all tokens, times their weights for it.
static bool find_gated_term(const bd_edit *e, bd_id id, term *t) {
  const bd_op *op = bd_edit_producer(e, id);
  bd_gate g;
  if (!op || op->kind != BD_OP_MUL) return false;
  bd_traced whole = bd_trace_begin(e, id);
  t->rank = whole.rank;
  for (int side = 0; side < 2; ++side) {
    if (type_of(e, op->in[1 - side])->rank != whole.rank ||
        !bd_find_gate(e, bd_trace_operand(e, &whole, side), &g) || g.number >= 0)
      continue;
    set_gate_roles(&g, t);
    t->value = op->in[1 - side];
    return is_in_order(t, -1);
  }
  return false;
}

// select(chosen, weighted value, 0), summed over the choices where there are several.
static bool find_term(const bd_edit *e, bd_id id, term *t) {
  const bd_op *op = bd_edit_producer(e, id);
  int summed = op ? bd_summed_dim(op) : -1;
  double zero;
  if (summed >= 0) op = bd_edit_producer(e, op->in[0]);
  if (!op || op->kind != BD_OP_SELECT || !bd_uniform_number(e->from, op->in[2], &zero) || zero != 0)
    return false;
  bd_traced whole = bd_trace_begin(e, op->out[0]);
  bd_traced_choice choice;
  t->rank = whole.rank;
  if (!bd_trace_choice(e, bd_trace_operand(e, &whole, 0), &choice) || choice.chosen.rank != 3)
    return false;
  set_roles(&choice.chosen, t);
  t->chosen = choice.chosen.id;
  t->expert = choice.expert;
  return bd_is_by_choice(e, &choice.chosen, t->roles) && is_in_order(t, summed) &&
         find_weighted(e, op->in[1], t);
}

// What a sum is of: experts' terms, and others.
typedef struct sum {
  int count, others;
  term *terms;
  bd_id other[BD_MAX_OPERANDS];
} sum;

static bool is_sum_within(const bd_edit *e, bd_id id) {
  const bd_op *op = bd_edit_producer(e, id);
  return op && op->kind == BD_OP_ADD && bd_edit_reads(e, id) == 1 &&
         type_of(e, op->in[0])->rank == type_of(e, op->in[1])->rank;
}

static bool collect(const bd_edit *e, bd_id id, int depth, sum *s) {
  double zero;
  if (depth > MOST_TERMS) return false;
  if (is_sum_within(e, id)) {
    const bd_op *op = bd_edit_producer(e, id);
    return collect(e, op->in[0], depth + 1, s) && collect(e, op->in[1], depth + 1, s);
  }
  if (s->count < MOST_TERMS &&
      (find_term(e, id, &s->terms[s->count]) || find_gated_term(e, id, &s->terms[s->count]))) {
    ++s->count;
    return true;
  }
  if (bd_uniform_number(e->from, id, &zero) && zero == 0) return true;
  if (s->others == BD_MAX_OPERANDS) return false;
  s->other[s->others++] = id;
  return true;
}

static bool is_whole_sum(const bd_edit *e, const bd_op *op) {
  bd_id id = op->out[0];
  if (op->kind != BD_OP_ADD || type_of(e, op->in[0])->rank != type_of(e, op->in[1])->rank)
    return false;
  if (bd_edit_reads(e, id) != 1 || e->readers.is_result[id]) return true;
  const bd_op *reader = &e->from->ops[e->readers.ops[e->readers.first[id]]];
  return reader->kind != BD_OP_ADD ||
         type_of(e, reader->in[0])->rank != type_of(e, reader->in[1])->rank;
}

static bd_status emit_routing_op(void *user, const char *name, bd_op_kind kind, int in_count,
                                 const bd_id *in, int attr_count, const bd_attr *attrs,
                                 bd_id *out) {
  (void)name;
  return bd_edit_emit(user, kind, in_count, in, attr_count, attrs, out);
}

// Whether tokens can be sent: samples of tokens, and a choice of all experts.
static bool is_routable(const bd_edit *e, const bd_experts *x, const term *t) {
  const bd_type *type = type_of(e, t->chosen);
  return x->x != BD_NO_ID && type->dims[0] == BD_DIM_BATCH && type_of(e, x->x)->rank <= 5 &&
         type_of(e, x->x)->dims[1] == type->dims[1] && type->dims[2] <= BD_MAX_NAMED_ROWS;
}

// What the experts give for all tokens, [batch, token, features..].
static bd_status emit_routed(bd_experts *x, const term *t, int64_t capacity, int node, bd_id *out) {
  bd_edit *e = x->e;
  const bd_type *type = type_of(e, t->chosen);
  bool unlimited = capacity == 0 || capacity > type->dims[1];
  bd_routing routing = {.ctx = e->ctx,
                        .emit = emit_routing_op,
                        .user = e,
                        .sequence = type->dims[1],
                        .experts = x->count,
                        .choices = type->dims[2],
                        .capacity = unlimited ? type->dims[1] : capacity};
  bd_routed routed;
  bd_id placed;
  BD_TRY(bd_routing_emit(&routing, bd_edit_value(e, t->chosen), bd_edit_value(e, t->weights),
                         &routed));
  BD_TRY(bd_routing_place(&routing, &routed, bd_edit_value(e, x->x), &placed));
  BD_TRY(bd_experts_emit(x, node, placed, out));
  const bd_type made = *bd_edit_type(e, *out);
  return bd_routing_return(&routing, &routed, &made, *out, out);
}

// Experts that the tokens' router chooses from.
static int64_t experts_of(const bd_edit *e, bd_id chosen) {
  const bd_type *scores = type_of(e, bd_edit_producer(e, chosen)->in[0]);
  return scores->dims[scores->rank - 1];
}

// One term for each of the experts, which agree in everything else: their values, by number.
static bool order_terms(const bd_edit *e, const sum *s, bd_id *values) {
  const term *first = &s->terms[0];
  if (s->count < 2 || experts_of(e, first->chosen) != s->count) return false;
  for (int i = 0; i < s->count; ++i)
    values[i] = BD_NO_ID;
  for (int i = 0; i < s->count; ++i) {
    const term *t = &s->terms[i];
    if (t->chosen != first->chosen || t->weights != first->weights || t->rank != first->rank ||
        memcmp(t->roles, first->roles, (size_t)t->rank * sizeof *t->roles) != 0 || t->expert < 0 ||
        t->expert >= s->count || values[t->expert] != BD_NO_ID)
      return false;
    values[t->expert] = t->value;
  }
  return true;
}

// Experts one by one: a sum of their terms.
static bd_status recover_sum(bd_edit *e, int64_t capacity, const bd_op *op) {
  sum s = {.terms = BD_NEW_ARRAY(e->ctx->arena, term, MOST_TERMS)};
  bd_id *values = BD_NEW_ARRAY(e->ctx->arena, bd_id, MOST_TERMS), out;
  int node;
  if (!collect(e, op->in[0], 0, &s) || !collect(e, op->in[1], 0, &s) || s.count == 0 ||
      !order_terms(e, &s, values))
    return BD_OK;
  bd_experts x = {
      .e = e, .count = s.count, .lanes = s.count, .x = BD_NO_ID, .nodes = bd_experts_room(e)};
  if (!bd_experts_read(&x, values, s.terms[0].roles, &node) || !is_routable(e, &x, s.terms))
    return BD_OK;
  BD_TRY(emit_routed(&x, s.terms, capacity, node, &out));
  for (int i = 0; i < s.others; ++i)
    BD_TRY(
        bd_edit_emit(e, BD_OP_ADD, 2, (bd_id[]){bd_edit_value(e, s.other[i]), out}, 0, NULL, &out));
  bd_edit_stand(e, op->out[0], out);
  return BD_OK;
}

// The matrices nearest to a value that are looked up by a topk's choices.
static bool find_lookup(const bd_edit *e, bd_id value, bd_id *out_chosen, int64_t *out_experts) {
  bd_id queue[NEAREST] = {value};
  for (int at = 0, end = 1; at < end; ++at) {
    const bd_op *op = bd_edit_producer(e, queue[at]);
    if (!op) continue;
    if (op->kind == BD_OP_GATHER && bd_op_int(op, "dim", 0) == 0) {
      bd_traced chosen = bd_trace_begin(e, op->in[1]);
      *out_experts = type_of(e, op->in[0])->dims[0];
      if (bd_trace_chosen(e, &chosen) && experts_of(e, chosen.id) == *out_experts) {
        *out_chosen = chosen.id;
        return true;
      }
    }
    for (int k = 0; k < op->in_count && end < NEAREST; ++k)
      queue[end++] = op->in[k];
  }
  return false;
}

// Per value, whether it follows from what tokens have chosen; NULL: that is too far away.
static const bool *find_following(const bd_edit *e, bd_id chosen) {
  int first = e->from->values[chosen].producer;
  if (e->at - first > FARTHEST) return NULL;
  bool *follows = BD_NEW_ARRAY(e->ctx->arena, bool, e->from->value_count);
  follows[chosen] = true;
  for (int i = first + 1; i < e->at; ++i) {
    const bd_op *op = &e->from->ops[i];
    bool is = false;
    for (int k = 0; k < op->in_count; ++k)
      is = is || follows[op->in[k]];
    for (int r = 0; r < op->out_count; ++r)
      follows[op->out[r]] = is;
  }
  return follows;
}

// Experts whose matrices are one tensor, as the sum `op` of the term over them has them.
static bd_status recover_matrices(bd_edit *e, int64_t capacity, const bd_op *op, int64_t experts,
                                  const bool *follows, const term *t) {
  bd_experts x = {.e = e,
                  .count = (int)experts,
                  .lanes = 1,
                  .chosen = t->chosen,
                  .follows = follows,
                  .x = BD_NO_ID,
                  .nodes = bd_experts_room(e)};
  int node;
  bd_id out;
  if (!bd_experts_read(&x, &t->value, t->roles, &node) || !is_routable(e, &x, t)) return BD_OK;
  BD_TRY(emit_routed(&x, t, capacity, node, &out));
  bd_edit_stand(e, op->out[0], out);
  return BD_OK;
}

// Experts looked up: a sum over the choices of weighted values.
static bd_status recover_lookup(bd_edit *e, int64_t capacity, const bd_op *op) {
  int summed = bd_summed_dim(op);
  bd_id value = op->in[0];
  const bd_op *product = bd_edit_producer(e, value);
  if (summed < 0 || !product || product->kind != BD_OP_MUL) return BD_OK;
  term t = {.rank = type_of(e, value)->rank};
  int64_t experts = 0;
  if (t.rank < 4 || !find_lookup(e, value, &t.chosen, &experts)) return BD_OK;
  const bool *follows = find_following(e, t.chosen);
  if (!follows) return BD_OK;
  for (int d = 0, at = 0; d < t.rank; ++d)
    t.roles[d] = d == summed ? BD_EXPERT_CHOICE : at < 2 ? (bd_expert_role)at++ : BD_EXPERT_FEATURE;
  if (!find_weighted(e, value, &t)) return BD_OK;
  return recover_matrices(e, capacity, op, experts, follows, &t);
}

// sum over experts of value * gate, as a sum of products.
static bool find_gated_sum(const bd_edit *e, const bd_op *op, bd_gate *g, term *t) {
  const bd_op *product = bd_edit_producer(e, op->in[0]);
  int summed = bd_summed_dim(op);
  if (!product || product->kind != BD_OP_MUL || summed < 0) return false;
  bd_traced whole = bd_trace_begin(e, op->in[0]);
  t->rank = whole.rank;
  for (int side = 0; side < 2; ++side) {
    t->value = product->in[1 - side];
    if (type_of(e, t->value)->rank != whole.rank ||
        !bd_find_gate(e, bd_trace_operand(e, &whole, side), g) || g->number != summed)
      continue;
    set_gate_roles(g, t);
    t->roles[summed] = BD_EXPERT_CHOICE; // for the order of the others
    bool good = is_in_order(t, summed);
    t->roles[summed] = BD_EXPERT_NUMBER;
    return good;
  }
  return false;
}

// The same as one contraction.
static bool find_gated_product(const bd_edit *e, const bd_op *op, bd_gate *g, term *t) {
  bd_lettered in[2];
  char result[BD_MAX_RANK + 1];
  if (!bd_split_rule(bd_op_string(op, "rule"), in, result)) return false;
  for (int side = 0; side < 2; ++side) {
    const char *letters = in[1 - side].letters;
    bd_traced gate = bd_trace_begin(e, op->in[side]);
    bool good = true;
    for (int d = 0; d < gate.rank; ++d) {
      const char *at = strchr(letters, in[side].letters[d]);
      gate.dim[d] = at ? (int)(at - letters) : -1;
      good = good && at;
    }
    if (!good || !bd_find_gate(e, gate, g) || g->number < 0) continue;
    t->value = op->in[1 - side];
    t->rank = (int)strlen(letters);
    set_gate_roles(g, t);
    int last = -1;
    for (int d = 0; result[d]; ++d) {
      int at = (int)(strchr(letters, result[d]) - letters);
      if (t->roles[at] != (d < 2 ? (bd_expert_role)d : BD_EXPERT_FEATURE) || (d > 2 && at < last))
        return false;
      last = at;
    }
    return !strchr(result, letters[g->number]) && strlen(result) + 1 == strlen(letters);
  }
  return false;
}

// Matrices of all experts, each on every token.
static bd_status recover_stacked(bd_edit *e, int64_t capacity, const bd_op *op) {
  term t = {.rank = 0};
  bd_gate g;
  bool found = op->kind == BD_OP_CONTRACT ? find_gated_product(e, op, &g, &t)
                                          : find_gated_sum(e, op, &g, &t);
  if (!found) return BD_OK;
  return recover_matrices(e, capacity, op, experts_of(e, t.chosen), NULL, &t);
}

bd_status bd_recover_routing(bd_edit *e, const void *user) {
  int64_t capacity = ((const bd_recover_options *)user)->expert_capacity;
  const bd_op *op = &e->from->ops[e->at];
  if (op->kind == BD_OP_CONTRACT) return recover_stacked(e, capacity, op);
  if (op->kind == BD_OP_REDUCE_SUM) {
    BD_TRY(recover_lookup(e, capacity, op));
    return e->copied > e->at ? BD_OK : recover_stacked(e, capacity, op);
  }
  return is_whole_sum(e, op) ? recover_sum(e, capacity, op) : BD_OK;
}
