#include "ir/routing.h"
#include <string.h>

// The batch, then as many of the extents as the rank asks for.
static bd_type typed(bd_dtype dtype, int rank, int64_t b, int64_t c, int64_t d) {
  return bd_type_make(dtype, rank, (int64_t[]){BD_DIM_BATCH, b, c, d});
}

static bd_status emit_rule(const bd_routing *r, const char *name, bd_op_kind kind, const char *rule,
                           bd_id x, bd_id *out) {
  bd_attr attr = bd_attr_string(r->ctx, "rule", rule);
  return r->emit(r->user, name, kind, 1, &x, 1, &attr, out);
}

static bd_status emit_repeat(const bd_routing *r, const char *name, const char *rule,
                             const bd_type *type, bd_id x, bd_id *out) {
  bd_attr attrs[] = {bd_attr_string(r->ctx, "rule", rule),
                     bd_attr_ints(r->ctx, "dims", type->rank, type->dims)};
  return r->emit(r->user, name, BD_OP_BROADCAST, 1, &x, 2, attrs, out);
}

static bd_status emit_made(const bd_routing *r, const char *name, bd_op_kind kind,
                           const bd_type *type, bd_attr attr, bd_id *out) {
  bd_attr attrs[] = {bd_attr_string(r->ctx, "dtype", bd_dtype_name(type->dtype)),
                     bd_attr_ints(r->ctx, "dims", type->rank, type->dims), attr};
  return r->emit(r->user, name, kind, 0, NULL, 3, attrs, out);
}

static bd_status emit_fill(const bd_routing *r, const char *name, const bd_type *type, double value,
                           bd_id *out) {
  return emit_made(r, name, BD_OP_CONSTANT, type, bd_attr_real(r->ctx, "value", value), out);
}

// Along the last dimension.
static bd_status emit_positions(const bd_routing *r, const char *name, const bd_type *type,
                                bd_id *out) {
  return emit_made(r, name, BD_OP_IOTA, type, bd_attr_int(r->ctx, "dim", type->rank - 1), out);
}

static bd_status emit_two(const bd_routing *r, const char *name, bd_op_kind kind, bd_id x, bd_id y,
                          bd_id *out) {
  return r->emit(r->user, name, kind, 2, (bd_id[]){x, y}, 0, NULL, out);
}

static bd_status emit_cast(const bd_routing *r, const char *name, bd_dtype dtype, bd_id x,
                           bd_id *out) {
  bd_attr attr = bd_attr_string(r->ctx, "dtype", bd_dtype_name(dtype));
  return r->emit(r->user, name, BD_OP_CAST, 1, &x, 1, &attr, out);
}

static bd_status emit_select(const bd_routing *r, const char *name, bd_id condition, bd_id x,
                             bd_id y, bd_id *out) {
  return r->emit(r->user, name, BD_OP_SELECT, 3, (bd_id[]){condition, x, y}, 0, NULL, out);
}

// Whether a token's choice is an expert: [batch, choice, token, expert].
static bd_status mark_choices(const bd_routing *r, bd_id chosen, bd_id *out) {
  bd_type type = typed(BD_I64, 4, r->choices, r->sequence, r->experts);
  bd_id expert;
  BD_TRY(emit_rule(r, "by_choice", BD_OP_PERMUTE, "abc->acb", chosen, out));
  BD_TRY(emit_repeat(r, "choice", "abc->abcd", &type, *out, out));
  BD_TRY(emit_positions(r, "expert", &type, &expert));
  return emit_two(r, "is_chosen", BD_OP_EQ, *out, expert, out);
}

// The place of each token at each expert, from 0, or -1 where it did not choose it: [batch, token,
// expert]. Integers count exactly, whatever halves stand for reals.
static bd_status find_places(const bd_routing *r, bd_id mark, bd_id *out) {
  bd_attr flat = bd_attr_ints(r->ctx, "dims", 3,
                              (int64_t[]){BD_DIM_BATCH, r->choices * r->sequence, r->experts});
  bd_attr split = bd_attr_ints(r->ctx, "dims", 4,
                               (int64_t[]){BD_DIM_BATCH, r->choices, r->sequence, r->experts});
  bd_attr along = bd_attr_int(r->ctx, "dim", 1);
  bd_type type = typed(BD_I32, 3, r->sequence, r->experts, 0);
  bd_id queue, before;
  BD_TRY(r->emit(r->user, "queue", BD_OP_RESHAPE, 1, &mark, 1, &flat, &queue));
  BD_TRY(r->emit(r->user, "arrived", BD_OP_CUMSUM, 1, &queue, 1, &along, &queue));
  BD_TRY(r->emit(r->user, "arrived_by_choice", BD_OP_RESHAPE, 1, &queue, 1, &split, &queue));
  BD_TRY(emit_two(r, "own_rank", BD_OP_MUL, mark, queue, out));
  BD_TRY(emit_rule(r, "rank", BD_OP_REDUCE_SUM, "abcd->acd", *out, out));
  BD_TRY(emit_fill(r, "before", &type, -1, &before));
  return emit_two(r, "place", BD_OP_ADD, *out, before, out);
}

// The weight of each expert for each token, 0 where it did not choose it: [batch, token, expert].
static bd_status weigh(const bd_routing *r, bd_id is_chosen, bd_id weights, bd_id *out) {
  bd_type type = typed(BD_F32, 4, r->choices, r->sequence, r->experts);
  bd_id none;
  BD_TRY(emit_rule(r, "weights_by_choice", BD_OP_PERMUTE, "abc->acb", weights, out));
  BD_TRY(emit_repeat(r, "weight", "abc->abcd", &type, *out, out));
  BD_TRY(emit_fill(r, "none", &type, 0, &none));
  BD_TRY(emit_select(r, "own_weight", is_chosen, *out, none, out));
  return emit_rule(r, "expert_weight", BD_OP_REDUCE_SUM, "abcd->acd", *out, out);
}

bd_status bd_routing_emit(const bd_routing *r, bd_id chosen, bd_id weights, bd_routed *out) {
  bd_type places = typed(BD_I32, 4, r->sequence, r->experts, r->capacity);
  bd_type rooms = typed(BD_F32, 4, r->sequence, r->experts, r->capacity);
  bd_id is_chosen, place, there, sits, weight, nothing;
  BD_TRY(mark_choices(r, chosen, &is_chosen));
  BD_TRY(emit_cast(r, "mark", BD_I32, is_chosen, &out->mark));
  BD_TRY(find_places(r, out->mark, &place));
  BD_TRY(emit_repeat(r, "place_sought", "abc->abcd", &places, place, &place));
  BD_TRY(emit_positions(r, "place_there", &places, &there));
  BD_TRY(emit_two(r, "sits", BD_OP_EQ, place, there, &sits));
  BD_TRY(emit_cast(r, "dispatch", BD_F32, sits, &out->dispatch));
  BD_TRY(weigh(r, is_chosen, weights, &weight));
  BD_TRY(emit_repeat(r, "place_weight", "abc->abcd", &rooms, weight, &weight));
  BD_TRY(emit_fill(r, "nothing", &rooms, 0, &nothing));
  return emit_select(r, "combine", sits, weight, nothing, &out->combine);
}

// The product by which tokens come back, up to the features.
#define RETURN "btep,bep"

static bd_status emit_product(const bd_routing *r, const char *name, const char *rule, bd_id x,
                              bd_id y, bd_id *out) {
  bd_attr attr = bd_attr_string(r->ctx, "rule", rule);
  return r->emit(r->user, name, BD_OP_CONTRACT, 2, (bd_id[]){x, y}, 1, &attr, out);
}

bd_status bd_routing_place(const bd_routing *r, const bd_routed *routed, const char *features,
                           bd_id tokens, bd_id *out) {
  const char *rule = bd_intern_f(r->ctx, "btep,bt%s->bep%s", features, features);
  return emit_product(r, "placed", rule, routed->dispatch, tokens, out);
}

bd_status bd_routing_return(const bd_routing *r, const bd_routed *routed, const char *features,
                            bd_id made, bd_id *out) {
  const char *rule = bd_intern_f(r->ctx, RETURN "%s->bt%s", features, features);
  return emit_product(r, "combined", rule, routed->combine, made, out);
}

int bd_routing_count(const bd_function *function) {
  int count = 0;
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    const char *rule = bd_op_string(op, "rule");
    count += op->kind == BD_OP_CONTRACT && rule && strncmp(rule, RETURN, sizeof RETURN - 1) == 0;
  }
  return count;
}
