// The kernel of a loss that makes its gradient in the place of the logits: the reference's numbers
// on every grid, the bits of three kernels where these add as it does; and where it may be.
#include "codegen/fused_loss.h"
#include "ir/element.h"
#include "ir/print.h"
#include "tests/unit/codegen/support_gpu.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct loss_case {
  int rank;
  int64_t dims[3]; // rows, then the vocabulary
  bd_dtype real;
  bool split; // the first dimension over three ranks
  bool far;   // logits that are far apart, some of them -inf
} loss_case;

// Rows that fill packs, that begin and end within one, that are taken by elements, and, from 2048
// elements on, by blocks: of 512 threads, of 768.
static const loss_case cases[] = {
    {3, {7, 3, 72}, BD_BF16, true, false},
    {2, {7, 1003}, BD_F32, true, true},
    {2, {5, 1003}, BD_F16, false, false},
    {3, {2, 5, 50}, BD_F32, false, false},
    {2, {4, 33}, BD_BF16, false, true},
    {2, {5, 2304}, BD_BF16, false, false},
    {2, {7, 5001}, BD_BF16, true, true},
    {2, {6, 5001}, BD_F32, false, false},
    {2, {5, 32771}, BD_F32, false, false},
};
enum { CASES = sizeof cases / sizeof *cases, BLOCK_ROW = 2048, MAX_BUFFERS = 8 };

// Of one function: logits, targets, dloss -> lse, loss, the gradient.
typedef struct loss_run {
  const loss_case *from;
  bd_module *module;
  bd_function *function;
  bd_id logits, targets, dloss, lse, loss, gradient;
  bd_kernel apart[3], together;
} loss_run;

typedef struct fixture {
  bd_ctx *ctx;
  loss_run runs[CASES];
  bd_kernel_set *set;
  const char *folder, *stem;
  void *library;
  int kernels;
} fixture;

static bd_id parameter(bd_ctx *ctx, loss_run *r, bd_dtype dtype, int rank) {
  bd_type type = {.dtype = dtype, .rank = rank};
  memcpy(type.dims, r->from->dims, (size_t)rank * sizeof *type.dims);
  return bd_function_add_param(ctx, r->function, NULL, type);
}

static bd_id build(bd_ctx *ctx, loss_run *r, bd_op_kind kind, int count, const bd_id *in) {
  bd_id out;
  assert_int_equal(bd_build(ctx, r->function, kind, count, in, 0, NULL, BD_NOWHERE, &out), BD_OK);
  return out;
}

static void add_kernel(fixture *f, bd_kernel *kernel) {
  kernel->number = f->kernels;
  f->kernels += kernel->parts;
  assert_int_equal(bd_kernel_set_add(f->ctx, f->set, kernel), BD_OK);
}

static void make_run(fixture *f, const loss_case *from, loss_run *r) {
  *r = (loss_run){.from = from, .module = bd_module_create(f->ctx, BD_STAGE_SPMD, "m")};
  r->module->mesh = (bd_mesh){.axes = 1, .size = {from->split ? KERNEL_RANKS : 1}};
  r->module->micro_batch = 1;
  r->module->cuda = true;
  r->function = bd_function_create(f->ctx, "f");
  r->logits = parameter(f->ctx, r, from->real, from->rank);
  r->targets = parameter(f->ctx, r, BD_I32, from->rank - 1);
  r->dloss = parameter(f->ctx, r, BD_F32, 0);
  r->lse = build(f->ctx, r, BD_OP_LSE, 1, &r->logits);
  r->loss = build(f->ctx, r, BD_OP_XENT, 3, (bd_id[]){r->logits, r->targets, r->lse});
  r->gradient =
      build(f->ctx, r, BD_OP_XENT_GRAD, 4, (bd_id[]){r->logits, r->targets, r->lse, r->dloss});
  for (bd_id v = 0; v < r->function->value_count; v++) {
    bd_value *value = &r->function->values[v];
    value->sharding = bd_sharding_replicated();
    if (from->split && value->type.rank > 0) value->sharding.at[0] = 0;
  }
  bd_fusion fusion;
  bd_fuse(f->ctx, r->module, r->function, &fusion);
  for (int step = 0; step < 3; step++) {
    assert_true(bd_kernel_of_step(f->ctx, r->module, r->function, &fusion, step, true, 0,
                                  &r->apart[step]));
    if (step == 1) r->together = r->apart[1];
    add_kernel(f, &r->apart[step]);
  }
  bd_kernel_add_gradient(f->ctx, &r->together);
  add_kernel(f, &r->together);
}

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  *state = f;
  f->ctx = bd_ctx_create();
  assert_int_equal(bd_kernel_set_create(f->ctx, true, "sm_80", &f->set), BD_OK);
  for (int i = 0; i < CASES; i++)
    make_run(f, &cases[i], &f->runs[i]);
  char folder[] = "/tmp/bd_kernels_XXXXXX";
  assert_non_null(mkdtemp(folder));
  f->folder = bd_intern_z(f->ctx, folder);
  f->stem = bd_intern_f(f->ctx, "%s/k", folder);
  assert_int_equal(bd_kernel_set_write(f->ctx, f->set, f->stem), BD_OK);
  f->library = gpu_load(f->ctx, f->stem);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  dlclose(f->library);
  bd_kernel_set_destroy(f->set);
  kernel_remove_outputs(f->ctx, f->folder, f->stem);
  bd_ctx_destroy(f->ctx);
  test_free(f);
  return 0;
}

static bd_type local_type(const loss_run *r, bd_id id) {
  const bd_value *value = &r->function->values[id];
  return bd_local_type(&r->module->mesh, &value->sharding, &value->type, 1);
}

static int64_t bytes_of(const loss_run *r, bd_id id) {
  bd_type type = local_type(r, id);
  return bd_type_elements(&type, 1) * bd_dtype_bytes(type.dtype);
}

// The rows of one rank that are there; what follows them is padding.
typedef struct rank_rows {
  int64_t range[2 * BD_MAX_RANK];
  int64_t rows, padded, vocabulary;
} rank_rows;

static rank_rows rows_of(const loss_run *r, int rank) {
  const bd_value *logits = &r->function->values[r->logits];
  rank_rows all = {.rows = 1, .padded = 1};
  const int last = r->from->rank - 1;
  for (int d = 0; d <= last; d++)
    bd_local_range(&r->module->mesh, &logits->sharding, d, r->from->dims[d], rank,
                   &all.range[2 * d], &all.range[2 * d + 1]);
  bd_type local = local_type(r, r->logits);
  for (int d = 0; d < last; d++) {
    all.rows *= all.range[2 * d + 1];
    all.padded *= local.dims[d];
  }
  all.vocabulary = local.dims[last];
  return all;
}

static double logit_of(const loss_run *r, uint64_t *seed) {
  double u = kernel_next_real(seed);
  if (!r->from->far) return 8 * u - 4;
  return u < 0.05 ? -INFINITY : 400 * u - 200;
}

// Targets at both ends of a row and anywhere; of no row, and of none of the vocabulary.
static double target_of(int64_t row, int64_t vocabulary, uint64_t *seed) {
  switch (row % 6) {
  case 0:
    return 0;
  case 1:
    return (double)(vocabulary - 1);
  case 2:
    return -1;
  case 3:
    return (double)vocabulary;
  default:
    return floor(kernel_next_real(seed) * (double)vocabulary);
  }
}

// Memory of one rank: a buffer per value. Padding is NaN, which a kernel must not read.
static void fill(const fixture *f, const loss_run *r, const rank_rows *all, char **buffers) {
  uint64_t seed = 23;
  for (bd_id v = 0; v < r->function->value_count; v++) {
    bd_dtype dtype = r->function->values[v].type.dtype;
    int64_t count = bytes_of(r, v) / bd_dtype_bytes(dtype);
    buffers[v] = bd_arena_alloc(f->ctx->arena, (size_t)bytes_of(r, v));
    for (int64_t i = 0; i < count; i++)
      bd_element_write(dtype, buffers[v], i, bd_dtype_is_float(dtype) ? NAN : 1 << 30);
  }
  for (int64_t row = 0; row < all->rows; row++) {
    double target = target_of(row, all->vocabulary, &seed);
    bd_element_write(BD_I32, buffers[r->targets], row, target);
    for (int64_t i = 0; i < all->vocabulary; i++) {
      double x = logit_of(r, &seed);
      if ((double)i == target && isinf(x)) x = 0; // its loss would be infinite
      bd_element_write(r->from->real, buffers[r->logits], row * all->vocabulary + i, x);
    }
  }
  bd_element_write(BD_F32, buffers[r->dloss], 0, 0.75);
}

static void launch(const fixture *f, const bd_kernel *kernel, emulate_grid grid,
                   char *const *buffers, const loss_run *r, const rank_rows *all) {
  char *arguments[MAX_BUFFERS];
  int count = 0;
  for (int i = 0; i < kernel->in_count; i++)
    arguments[count++] = buffers[kernel->in[i]];
  for (int i = 0; i < kernel->out_count; i++)
    arguments[count++] = buffers[kernel->out[i]];
  if (kernel->with_gradient) arguments[count++] = buffers[r->dloss];
  gpu_launch(f->ctx, f->set, f->library, kernel, grid, arguments, all->range, NULL);
}

// The numbers of a row, in double.
static double row_lse(const loss_run *r, const char *logits, int64_t row, int64_t vocabulary) {
  double top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < vocabulary; i++)
    top = fmax(top, bd_element_read(r->from->real, logits, row * vocabulary + i));
  for (int64_t i = 0; i < vocabulary; i++)
    sum += exp(bd_element_read(r->from->real, logits, row * vocabulary + i) - top);
  return top + log(sum);
}

static void check_near(const loss_run *r, const char *what, double got, double want, double most) {
  if (!(fabs(got - want) <= most))
    fail_msg("%s of %s [%d x .. x %d]: %.9g instead of %.9g", what, bd_dtype_name(r->from->real),
             (int)r->from->dims[0], (int)r->from->dims[r->from->rank - 1], got, want);
}

static void check_numbers(const loss_run *r, const rank_rows *all, char *const *before,
                          char *const *after) {
  double loss = 0, step = r->from->real == BD_F32 ? 1e-6 : ldexp(1, -8);
  for (int64_t row = 0; row < all->rows; row++) {
    const int64_t v = all->vocabulary;
    double lse = row_lse(r, before[r->logits], row, v), own = 0;
    int64_t target = (int64_t)bd_element_read(BD_I32, before[r->targets], row);
    if (target >= 0 && target < v)
      own = lse - bd_element_read(r->from->real, before[r->logits], row * v + target);
    loss += own;
    check_near(r, "a row's loss", bd_element_read(BD_F32, after[r->lse], row), own,
               1e-5 + 1e-6 * fabs(own));
    for (int64_t i = 0; i < v; i++) {
      double x = bd_element_read(r->from->real, before[r->logits], row * v + i);
      double want = target < 0 ? 0 : (exp(x - lse) - (i == target)) * 0.75;
      double got = bd_element_read(r->from->real, after[r->logits], row * v + i);
      check_near(r, "a gradient", got, want, 1e-6 + 3e-5 * fabs(want) + step * fabs(want));
    }
  }
  check_near(r, "the loss", bd_element_read(BD_F32, after[r->loss], 0), loss,
             1e-5 + 2e-6 * fabs(loss));
}

static void check_same(const loss_run *r, const char *what, const char *a, const char *b,
                       int64_t bytes) {
  if (memcmp(a, b, (size_t)bytes))
    fail_msg("%s of %s [%d x .. x %d] has other bits", what, bd_dtype_name(r->from->real),
             (int)r->from->dims[0], (int)r->from->dims[r->from->rank - 1]);
}

static void check_bits_apart(const fixture *f, const loss_run *r, const rank_rows *all,
                             char *const *together) {
  char *apart[MAX_BUFFERS];
  fill(f, r, all, apart);
  for (int step = 0; step < 3; step++)
    launch(f, &r->apart[step], (emulate_grid){.blocks = 3}, apart, r, all);
  check_same(r, "the loss", apart[r->loss], together[r->loss], bytes_of(r, r->loss));
  check_same(r, "the gradient", apart[r->gradient], together[r->logits],
             all->rows * all->vocabulary * bd_dtype_bytes(r->from->real));
}

static void check_rank(const fixture *f, const loss_run *r, int rank) {
  static const emulate_grid grids[] = {{.blocks = 1}, {.blocks = 13, .descending = true}};
  const rank_rows all = rows_of(r, rank);
  char *before[MAX_BUFFERS], *after[MAX_BUFFERS], *again[MAX_BUFFERS];
  assert_true(r->function->value_count <= MAX_BUFFERS);
  fill(f, r, &all, before);
  fill(f, r, &all, after);
  launch(f, &r->together, (emulate_grid){.blocks = 3}, after, r, &all);
  check_numbers(r, &all, before, after);
  const int64_t rows = all.rows * all.vocabulary * bd_dtype_bytes(r->from->real);
  check_same(r, "padding", before[r->logits] + rows, after[r->logits] + rows,
             bytes_of(r, r->logits) - rows);
  for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
    fill(f, r, &all, again);
    launch(f, &r->together, grids[g], again, r, &all);
    for (bd_id v = 0; v < r->function->value_count; v++)
      check_same(r, "a result on another grid", after[v], again[v], bytes_of(r, v));
  }
  if (all.vocabulary < BLOCK_ROW) check_bits_apart(f, r, &all, after);
}

static void the_loss_and_its_gradient_are_the_references(void **state) {
  const fixture *f = *state;
  for (int i = 0; i < CASES; i++)
    for (int rank = 0; rank < (cases[i].split ? KERNEL_RANKS : 1); rank++)
      check_rank(f, &f->runs[i], rank);
}

// A loss of one function; %s: another reader of the logits, what the gradient is given, where it lies.
static const char text[] =
    "braid exec \"linear\" {\n"
    "  mesh [1] stages 1 micro_batch 8 cuda\n"
    "  weight @w : f32[64,10] stored \"w\" [64,10] init normal 0.125 decay\n"
    "  func @loss(%%x: f32[B,64] sharded [-] at boundary+0, %%t: i32[B] sharded [-] at boundary+0, "
    "%%w: f32[64,10] sharded [-] at weights+0 weight) peer @loss.grad {\n"
    "    %%logits = contract(%%x, %%w) {rule=\"bc,cv->bv\"} split [-] : f32[B,10] sharded [-] at "
    "tape+0\n"
    "    %%lse = lse(%%logits) split [-] : f32[B] sharded [-] at tape+512\n"
    "    %%sum = xent(%%logits, %%t, %%lse) split [-] : f32[] sharded [-] at %s\n"
    "%s"
    "    save %%x, %%t, %%logits, %%lse\n"
    "    return %%%s\n"
    "  }\n"
    "  func @loss.grad(%%x: f32[B,64] sharded [-] at boundary+0, %%t: i32[B] sharded [-] at "
    "boundary+0, %%logits: f32[B,10] sharded [-] at tape+0, %%lse: f32[B] sharded [-] at tape+512, "
    "%%d.sum: f32[] sharded [-] at boundary+0) backward peer @loss restores 4 {\n"
    "    %%half = scale(%%d.sum) {value=0.5} split [-] : f32[] sharded [-] at workspace+0\n"
    "    %%d.logits = xent_grad(%%logits, %%t, %%lse, %%%s) split [-] : f32[B,10] sharded [-] at %s\n"
    "    %%d.w = contract(%%x, %%d.logits) {rule=\"bc,bv->cv\"} split [-] : f32[64,10] sharded [-] "
    "at gradients+0\n"
    "    return %%d.w of 2\n"
    "  }\n"
    "  main(%%x: f32[B,64] sharded [-] at boundary+0 reals, %%y: i32[B] sharded [-] at "
    "boundary+2048 targets, %%w: f32[64,10] sharded [-] at weights+0 weight, %%dloss: f32[] sharded "
    "[-] at boundary+2304) {\n"
    "    %%loss = call @loss(%%x, %%y, %%w) stage 0 : f32[] sharded [-] at boundary+2560\n"
    "    %%d.w = call @loss.grad(%%dloss) {of=0} stage 0 : f32[64,10] sharded [-] at gradients+0\n"
    "    return %%loss, %%d.w of @w\n"
    "  }\n"
    "}\n";

typedef struct placement {
  const char *sum_at, *reader, *result, *given, *at;
} placement;

// Whether the loss makes its gradient; then both functions say so.
static bool is_fused(const placement *p) {
  bd_ctx *ctx = bd_ctx_create();
  const char *source =
      bd_intern_f(ctx, text, p->sum_at, p->reader, p->result, p->given, p->at);
  bd_module *module;
  bd_status status = bd_module_parse(ctx, "loss", source, strlen(source), &module);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  const bd_prefetch *prefetch = bd_prefetch_find(ctx, module);
  bd_fused_losses forward, backward;
  bd_fused_loss_find(ctx, module, 0, prefetch, &forward);
  bd_fused_loss_find(ctx, module, 1, prefetch, &backward);
  const bool any = forward.any;
  assert_int_equal(forward.taken[1], any);
  assert_int_equal(forward.lse[2], any ? 1 : -1);
  assert_int_equal(backward.taken[1], any);
  assert_false(backward.any);
  bd_ctx_destroy(ctx);
  return any;
}

static void a_gradient_is_made_where_nothing_else_is_asked(void **state) {
  (void)state;
  const placement plain = {"boundary+0", "", "sum", "d.sum", "tape+0"};
  assert_true(is_fused(&plain));
  placement other = plain;
  other.at = "tape+1024";
  assert_false(is_fused(&other));
  other.at = "workspace+256";
  assert_false(is_fused(&other));
  other = plain;
  other.given = "half";
  assert_false(is_fused(&other));
  static const char total[] = " split [-] : f32[] sharded [-] at workspace+256\n"
                              "    %total = add(%sum, %size) split [-] : f32[] sharded [-] at "
                              "boundary+0\n";
  for (int i = 0; i < 2; i++) {
    other = (placement){"workspace+0", NULL, "total", "d.sum", "tape+0"};
    char reader[256];
    snprintf(reader, sizeof reader, "    %%size = reduce_sum(%%%s) {rule=\"%s->\"}%s",
             i ? "lse" : "logits", i ? "b" : "bv", total);
    other.reader = reader;
    assert_false(is_fused(&other));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_loss_and_its_gradient_are_the_references),
      cmocka_unit_test(a_gradient_is_made_where_nothing_else_is_asked),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
