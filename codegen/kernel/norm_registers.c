// GPU: norms and their gradients of rows that a warp's or a block's registers hold. Every thread
// asks for all that it needs of its rows before it uses any of it, and nothing is read twice. Short
// rows are a part of a warp each, and a few at once.
#include "codegen/kernel/norm.h"
#include "codegen/kernel/rows.h"

enum {
  MOST_NUMBERS = 64, // of rows, in a thread's registers
  SOME_NUMBERS = 32, // so many leave room for others
  FEW_NUMBERS = 16,  // so many may be of several rows
  MOST_WORDS = 48,   // that a run has on their way from the beginning
  MOST_AHEAD = 16,   // of the row after the one that a thread works on
  MOST_GROUPS = 16,
  MOST_ROWS = 4,
};

// What a thread holds of a row: of the packs that are its own.
typedef struct held_row {
  LLVMValueRef index[BD_MAX_LOOPS];
  LLVMValueRef there; // whether the row counts, or NULL
  LLVMValueRef x[MOST_GROUPS], dy[MOST_GROUPS];
  LLVMValueRef *run[MOST_GROUPS]; // operands of a run
  LLVMValueRef m, r, mean_g, mean_gx;
} held_row;

typedef struct held {
  bd_gen_norm *n;
  bool gradient, run_early;
  bool ahead;                       // the next row is on its way while this one is used
  int loop, threads, rows, groups;  // threads of a row
  LLVMValueRef column[MOST_GROUPS]; // i64
  LLVMValueRef within;              // whether the last group is, or NULL
  LLVMValueRef gain[MOST_GROUPS], bias[MOST_GROUPS];
  held_row row[MOST_ROWS];
  held_row next;
  LLVMValueRef *kept; // variables with what of the next row is on its way
} held;

typedef LLVMValueRef (*held_term)(bd_gen *g, const held *h, const held_row *row, int group);

bool bd_gen_norm_run_leads(const bd_gen *g) {
  return g->kernel->run_count > 0 && g->kernel->run_op < g->kernel->first_op;
}

static bool run_follows(const bd_gen *g) {
  return g->kernel->run_count > 0 && g->kernel->run_op > g->kernel->first_op;
}

static LLVMValueRef mul(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFMul(g->b, a, b, "");
}

static LLVMValueRef sub(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFSub(g->b, a, b, "");
}

// Goes to a group of a row.
static void go_to(bd_gen *g, const held *h, const held_row *row, int group) {
  for (int i = 0; i < g->loops; i++)
    if (i != h->loop) g->index[i] = row->index[i];
  g->index[h->loop] = h->column[group];
  g->lane_loop = h->loop;
  g->lanes = g->width = g->pack;
}

static void leave(bd_gen *g) {
  g->lane_loop = -1;
  g->lanes = 1;
}

static void fetch_vectors(bd_gen *g, held *h, const held_row *row, int group) {
  go_to(g, h, row, group);
  h->gain[group] = bd_gen_fetch(g, &h->n->gain);
  if (h->n->bias.base) h->bias[group] = bd_gen_fetch(g, &h->n->bias);
  leave(g);
}

static void fetch_all_vectors(bd_gen *g, held *h) {
  for (int group = 0; group < h->groups; group++)
    fetch_vectors(g, h, &h->row[0], group);
}

static bool counts_always(const held *h, const held_row *row, int group) {
  return !row->there && !(h->within && group == h->groups - 1);
}

// Opens a branch for what is stored of a group, if it may not be there.
static bd_gen_if open_group(bd_gen *g, const held *h, const held_row *row, int group) {
  LLVMValueRef there = row->there, within = group == h->groups - 1 ? h->within : NULL;
  if (there && within) there = LLVMBuildAnd(g->b, there, within, "");
  return bd_gen_if_begin(g, there ? there : within);
}

static void fetch(bd_gen *g, held *h, held_row *row, int group) {
  bool leads = bd_gen_norm_run_leads(g);
  go_to(g, h, row, group);
  if (h->gradient || !leads) row->x[group] = bd_gen_fetch(g, &h->n->x);
  if (h->gradient && !leads) row->dy[group] = bd_gen_fetch(g, &h->n->dy);
  if (h->run_early) bd_gen_run_fetch(g, h->n->run, row->run[group]);
  leave(g);
}

// From what memory held to numbers; what a run makes of it goes to memory as well.
static void take(bd_gen *g, held *h, held_row *row, int group) {
  bool leads = bd_gen_norm_run_leads(g);
  bd_gen_run *run = h->n->run;
  go_to(g, h, row, group);
  if (row->x[group]) row->x[group] = bd_gen_fetched(g, &h->n->x, row->x[group]);
  if (row->dy[group]) row->dy[group] = bd_gen_fetched(g, &h->n->dy, row->dy[group]);
  if (leads) {
    if (!h->run_early) bd_gen_run_fetch(g, run, row->run[group]);
    bd_gen_run_compute(g, run, row->run[group]);
    *(h->gradient ? &row->dy[group] : &row->x[group]) = run->value[g->op->in[0]];
    bd_gen_if branch;
    if (!counts_always(h, row, group)) branch = open_group(g, h, row, group);
    bd_gen_run_store(g, run);
    if (!counts_always(h, row, group)) bd_gen_if_end(g, &branch);
  }
  leave(g);
}

// A thread's sum of a row's terms, f64: those of a pack in f32, neighbours first.
static LLVMValueRef add_terms(bd_gen *g, const held *h, const held_row *row, held_term term) {
  LLVMValueRef sum = NULL;
  for (int group = 0; group < h->groups; group++) {
    go_to(g, h, row, group);
    LLVMValueRef part = bd_gen_join_pack(g, term(g, h, row, group), bd_gen_plus);
    leave(g);
    if (h->within && group == h->groups - 1)
      part = LLVMBuildSelect(g->b, h->within, part, bd_gen_real_like(part, 0.0), "");
    part = LLVMBuildFPExt(g->b, part, bd_gen_f64(g), "");
    sum = sum ? bd_gen_plus(g, sum, part) : part;
  }
  return sum;
}

// The means of what a row's threads hold, f64.
static void join(bd_gen *g, const held *h, int count, LLVMValueRef *sums, const char *memory,
                 bool written_again) {
  int lanes = h->threads < BD_GEN_LANES ? h->threads : BD_GEN_LANES;
  for (int distance = lanes / 2; distance; distance /= 2)
    for (int i = 0; i < count; i++)
      sums[i] = bd_gen_plus(g, sums[i], bd_gen_from_lane(g, sums[i], distance));
  if (h->threads > BD_GEN_LANES) bd_gen_join_blocks(g, count, sums, memory, written_again);
  double share = 1.0 / (double)g->loop[h->loop].extent;
  for (int i = 0; i < count; i++)
    sums[i] = mul(g, sums[i], bd_gen_real_like(sums[i], share));
}

static LLVMValueRef x_itself(bd_gen *g, const held *h, const held_row *row, int group) {
  (void)g, (void)h;
  return row->x[group];
}

static LLVMValueRef centered(bd_gen *g, const held *h, const held_row *row, int group) {
  LLVMValueRef x = row->x[group];
  return h->n->centered ? sub(g, x, bd_gen_splat(g, row->m)) : x;
}

static LLVMValueRef normalized(bd_gen *g, const held *h, const held_row *row, int group) {
  return mul(g, centered(g, h, row, group), bd_gen_splat(g, row->r));
}

static LLVMValueRef square(bd_gen *g, const held *h, const held_row *row, int group) {
  LLVMValueRef d = centered(g, h, row, group);
  return mul(g, d, d);
}

static LLVMValueRef gain_of(bd_gen *g, const held *h, int group) {
  return bd_gen_norm_gain(g, h->n, bd_gen_fetched(g, &h->n->gain, h->gain[group]));
}

static LLVMValueRef scaled_dy(bd_gen *g, const held *h, const held_row *row, int group) {
  return mul(g, row->dy[group], gain_of(g, h, group));
}

static LLVMValueRef dy_by_x(bd_gen *g, const held *h, const held_row *row, int group) {
  return mul(g, scaled_dy(g, h, row, group), normalized(g, h, row, group));
}

// A number of the whole row.
static void store_of_row(bd_gen *g, const held *h, const held_row *row, const bd_access *access,
                         LLVMValueRef value) {
  bd_gen_if branch;
  for (int i = 0; i < g->loops; i++)
    g->index[i] = row->index[i];
  if (row->there) branch = bd_gen_if_begin(g, row->there);
  bd_gen_store(g, access, value);
  if (row->there) bd_gen_if_end(g, &branch);
}

// For gain and bias of a row beside its own numbers.
static bool has_room(const bd_gen *g, const held *h) {
  return h->groups * g->pack <= SOME_NUMBERS;
}

static void find_statistics(bd_gen *g, held *h) {
  bd_gen_norm *n = h->n;
  LLVMValueRef sums[MOST_ROWS];
  double eps = bd_op_real(g->op, "eps", 1e-5);
  if (n->centered) {
    for (int i = 0; i < h->rows; i++)
      sums[i] = add_terms(g, h, &h->row[i], x_itself);
    join(g, h, h->rows, sums, "sums", false);
    for (int i = 0; i < h->rows; i++)
      h->row[i].m = bd_gen_to_f32(g, sums[i]);
  }
  // Not before, or ptxas puts these reads before some of the row's own.
  if (h->groups > 1 && has_room(g, h)) fetch_all_vectors(g, h);
  for (int i = 0; i < h->rows; i++)
    sums[i] = add_terms(g, h, &h->row[i], square);
  join(g, h, h->rows, sums, "squares", !n->centered);
  for (int i = 0; i < h->rows; i++) {
    held_row *row = &h->row[i];
    LLVMValueRef variance = LLVMBuildFAdd(g->b, sums[i], bd_gen_real_like(sums[i], eps), "");
    row->r = bd_gen_reciprocal_root(g, bd_gen_to_f32(g, variance));
    if (n->centered) store_of_row(g, h, row, &n->mean, row->m);
    store_of_row(g, h, row, &n->rstd, row->r);
  }
}

static void find_means(bd_gen *g, held *h) {
  bool centered = h->n->centered;
  int count = 0;
  LLVMValueRef sums[2 * MOST_ROWS];
  for (int i = 0; i < h->rows; i++) {
    if (centered) sums[count++] = add_terms(g, h, &h->row[i], scaled_dy);
    sums[count++] = add_terms(g, h, &h->row[i], dy_by_x);
  }
  join(g, h, count, sums, "sums", true);
  for (int i = 0; i < h->rows; i++) {
    held_row *row = &h->row[i];
    if (centered) row->mean_g = bd_gen_to_f32(g, sums[2 * i]);
    row->mean_gx = bd_gen_to_f32(g, sums[centered ? 2 * i + 1 : i]);
  }
}

static LLVMValueRef result(bd_gen *g, const held *h, const held_row *row, int group) {
  const bd_gen_norm *n = h->n;
  LLVMValueRef y = normalized(g, h, row, group);
  if (!h->gradient) {
    y = mul(g, y, gain_of(g, h, group));
    return n->bias.base ? bd_gen_plus(g, y, bd_gen_fetched(g, &n->bias, h->bias[group])) : y;
  }
  LLVMValueRef d = scaled_dy(g, h, row, group);
  if (n->centered) d = sub(g, d, bd_gen_splat(g, row->mean_g));
  d = sub(g, d, mul(g, y, bd_gen_splat(g, row->mean_gx)));
  return mul(g, d, bd_gen_splat(g, row->r));
}

// To memory, or to the run that reads it, or both.
static void give(bd_gen *g, held *h, held_row *row, int group) {
  bd_gen_norm *n = h->n;
  bool follows = run_follows(g);
  bd_gen_if branch;
  if (!h->gradient && h->groups > 1 && !has_room(g, h)) fetch_vectors(g, h, row, group);
  go_to(g, h, row, group);
  LLVMValueRef y = result(g, h, row, group);
  if (follows) {
    n->run->value[g->op->out[0]] = bd_gen_rounded(g, n->x.dtype, y);
    if (!h->run_early) bd_gen_run_fetch(g, n->run, row->run[group]);
    bd_gen_run_compute(g, n->run, row->run[group]);
  }
  if (!counts_always(h, row, group)) branch = open_group(g, h, row, group);
  if (!follows || g->kernel->keeps) bd_gen_store(g, &n->y, y);
  if (follows) bd_gen_run_store(g, n->run);
  if (!counts_always(h, row, group)) bd_gen_if_end(g, &branch);
  leave(g);
}

static void each_group(bd_gen *g, held *h, void (*action)(bd_gen *, held *, held_row *, int)) {
  for (int i = 0; i < h->rows; i++)
    for (int group = 0; group < h->groups; group++)
      action(g, h, &h->row[i], group);
}

// The rows of this warp or block from number `first` on, which there is.
static void open_rows(bd_gen *g, held *h, LLVMValueRef first, LLVMValueRef items) {
  int beside = h->threads < BD_GEN_LANES ? BD_GEN_LANES / h->threads : 1;
  for (int i = 0; i < h->rows; i++) {
    held_row *row = &h->row[i];
    LLVMValueRef number = LLVMBuildNSWAdd(g->b, first, bd_gen_long(g, (int64_t)i * beside), "");
    if (beside > 1) {
      LLVMValueRef part = LLVMBuildURem(g->b, g->thread, bd_gen_long(g, BD_GEN_LANES), "");
      part = LLVMBuildUDiv(g->b, part, bd_gen_long(g, h->threads), "");
      number = LLVMBuildNSWAdd(g->b, number, part, "");
    }
    row->there = NULL;
    if (beside > 1 || i) {
      row->there = LLVMBuildICmp(g->b, LLVMIntSLT, number, items, "");
      number = LLVMBuildSelect(g->b, row->there, number, first, "");
    }
    bd_gen_take_item(g, &h->n->nest, number);
    for (int k = 0; k < g->loops; k++)
      row->index[k] = g->index[k];
    if (h->gradient) {
      if (h->n->centered) row->m = bd_gen_load(g, &h->n->mean);
      row->r = bd_gen_load(g, &h->n->rstd);
    }
  }
}

// Variable `number` of those that hold what is on its way.
static void keep(bd_gen *g, held *h, int number, LLVMValueRef value) {
  LLVMValueRef *variable = &h->kept[number];
  if (!*variable) *variable = bd_gen_variable(g, LLVMTypeOf(value));
  LLVMBuildStore(g->b, value, *variable);
}

// What the next variable holds, of the type of `like`; nothing for nothing.
static LLVMValueRef kept(bd_gen *g, const held *h, int *count, LLVMValueRef like) {
  if (!like) return NULL;
  return LLVMBuildLoad2(g->b, LLVMTypeOf(like), h->kept[(*count)++], "");
}

// Asks for all of row number `number`, which stays on its way in variables.
static void fetch_next(bd_gen *g, held *h, LLVMValueRef number) {
  held_row *next = &h->next;
  int count = 0;
  bd_gen_take_item(g, &h->n->nest, number);
  for (int k = 0; k < g->loops; k++)
    next->index[k] = g->index[k];
  for (int group = 0; group < h->groups; group++) {
    fetch(g, h, next, group);
    if (next->x[group]) keep(g, h, count++, next->x[group]);
    for (int i = 0; h->run_early && i < g->kernel->in_count; i++)
      if (next->run[group][i]) keep(g, h, count++, next->run[group][i]);
  }
}

// What was asked for as the next row is this one's.
static void take_next(bd_gen *g, held *h) {
  held_row *row = &h->row[0], *next = &h->next;
  int count = 0;
  for (int group = 0; group < h->groups; group++) {
    row->x[group] = kept(g, h, &count, next->x[group]);
    for (int i = 0; h->run_early && i < g->kernel->in_count; i++)
      row->run[group][i] = kept(g, h, &count, next->run[group][i]);
  }
}

// A branch, not a second read of the last row: ptxas puts the reads of a branch before the
// exchanges of this row, others behind them.
static void fetch_rows(bd_gen *g, held *h, const bd_gen_for *loop, LLVMValueRef items) {
  if (!h->ahead) {
    each_group(g, h, fetch);
    return;
  }
  take_next(g, h);
  LLVMValueRef number = LLVMBuildNSWAdd(g->b, loop->index, loop->step, "");
  LLVMValueRef more = LLVMBuildICmp(g->b, LLVMIntSLT, number, items, "");
  for (int i = 0; h->kept[i]; i++)
    LLVMBuildStore(g->b, LLVMGetPoison(LLVMGetAllocatedType(h->kept[i])), h->kept[i]);
  bd_gen_if branch = bd_gen_if_begin(g, more);
  fetch_next(g, h, number);
  bd_gen_if_end(g, &branch);
}

static void do_rows(bd_gen *g, held *h, const bd_gen_for *loop, LLVMValueRef items) {
  open_rows(g, h, loop->index, items);
  fetch_rows(g, h, loop, items);
  if (h->gradient && h->groups > 1) fetch_all_vectors(g, h);
  each_group(g, h, take);
  if (h->gradient)
    find_means(g, h);
  else
    find_statistics(g, h);
  each_group(g, h, give);
}

// Registers that a thread's rows take at once: `numbers` of rows, what it reads of gain and bias,
// and `early` words of a run that follows.
static int64_t held_words(const bd_gen *g, const held *h, int64_t numbers, int64_t early) {
  enum { OF_ROW = 8 }; // for each row beside the first
  const bd_gen_norm *n = h->n;
  int64_t words = bd_dtype_bytes(n->gain.dtype) * (n->bias.base ? 2 : 1) * h->groups * g->pack / 4;
  if (!h->gradient && !has_room(g, h)) words = 0;
  return numbers + words + (h->run_early && run_follows(g) ? early : 0) + (h->rows - 1) * OF_ROW;
}

// Blocks that a multiprocessor is to have room for, whose threads hold so much.
static int room_for(const bd_gen *g, const held *h, int64_t words) {
  const bd_gen_run *run = h->n->run;
  if (words + (run ? FEW_NUMBERS : 0) > MOST_NUMBERS + SOME_NUMBERS) return 1;
  if (words > SOME_NUMBERS + FEW_NUMBERS || (run && bd_gen_run_has_dropout(g, run)))
    return BD_GEN_ROOMY_BLOCKS;
  bool runs = run && !h->ahead; // registers of what is ahead are the run's at other times
  return words > SOME_NUMBERS || (runs && words > FEW_NUMBERS) ? BD_GEN_ROOMY_BLOCKS + 1
                                                               : BD_GEN_AHEAD_BLOCKS;
}

static void make_room_for_run(bd_gen *g, const held *h, held_row *row) {
  for (int group = 0; group < h->groups; group++)
    row->run[group] = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, g->kernel->in_count + 1);
}

// Whether memory can be at work on the next row while the threads of this one wait for each other:
// where registers hold what is on its way, `words` of each operand. Of rows that are a warp's,
// which has no barriers, ptxas would put off the reads to the end.
static void plan_ahead(bd_gen *g, held *h, int64_t words) {
  const bd_gen_norm *n = h->n;
  int operands = bd_gen_norm_run_leads(g) ? 0 : 1;
  if (h->run_early) operands += bd_gen_run_operands(g, n->run);
  h->ahead =
      !h->gradient && h->threads > BD_GEN_LANES && operands && operands * words <= MOST_AHEAD;
  if (!h->ahead) return;
  h->kept = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, operands * h->groups + 1);
  if (n->run) make_room_for_run(g, h, &h->next);
}

// How rows are laid out over threads and registers; false where they do not fit.
static bool lay_out(bd_gen *g, held *h) {
  const bd_gen_norm *n = h->n;
  const bd_gen_loop *loop = &g->loop[h->loop];
  if (!g->cuda || g->pack == 1 || g->uneven || loop->split) return false;
  int64_t packs = loop->extent / g->pack, kinds = h->gradient ? 2 : 1;
  h->threads = n->nest.whole_block ? g->threads : bd_gen_row_threads(g, h->loop);
  int64_t groups = (packs + h->threads - 1) / h->threads, numbers = groups * g->pack * kinds;
  if (groups > MOST_GROUPS || numbers > MOST_NUMBERS) return false;
  h->groups = (int)groups;
  h->rows = n->nest.whole_block || 2 * numbers > FEW_NUMBERS ? 1 : (int)(FEW_NUMBERS / numbers);
  if (h->rows > MOST_ROWS) h->rows = MOST_ROWS;
  int64_t words = groups * g->pack * bd_dtype_bytes(n->x.dtype) / 4; // of an operand
  int64_t early = n->run ? h->rows * words * bd_gen_run_operands(g, n->run) : 0;
  // Beside a gradient's numbers the polynomials of erf leave no registers for what was read early.
  h->run_early = n->run && early <= MOST_WORDS && !(h->gradient && bd_gen_run_has_erf(g, n->run));
  for (int i = 0; n->run && i < h->rows; i++)
    make_room_for_run(g, h, &h->row[i]);
  plan_ahead(g, h, words);
  g->room = room_for(g, h, held_words(g, h, h->rows * numbers, early));
  return true;
}

// Makes one loop of rows that lie one after another in all that is read and written.
static void merge_rows(bd_gen *g, bd_gen_norm *n) {
  enum { OWN = 7 };
  bd_access *own[OWN] = {&n->x, &n->dy, &n->gain, &n->bias, &n->y, &n->mean, &n->rstd};
  int most = OWN + (n->run ? bd_gen_run_access_count(g, n->run) : 0), count = 0;
  bd_access **all = BD_NEW_ARRAY(g->ctx->arena, bd_access *, most);
  for (int i = 0; i < OWN; i++)
    if (own[i]->base) all[count++] = own[i];
  if (n->run) count += bd_gen_run_accesses(g, n->run, all + count);
  bd_gen_nest *nest = &n->nest;
  while (nest->outer_count > 1) {
    int inner = nest->outer[nest->outer_count - 1], outer = nest->outer[nest->outer_count - 2];
    if (!bd_gen_can_merge(g, outer, inner, count, all)) return;
    bd_gen_merge_loops(g, outer, inner);
    for (int i = 0; i < count; i++)
      all[i]->stride[outer] = 0;
    nest->outer[nest->outer_count-- - 2] = inner;
  }
}

// A thread's columns are the same in all rows.
static void open_columns(bd_gen *g, held *h) {
  LLVMValueRef lane = g->thread;
  if (h->threads < g->threads) lane = LLVMBuildURem(g->b, lane, bd_gen_long(g, h->threads), "");
  g->lane = lane;
  for (int i = 0; i < h->groups; i++) {
    LLVMValueRef at = LLVMBuildNSWAdd(g->b, lane, bd_gen_long(g, (int64_t)i * h->threads), "");
    h->column[i] = LLVMBuildNSWMul(g->b, at, bd_gen_long(g, g->pack), "");
  }
  int64_t extent = g->loop[h->loop].extent, last = h->groups - 1;
  if (extent % ((int64_t)h->threads * g->pack) == 0) return;
  LLVMValueRef column = h->column[last];
  h->within = LLVMBuildICmp(g->b, LLVMIntSLT, column, bd_gen_long(g, extent), "");
  h->column[last] = LLVMBuildSelect(g->b, h->within, column, bd_gen_long(g, 0), "");
}

bool bd_gen_norm_in_registers(bd_gen *g, bd_gen_norm *n) {
  held *h = BD_NEW(g->ctx->arena, held);
  *h = (held){.n = n, .loop = n->nest.lane_loop};
  h->gradient = g->op->kind == BD_OP_LAYERNORM_DX || g->op->kind == BD_OP_RMSNORM_DX;
  if (!lay_out(g, h)) return false;
  merge_rows(g, n);
  open_columns(g, h);
  if (h->groups == 1) fetch_vectors(g, h, &(held_row){.there = NULL}, 0);
  bool block = n->nest.whole_block;
  int beside = h->threads < BD_GEN_LANES ? BD_GEN_LANES / h->threads : 1;
  LLVMValueRef at_once = bd_gen_long(g, (int64_t)h->rows * beside);
  LLVMValueRef from = LLVMBuildNSWMul(g->b, block ? g->block : g->chunk, at_once, "");
  LLVMValueRef step = LLVMBuildNSWMul(g->b, block ? g->blocks : g->warps, at_once, "");
  LLVMValueRef items = bd_gen_item_count(g, g->range, &n->nest);
  if (h->ahead) {
    bd_gen_if some = bd_gen_if_begin(g, LLVMBuildICmp(g->b, LLVMIntSLT, from, items, ""));
    fetch_next(g, h, from);
    bd_gen_if_end(g, &some);
  }
  bd_gen_for loop = bd_gen_for_begin(g, from, items, step);
  do_rows(g, h, &loop, items);
  g->rolled = true;
  bd_gen_for_end(g, &loop);
  g->rolled = false;
  return true;
}
