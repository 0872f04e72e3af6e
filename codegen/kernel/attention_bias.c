#include "codegen/kernel/attention_bias.h"
#include "ir/memory.h"

enum { DIAGONALS = 2 * BD_TILE - 1 };
_Static_assert((int)BD_TILE == (int)BD_MEMORY_QUERY_TILE, "the scratch has sums of such tiles");

void bd_attention_open_biases(bd_attention *a, int operand) {
  bd_gen *g = a->g;
  const bd_type *type = &g->kernel->function->values[g->op->in[operand]].type;
  a->places = type->dims[1];
  a->far = a->causal ? a->places - 1 : a->places / 2;
  a->stored_biases = bd_gen_in(g, operand);
  a->biases = bd_gen_shared(g, "biases", bd_gen_f32(g), (int)a->places);
}

// Runs over the places, which the block's threads take in turn.
static bd_gen_for each_place(bd_attention *a) {
  bd_gen *g = a->g;
  return bd_gen_for_begin(g, g->thread, bd_gen_long(g, a->places), bd_gen_long(g, g->threads));
}

static LLVMValueRef shared_at(bd_gen *g, LLVMValueRef memory, LLVMValueRef index) {
  return bd_panel_at(g, bd_gen_f32(g), memory, index);
}

static LLVMValueRef load(bd_gen *g, LLVMValueRef address) {
  return LLVMBuildLoad2(g->b, bd_gen_f32(g), address, "");
}

static void add_to(bd_gen *g, LLVMValueRef address, LLVMValueRef value) {
  LLVMBuildStore(g->b, LLVMBuildFAdd(g->b, load(g, address), value, ""), address);
}

void bd_attention_load_biases(bd_attention *a) {
  bd_gen *g = a->g;
  if (!a->places) return;
  bd_rows rows = {.dtype = a->stored_biases.dtype,
                  .base = a->stored_biases.base,
                  .stride = a->places,
                  .width = a->places};
  bd_gen_for each = each_place(a);
  LLVMValueRef value = bd_rows_load(g, &rows, bd_rows_address(g, &rows, a->head, each.index), 1);
  LLVMBuildStore(g->b, value, shared_at(g, a->biases, each.index));
  bd_gen_for_end(g, &each);
}

static LLVMValueRef extreme(bd_gen *g, const char *name, LLVMValueRef a, int64_t b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef both[] = {a, bd_gen_int_like(a, b)};
  return bd_gen_intrinsic(g, name, 1, &type, 2, both);
}

// Of a query and a key, i32; rows after the last are at a place as well.
static LLVMValueRef place_of(bd_attention *a, LLVMValueRef query, LLVMValueRef key) {
  bd_gen *g = a->g;
  LLVMValueRef behind = LLVMBuildNSWSub(g->b, key, bd_attention_place(a, query), "");
  LLVMValueRef place = LLVMBuildTrunc(g->b, behind, bd_gen_i32(g), "");
  place = LLVMBuildNSWAdd(g->b, place, bd_gen_int_like(place, a->far), "");
  return extreme(g, "llvm.smin", extreme(g, "llvm.smax", place, 0), a->places - 1);
}

LLVMValueRef bd_attention_biased(bd_attention *a, LLVMValueRef score, LLVMValueRef query,
                                 LLVMValueRef key) {
  bd_gen *g = a->g;
  if (!a->places) return score;
  LLVMValueRef bias = load(g, shared_at(g, a->biases, place_of(a, query, key)));
  return LLVMBuildFAdd(g->b, score, bias, "");
}

bd_place_sums bd_place_sums_create(bd_attention *a, LLVMValueRef to) {
  bd_gen *g = a->g;
  LLVMTypeRef f32 = bd_gen_f32(g);
  return (bd_place_sums){.places = bd_gen_shared(g, "places", f32, (int)a->places),
                         .before = bd_gen_variable(g, f32),
                         .behind = bd_gen_variable(g, f32),
                         .edges = bd_gen_shared(g, "edges", f32, 2 * g->threads / BD_GEN_LANES),
                         .to = to};
}

void bd_place_sums_clear(bd_attention *a, const bd_place_sums *sums) {
  bd_gen *g = a->g;
  LLVMValueRef zero = LLVMConstNull(bd_gen_f32(g));
  LLVMBuildStore(g->b, zero, sums->before);
  LLVMBuildStore(g->b, zero, sums->behind);
  bd_gen_for each = each_place(a);
  LLVMBuildStore(g->b, zero, shared_at(g, sums->places, each.index));
  bd_gen_for_end(g, &each);
}

// The sum along a diagonal of the shared square: of columns `beyond` behind their rows.
static LLVMValueRef diagonal(bd_attention *a, LLVMValueRef beyond) {
  bd_gen *g = a->g;
  LLVMValueRef sum = bd_gen_variable(g, bd_gen_f32(g)), zero = bd_gen_long(g, 0),
               all = bd_gen_long(g, BD_TILE);
  LLVMBuildStore(g->b, LLVMConstNull(bd_gen_f32(g)), sum);
  LLVMValueRef is_above = LLVMBuildICmp(g->b, LLVMIntSGT, beyond, zero, "");
  LLVMValueRef from = LLVMBuildSelect(g->b, is_above, zero, LLVMBuildNSWNeg(g->b, beyond, ""), "");
  LLVMValueRef to = bd_gen_smaller(g, LLVMBuildNSWSub(g->b, all, beyond, ""), all);
  bd_gen_for rows = bd_gen_for_begin(g, from, to, bd_gen_long(g, 1));
  LLVMValueRef column = bd_panel_add(g, rows.index, beyond);
  add_to(g, sum, load(g, bd_square_shared(&a->tiles, rows.index, column)));
  bd_gen_for_end(g, &rows);
  return load(g, sum);
}

static void add_where(bd_gen *g, LLVMValueRef sum, LLVMValueRef where, LLVMValueRef value) {
  add_to(g, sum, LLVMBuildSelect(g->b, where, value, LLVMConstNull(LLVMTypeOf(value)), ""));
}

// Each thread takes a diagonal, whose scores have one place, which no other has but at the edges.
void bd_place_sums_add(bd_attention *a, const bd_place_sums *sums, const bd_square *slopes,
                       LLVMValueRef first_query, LLVMValueRef first_key) {
  bd_gen *g = a->g;
  bd_square_share(&a->tiles, slopes);
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, g->thread, bd_gen_long(g, DIAGONALS), "");
  bd_gen_if branch = bd_gen_if_begin(g, there);
  LLVMValueRef beyond = bd_panel_plus(g, g->thread, 1 - BD_TILE), sum = diagonal(a, beyond);
  LLVMValueRef place = place_of(a, first_query, bd_panel_add(g, first_key, beyond));
  LLVMValueRef is_first = LLVMBuildICmp(g->b, LLVMIntEQ, place, bd_gen_int_like(place, 0), "");
  LLVMValueRef is_last =
      LLVMBuildICmp(g->b, LLVMIntEQ, place, bd_gen_int_like(place, a->places - 1), "");
  add_where(g, sums->before, is_first, sum);
  add_where(g, sums->behind, LLVMBuildAnd(g->b, is_last, LLVMBuildNot(g->b, is_first, ""), ""),
            sum);
  LLVMValueRef is_edge = LLVMBuildOr(g->b, is_first, is_last, "");
  bd_gen_if inner = bd_gen_if_begin(g, LLVMBuildNot(g->b, is_edge, ""));
  add_to(g, shared_at(g, sums->places, place), sum);
  bd_gen_if_end(g, &inner);
  bd_gen_if_end(g, &branch);
}

static LLVMValueRef edge_at(bd_attention *a, const bd_place_sums *sums, LLVMValueRef warp,
                            int edge) {
  return shared_at(a->g, sums->edges, bd_panel_plus(a->g, bd_panel_times(a->g, warp, 2), edge));
}

// What each warp's threads have of the first and the last place.
static void share_edges(bd_attention *a, const bd_place_sums *sums) {
  bd_gen *g = a->g;
  LLVMValueRef values[] = {load(g, sums->before), load(g, sums->behind)};
  for (int i = 0; i < 2; i++)
    for (int distance = BD_GEN_LANES / 2; distance; distance /= 2)
      values[i] = bd_gen_plus(g, values[i], bd_gen_from_lane(g, values[i], distance));
  LLVMValueRef lanes = bd_gen_long(g, BD_GEN_LANES);
  LLVMValueRef lane = LLVMBuildURem(g->b, g->thread, lanes, "");
  LLVMValueRef is_first = LLVMBuildICmp(g->b, LLVMIntEQ, lane, bd_gen_long(g, 0), "");
  bd_gen_if branch = bd_gen_if_begin(g, is_first);
  LLVMValueRef warp = LLVMBuildUDiv(g->b, g->thread, lanes, "");
  for (int i = 0; i < 2; i++)
    LLVMBuildStore(g->b, values[i], edge_at(a, sums, warp, i));
  bd_gen_if_end(g, &branch);
}

static void add_edge(bd_attention *a, const bd_place_sums *sums, int edge, int64_t at,
                     LLVMValueRef place, LLVMValueRef total) {
  bd_gen *g = a->g;
  LLVMValueRef is_there = LLVMBuildICmp(g->b, LLVMIntEQ, place, bd_gen_long(g, at), "");
  bd_gen_if branch = bd_gen_if_begin(g, is_there);
  for (int warp = 0; warp < g->threads / BD_GEN_LANES; warp++)
    add_to(g, total, load(g, edge_at(a, sums, bd_gen_long(g, warp), edge)));
  bd_gen_if_end(g, &branch);
}

// Elements from a head's sums to the next one's.
static int64_t head_stride(const bd_attention *a) {
  return bd_memory_query_tiles(a->tq) * a->places;
}

// From sample to sample; a rank has room for the heads that it has numbers of queries for.
static int64_t batch_stride(const bd_attention *a) {
  const bd_kernel *k = a->g->kernel;
  bd_type lse = bd_value_local_type(k->module, &k->function->values[a->g->op->in[5]]);
  return lse.dims[2] * head_stride(a);
}

void bd_place_sums_store(bd_attention *a, const bd_place_sums *sums, LLVMValueRef first_query) {
  bd_gen *g = a->g;
  LLVMValueRef total = bd_gen_variable(g, bd_gen_f32(g));
  share_edges(a, sums);
  bd_gen_barrier(g);
  LLVMValueRef tile = LLVMBuildUDiv(g->b, first_query, bd_gen_long(g, BD_TILE), "");
  LLVMValueRef from = bd_panel_add(g, bd_panel_times(g, a->batch, batch_stride(a)),
                                   bd_panel_times(g, a->head, head_stride(a)));
  from = bd_panel_add(g, from, bd_panel_times(g, tile, a->places));
  bd_gen_for each = each_place(a);
  LLVMBuildStore(g->b, load(g, shared_at(g, sums->places, each.index)), total);
  add_edge(a, sums, 0, 0, each.index, total);
  add_edge(a, sums, 1, a->places - 1, each.index, total);
  LLVMBuildStore(g->b, load(g, total), shared_at(g, sums->to, bd_panel_add(g, from, each.index)));
  bd_gen_for_end(g, &each);
}

typedef struct joining {
  bd_access from, to;
  int loops[2]; // samples and tiles
  LLVMValueRef sum;
} joining;

static void add_tile(bd_gen *g, void *user) {
  joining *j = user;
  add_to(g, j->sum, bd_gen_load(g, &j->from));
}

static void join_place(bd_gen *g, void *user) {
  joining *j = user;
  j->sum = bd_gen_variable(g, bd_gen_f32(g));
  LLVMBuildStore(g->b, LLVMConstNull(bd_gen_f32(g)), j->sum);
  bd_gen_serial(g, 2, j->loops, add_tile, j);
  bd_gen_store(g, &j->to, load(g, j->sum));
}

void bd_place_sums_join(bd_attention *a, LLVMValueRef from, int result) {
  bd_gen *g = a->g;
  int b = bd_index_find(&g->map, 'b'), kv = bd_index_find(&g->map, 'k');
  int tile = bd_gen_own_loop(g, bd_memory_query_tiles(a->tq)),
      head = bd_attention_loop(g, &g->loop[kv], a->group), place = bd_gen_own_loop(g, a->places);
  joining j = {.from = {.dtype = BD_F32, .base = from, .valid = from, .aligned = BD_GEN_ALIGNED},
               .to = bd_gen_out(g, result),
               .loops = {b, tile}};
  j.from.stride[b] = batch_stride(a);
  j.from.stride[head] = head_stride(a);
  j.from.stride[tile] = a->places;
  j.from.stride[place] = 1;
  j.to.stride[kv] = 0;
  j.to.stride[head] = a->places;
  j.to.stride[place] = 1;
  bd_gen_points points = {.loops = 2,
                          .order = {head, place},
                          .access_count = 2,
                          .accesses = (bd_access *[]){&j.from, &j.to},
                          .work = g->loop[b].extent * g->loop[tile].extent,
                          .body = join_place,
                          .user = &j};
  bd_gen_elementwise(g, &points);
}
