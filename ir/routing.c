#include "ir/routing.h"

// The batch, then as many of the extents as the rank asks for.
static bd_type typed(bd_dtype dtype, int rank, int64_t b, int64_t c, int64_t d) {
  return bd_type_make(dtype, rank, (int64_t[]){BD_DIM_BATCH, b, c, d});
}

static bd_status emit_shaped(const bd_routing *r, const char *name, int rank, int64_t b, int64_t c,
                             int64_t d, bd_id x, bd_id *out) {
  bd_type type = typed(BD_F32, rank, b, c, d);
  bd_attr dims = bd_attr_ints(r->ctx, "dims", rank, type.dims);
  return r->emit(r->user, name, BD_OP_RESHAPE, 1, &x, 1, &dims, out);
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

static bd_status emit_cumsum(const bd_routing *r, const char *name, int dim, bool exclusive,
                             bd_id x, bd_id *out) {
  bd_attr attrs[] = {bd_attr_int(r->ctx, "dim", dim), bd_attr_int(r->ctx, "exclusive", exclusive)};
  return r->emit(r->user, name, BD_OP_CUMSUM, 1, &x, exclusive ? 2 : 1, attrs, out);
}

static bd_status emit_route(const bd_routing *r, const char *name, int rows, bd_id x, bd_id to,
                            bd_id back, bd_id *out) {
  bd_attr attrs[] = {bd_attr_int(r->ctx, "rows", rows), bd_attr_int(r->ctx, "inverse", 1)};
  return r->emit(r->user, name, BD_OP_ROUTE, 3, (bd_id[]){x, to, back}, rows > 1 ? 2 : 1, attrs,
                 out);
}

// The expert that a token has chosen, [batch, choice, token], and whether it is each of them,
// [batch, choice, token, expert].
static bd_status mark_choices(const bd_routing *r, bd_id chosen, bd_id *out_choice,
                              bd_id *out_mark) {
  bd_type type = typed(BD_I32, 4, r->choices, r->sequence, r->experts);
  bd_id each, expert;
  BD_TRY(emit_cast(r, "choice", BD_I32, chosen, &chosen));
  BD_TRY(emit_rule(r, "by_choice", BD_OP_PERMUTE, "abc->acb", chosen, out_choice));
  BD_TRY(emit_repeat(r, "choices", "abc->abcd", &type, *out_choice, &each));
  BD_TRY(emit_positions(r, "expert", &type, &expert));
  BD_TRY(emit_two(r, "is_chosen", BD_OP_EQ, each, expert, out_mark));
  return emit_cast(r, "mark", BD_I32, *out_mark, out_mark);
}

// A divisor of `count` that is about as large as its square root, a power of two.
static int64_t chunk_of(int64_t count) {
  int64_t chunk = 1;
  while (4 * chunk * chunk <= count && count % (2 * chunk) == 0)
    chunk *= 2;
  return chunk;
}

// How many of the queue, all first choices and then all second ones, have chosen an expert up to
// each: [batch, item, expert]. Integers count exactly, whatever halves stand for reals. Chunks are
// counted side by side, then what was before each is added (Blelloch, Prefix Sums and Their
// Applications, 1990, section 1.3).
static bd_status count_arrivals(const bd_routing *r, bd_id mark, bd_id *out) {
  int64_t count = r->choices * r->sequence, chunk = chunk_of(count), chunks = count / chunk;
  if (chunk == 1) {
    BD_TRY(emit_shaped(r, "queue", 3, count, r->experts, 0, mark, out));
    return emit_cumsum(r, "arrived", 1, false, *out, out);
  }
  bd_type type = typed(BD_I32, 4, chunks, chunk, r->experts);
  bd_id within, before;
  BD_TRY(emit_shaped(r, "queue", 4, chunks, chunk, r->experts, mark, out));
  BD_TRY(emit_cumsum(r, "arrived_in_chunk", 2, false, *out, &within));
  BD_TRY(emit_rule(r, "chunk_arrivals", BD_OP_REDUCE_SUM, "abcd->abd", *out, &before));
  BD_TRY(emit_cumsum(r, "arrived_before", 1, true, before, &before));
  BD_TRY(emit_repeat(r, "before_chunk", "abd->abcd", &type, before, &before));
  BD_TRY(emit_two(r, "arrived_by_chunk", BD_OP_ADD, within, before, out));
  return emit_shaped(r, "arrived", 3, count, r->experts, 0, *out, out);
}

// The place of each choice, [batch, choice, token], where its expert has room; else -1.
static bd_status find_places(const bd_routing *r, bd_id choice, bd_id mark, bd_id arrived,
                             bd_id *out) {
  bd_type type = typed(BD_I32, 3, r->choices, r->sequence, 0);
  bd_id rank, room, none, fits;
  BD_TRY(
      emit_shaped(r, "arrived_by_choice", 4, r->choices, r->sequence, r->experts, arrived, &rank));
  BD_TRY(emit_two(r, "own_rank", BD_OP_MUL, mark, rank, &rank));
  BD_TRY(emit_rule(r, "rank", BD_OP_REDUCE_SUM, "abcd->abc", rank, &rank)); // from 1
  BD_TRY(emit_fill(r, "room", &type, (double)r->capacity, &room));
  BD_TRY(emit_fill(r, "no_place", &type, -1, &none));
  BD_TRY(emit_two(r, "fits", BD_OP_LE, rank, room, &fits));
  BD_TRY(emit_two(r, "first_place", BD_OP_MUL, choice, room, out));
  BD_TRY(emit_two(r, "next_place", BD_OP_ADD, *out, rank, out));
  BD_TRY(emit_two(r, "place", BD_OP_ADD, *out, none, out));
  return emit_select(r, "place_or_none", fits, *out, none, out);
}

// Who sits at each place: of the queue, or its count where nobody does, and of the tokens, or -1.
static bd_status find_sitters(const bd_routing *r, bd_id arrived, bd_id *out_item,
                              bd_id *out_token) {
  bd_type type = typed(BD_I32, 3, r->experts, r->capacity, 0);
  bd_attr attrs[] = {bd_attr_int(r->ctx, "dim", 1), bd_attr_int(r->ctx, "places", r->capacity)};
  bd_id item, count, sequence, none, there;
  BD_TRY(r->emit(r->user, "item", BD_OP_SEARCH, 1, &arrived, 2, attrs, &item));
  BD_TRY(emit_fill(r, "items", &type, (double)(r->choices * r->sequence), &count));
  BD_TRY(emit_fill(r, "tokens", &type, (double)r->sequence, &sequence));
  BD_TRY(emit_fill(r, "no_token", &type, -1, &none));
  BD_TRY(emit_two(r, "is_taken", BD_OP_LT, item, count, &there));
  BD_TRY(emit_two(r, "sitter", BD_OP_MOD, item, sequence, out_token));
  BD_TRY(emit_select(r, "sitter_or_none", there, *out_token, none, out_token));
  BD_TRY(emit_shaped(r, "from", 4, r->experts, r->capacity, 1, *out_token, out_token));
  return emit_shaped(r, "from_item", 4, r->experts, r->capacity, 1, item, out_item);
}

bd_status bd_routing_emit(const bd_routing *r, bd_id chosen, bd_id weights, bd_routed *out) {
  int64_t count = r->choices * r->sequence, places;
  bd_id choice, arrived, place, item;
  if (__builtin_mul_overflow(r->experts, r->capacity, &places) || places > INT32_MAX)
    return bd_fail(r->ctx, BD_UNSUPPORTED, BD_NOWHERE,
                   "%lld experts with %lld places each are more places than an i32 numbers",
                   (long long)r->experts, (long long)r->capacity);
  BD_TRY(mark_choices(r, chosen, &choice, &out->mark));
  BD_TRY(count_arrivals(r, out->mark, &arrived));
  BD_TRY(find_places(r, choice, out->mark, arrived, &place));
  BD_TRY(find_sitters(r, arrived, &item, &out->from));
  BD_TRY(emit_rule(r, "to", BD_OP_PERMUTE, "abc->acb", place, &out->to));
  BD_TRY(emit_shaped(r, "item_to", 3, count, 1, 0, place, &place));
  BD_TRY(emit_rule(r, "weights_by_choice", BD_OP_PERMUTE, "abc->acb", weights, &weights));
  BD_TRY(emit_shaped(r, "item_weights", 2, count, 0, 0, weights, &weights));
  return emit_route(r, "place_weight", 1, weights, item, place, &out->weight);
}

bd_status bd_routing_place(const bd_routing *r, const bd_routed *routed, bd_id tokens, bd_id *out) {
  return emit_route(r, "placed", 1, tokens, routed->from, routed->to, out);
}

bd_status bd_routing_return(const bd_routing *r, const bd_routed *routed, const bd_type *made_type,
                            bd_id made, bd_id *out) {
  static const char features[] = "defgh"; // behind a batch, an expert and a place
  const char *rule = bd_intern_f(r->ctx, "abc->abc%.*s", made_type->rank - 3, features);
  bd_id weight;
  BD_TRY(emit_repeat(r, "made_weight", rule, made_type, routed->weight, &weight));
  BD_TRY(emit_two(r, "weighted", BD_OP_MUL, made, weight, &weight));
  return emit_route(r, "combined", 2, weight, routed->to, routed->from, out);
}

static bool brings_back(const bd_op *op) {
  return op->kind == BD_OP_ROUTE && bd_op_int(op, "rows", 1) == 2 && bd_op_int(op, "inverse", 0);
}

double bd_routing_spare(const bd_function *function) {
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    if (!brings_back(op)) continue;
    const int64_t *made = function->values[op->in[0]].type.dims;
    const int64_t *to = function->values[op->in[1]].type.dims;
    if (made[2] == to[1]) return (double)made[1] / (double)to[2];
  }
  return 0;
}

int bd_routing_count(const bd_function *function) {
  int count = 0;
  for (int i = 0; i < function->op_count; i++)
    count += brings_back(&function->ops[i]);
  return count;
}
