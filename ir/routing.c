#include "ir/routing.h"

#include "ir/pool.h"

// Of a dropless expert's rows, in the mean: the grain is at most one part in SLACK.
enum { MOST_GRAIN = 128, SLACK = 8 };

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

static bd_status emit_search(const bd_routing *r, const char *name, int64_t places, bd_id x,
                             bd_id *out) {
  bd_attr attrs[] = {bd_attr_int(r->ctx, "dim", 1), bd_attr_int(r->ctx, "places", places)};
  return r->emit(r->user, name, BD_OP_SEARCH, 1, &x, 2, attrs, out);
}

static bd_status emit_route(const bd_routing *r, const char *name, bd_id x, bd_id to, bd_id back,
                            bd_id *out) {
  bd_attr attrs[] = {bd_attr_int(r->ctx, "rows", 1), bd_attr_int(r->ctx, BD_POOLED_ATTR, 1)};
  return r->emit(r->user, name, BD_OP_ROUTE, 3, (bd_id[]){x, to, back}, r->capacity > 0 ? 1 : 2,
                 attrs, out);
}

// From places, of so many dimensions, back to where `emit_route` brings rows from.
static bd_status emit_return(const bd_routing *r, const char *name, int dims, bd_id x, bd_id to,
                             bd_id back, bd_id *out) {
  bd_attr attrs[] = {bd_attr_int(r->ctx, "rows", dims), bd_attr_int(r->ctx, "inverse", 1),
                     bd_attr_int(r->ctx, BD_POOLED_ATTR, 1)};
  return r->emit(r->user, name, BD_OP_ROUTE, 3, (bd_id[]){x, to, back}, r->capacity > 0 ? 2 : 3,
                 attrs, out);
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

// How many have chosen a choice's expert up to it, [batch, choice, token], from 1.
static bd_status find_ranks(const bd_routing *r, bd_id mark, bd_id arrived, bd_id *out) {
  bd_id rank;
  BD_TRY(
      emit_shaped(r, "arrived_by_choice", 4, r->choices, r->sequence, r->experts, arrived, &rank));
  BD_TRY(emit_two(r, "own_rank", BD_OP_MUL, mark, rank, &rank));
  return emit_rule(r, "rank", BD_OP_REDUCE_SUM, "abcd->abc", rank, out);
}

// The place of each choice, [batch, choice, token], where its expert has room; else -1.
static bd_status find_places(const bd_routing *r, bd_id choice, bd_id rank, bd_id *out) {
  bd_type type = typed(BD_I32, 3, r->choices, r->sequence, 0);
  bd_id room, none, fits;
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
  bd_id item, count, sequence, none, there;
  BD_TRY(emit_search(r, "item", r->capacity, arrived, &item));
  BD_TRY(emit_fill(r, "items", &type, (double)(r->choices * r->sequence), &count));
  BD_TRY(emit_fill(r, "tokens", &type, (double)r->sequence, &sequence));
  BD_TRY(emit_fill(r, "no_token", &type, -1, &none));
  BD_TRY(emit_two(r, "is_taken", BD_OP_LT, item, count, &there));
  BD_TRY(emit_two(r, "sitter", BD_OP_MOD, item, sequence, out_token));
  BD_TRY(emit_select(r, "sitter_or_none", there, *out_token, none, out_token));
  BD_TRY(emit_shaped(r, "from", 4, r->experts, r->capacity, 1, *out_token, out_token));
  return emit_shaped(r, "from_item", 4, r->experts, r->capacity, 1, item, out_item);
}

int64_t bd_routing_grain(const bd_routing *r) {
  int64_t grain = 1, even = r->choices * r->sequence / r->experts / SLACK;
  while (2 * grain <= MOST_GRAIN && 2 * grain <= even)
    grain *= 2;
  return grain;
}

// Each expert that anybody chooses rounds its rows up by less than a grain, and all together are
// whole grains.
int64_t bd_routing_rows(const bd_routing *r) {
  int64_t count = r->choices * r->sequence, grain = bd_routing_grain(r);
  int64_t chosen = r->experts < count ? r->experts : count;
  return (count + chosen * (grain - 1)) / grain * grain;
}

// Of what each sample has of every expert, [batch, expert]: sums over the samples of its rank, of
// those before it or, in reverse, of it and those behind.
static bd_status emit_pooled_sums(const bd_routing *r, const char *name, bool reverse, bd_id x,
                                  bd_id *out) {
  bd_attr attrs[] = {bd_attr_int(r->ctx, "dim", 0),
                     bd_attr_int(r->ctx, reverse ? "reverse" : "exclusive", 1),
                     bd_attr_int(r->ctx, BD_POOLED_ATTR, 1)};
  return r->emit(r->user, name, BD_OP_CUMSUM, 1, &x, 3, attrs, out);
}

// To whole grains.
static bd_status round_up(const bd_routing *r, bd_id load, bd_id *out) {
  bd_type type = typed(BD_I32, 2, r->experts, 0, 0);
  int64_t unit = bd_routing_grain(r);
  bd_id grain, rest;
  *out = load;
  if (unit == 1) return BD_OK;
  BD_TRY(emit_fill(r, "grain", &type, (double)unit, &grain));
  BD_TRY(emit_fill(r, "grain_rest", &type, (double)(unit - 1), &rest));
  BD_TRY(emit_two(r, "loads_over", BD_OP_ADD, load, rest, &load));
  BD_TRY(emit_two(r, "loads_in_grains", BD_OP_DIV, load, grain, &load));
  return emit_two(r, "loads_rounded", BD_OP_MUL, load, grain, out);
}

// The row behind each expert's of all samples, and where those of each sample begin, [batch,
// expert].
static bd_status find_ends(const bd_routing *r, bd_id mark, bd_id *out_ends, bd_id *out_starts) {
  bd_id load, before, rest, all;
  BD_TRY(emit_rule(r, "choice_loads", BD_OP_REDUCE_SUM, "abcd->abd", mark, &load));
  BD_TRY(emit_rule(r, "loads", BD_OP_REDUCE_SUM, "abc->ac", load, &load));
  BD_TRY(emit_pooled_sums(r, "loads_before", false, load, &before));
  BD_TRY(emit_pooled_sums(r, "loads_from", true, load, &rest));
  BD_TRY(emit_two(r, "loads_of_all", BD_OP_ADD, before, rest, &all));
  BD_TRY(round_up(r, all, &all));
  BD_TRY(emit_cumsum(r, "ends", 1, false, all, out_ends));
  BD_TRY(emit_two(r, "expert_starts", BD_OP_SUB, *out_ends, all, out_starts));
  return emit_two(r, "starts", BD_OP_ADD, *out_starts, before, out_starts);
}

// The row of each choice, [batch, choice, token].
static bd_status find_rows(const bd_routing *r, bd_id choice, bd_id rank, bd_id starts,
                           bd_id *out) {
  bd_type type = typed(BD_I32, 3, r->choices, r->sequence, 0);
  bd_attr by_expert[] = {bd_attr_int(r->ctx, "dim", 1), bd_attr_int(r->ctx, "batch", 1)};
  bd_id first, none;
  BD_TRY(r->emit(r->user, "first_row", BD_OP_GATHER, 2, (bd_id[]){starts, choice}, 2, by_expert,
                 &first));
  BD_TRY(emit_fill(r, "no_row", &type, -1, &none));
  BD_TRY(emit_two(r, "next_row", BD_OP_ADD, first, rank, out));
  return emit_two(r, "row", BD_OP_ADD, *out, none, out);
}

// Who sits in each row, as numbers over all samples: of the queues, and of the tokens; -1: nobody.
static bd_status find_row_sitters(const bd_routing *r, bd_id arrived, bd_id starts, bd_id *out_item,
                                  bd_id *out_token) {
  int64_t count = r->choices * r->sequence, rows = bd_routing_rows(r);
  bd_type type = typed(BD_I32, 2, rows, 0, 0);
  bd_attr attr = bd_attr_int(r->ctx, "rows", rows);
  bd_id item, items, sequence, none, free, sample, token;
  BD_TRY(r->emit(r->user, "item", BD_OP_ROW_ITEMS, 2, (bd_id[]){arrived, starts}, 1, &attr, &item));
  BD_TRY(emit_fill(r, "items", &type, (double)count, &items));
  BD_TRY(emit_fill(r, "tokens", &type, (double)r->sequence, &sequence));
  BD_TRY(emit_fill(r, "no_item", &type, -1, &none));
  BD_TRY(emit_two(r, "is_free", BD_OP_EQ, item, none, &free));
  BD_TRY(emit_two(r, "sitter_sample", BD_OP_DIV, item, items, &sample));
  BD_TRY(emit_two(r, "sample_tokens", BD_OP_MUL, sample, sequence, &sample));
  BD_TRY(emit_two(r, "sitter_of_sample", BD_OP_MOD, item, sequence, &token));
  BD_TRY(emit_two(r, "sitter", BD_OP_ADD, sample, token, &token));
  BD_TRY(emit_select(r, "sitter_or_none", free, none, token, &token));
  BD_TRY(emit_shaped(r, "from", 3, rows, 1, 0, token, out_token));
  return emit_shaped(r, "from_item", 3, rows, 1, 0, item, out_item);
}

// Whose row each is.
static bd_status find_row_experts(const bd_routing *r, bd_id ends, bd_id *out) {
  bd_attr attrs[] = {bd_attr_int(r->ctx, "dim", 1),
                     bd_attr_int(r->ctx, "places", bd_routing_rows(r)),
                     bd_attr_int(r->ctx, BD_POOLED_ATTR, 1)};
  return r->emit(r->user, "row_expert", BD_OP_SEARCH, 1, &ends, 3, attrs, out);
}

// Places of every expert, or its part of the rows: of each choice, and who sits in each.
static bd_status find_all(const bd_routing *r, bd_id choice, bd_routed *out, bd_id *out_place,
                          bd_id *out_item) {
  bd_id arrived, rank, starts;
  BD_TRY(count_arrivals(r, out->mark, &arrived));
  BD_TRY(find_ranks(r, out->mark, arrived, &rank));
  out->ends = out->expert = BD_NO_ID;
  if (r->capacity > 0) {
    BD_TRY(find_places(r, choice, rank, out_place));
    return find_sitters(r, arrived, out_item, &out->from);
  }
  BD_TRY(find_ends(r, out->mark, &out->ends, &starts));
  BD_TRY(find_rows(r, choice, rank, starts, out_place));
  BD_TRY(find_row_experts(r, out->ends, &out->expert));
  return find_row_sitters(r, arrived, starts, out_item, &out->from);
}

// Whether all that is counted is a number in i32; of several samples, plans see to it.
static bd_status check_places(const bd_routing *r) {
  int64_t count, places;
  if (__builtin_mul_overflow(r->choices, r->sequence, &count) || count > INT32_MAX ||
      (r->capacity == 0 && bd_routing_rows(r) > INT32_MAX))
    return bd_fail(r->ctx, BD_UNSUPPORTED, BD_NOWHERE,
                   "%lld tokens with %lld experts each are more choices than an i32 numbers",
                   (long long)r->sequence, (long long)r->choices);
  if (!__builtin_mul_overflow(r->experts, r->capacity, &places) && places <= INT32_MAX)
    return BD_OK;
  return bd_fail(r->ctx, BD_UNSUPPORTED, BD_NOWHERE,
                 "%lld experts with %lld places each are more than an i32 numbers",
                 (long long)r->experts, (long long)r->capacity);
}

bd_status bd_routing_emit(const bd_routing *r, bd_id chosen, bd_id weights, bd_routed *out) {
  int64_t count = r->choices * r->sequence;
  bd_id choice, place, item;
  BD_TRY(check_places(r));
  BD_TRY(mark_choices(r, chosen, &choice, &out->mark));
  BD_TRY(find_all(r, choice, out, &place, &item));
  BD_TRY(emit_rule(r, "to", BD_OP_PERMUTE, "abc->acb", place, &out->to));
  BD_TRY(emit_shaped(r, "item_to", 3, count, 1, 0, place, &place));
  BD_TRY(emit_rule(r, "weights_by_choice", BD_OP_PERMUTE, "abc->acb", weights, &weights));
  BD_TRY(emit_shaped(r, "item_weights", 2, count, 0, 0, weights, &weights));
  return emit_route(r, "place_weight", weights, item, place, &out->weight);
}

bd_status bd_routing_place(const bd_routing *r, const bd_routed *routed, bd_id tokens, bd_id *out) {
  return emit_route(r, "placed", tokens, routed->from, routed->to, out);
}

bd_status bd_routing_return(const bd_routing *r, const bd_routed *routed, const bd_type *made_type,
                            bd_id made, bd_id *out) {
  static const char letters[] = "abcdefgh"; // a batch, an expert and a place or a row, features
  int dims = r->capacity > 0 ? 2 : 1;
  const char *rule = bd_intern_f(r->ctx, "%.*s->%.*s", 1 + dims, letters, made_type->rank, letters);
  bd_id weight;
  BD_TRY(emit_repeat(r, "made_weight", rule, made_type, routed->weight, &weight));
  BD_TRY(emit_two(r, "weighted", BD_OP_MUL, made, weight, &weight));
  return emit_return(r, "combined", dims, weight, routed->to, routed->from, out);
}

static bool brings_back(const bd_op *op) {
  return op->kind == BD_OP_ROUTE && bd_op_int(op, "inverse", 0);
}

double bd_routing_spare(const bd_function *function) {
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    if (!brings_back(op) || bd_op_int(op, "rows", 1) != 2) continue;
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
