// Normalizations that take a run of pointwise ops along: the bits of two kernels in the emulator,
// in place as well, and only where the places of values in memory allow it.
#include "ir/element.h"
#include "tests/unit/codegen/support_fused_norms.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_VALUES = 32 };

typedef struct fixture {
  fused_set all;
  void *library;
} fixture;

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  *state = f;
  fused_set_open(&f->all, true);
  f->library = gpu_load(f->all.ctx, f->all.stem);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  dlclose(f->library);
  fused_set_close(&f->all);
  test_free(f);
  return 0;
}

static int64_t bytes_of(const fused_function *f, bd_id id) {
  const bd_value *value = &f->function->values[id];
  bd_type local = bd_local_type(&f->module->mesh, &value->sharding, &value->type, 1);
  return bd_type_elements(&local, 1) * bd_dtype_bytes(local.dtype);
}

// Memory of one rank: a buffer per value, of random numbers.
static void fill(bd_ctx *ctx, const fused_function *f, uint64_t seed, char **buffers) {
  assert_true(f->function->value_count <= MAX_VALUES);
  for (bd_id v = 0; v < f->function->value_count; v++) {
    bd_dtype dtype = f->function->values[v].type.dtype;
    int64_t bytes = bytes_of(f, v);
    buffers[v] = bd_arena_alloc(ctx->arena, (size_t)bytes);
    for (int64_t i = 0; i < bytes / bd_dtype_bytes(dtype); i++)
      bd_element_write(dtype, buffers[v], i, 4 * kernel_next_real(&seed) - 2);
  }
}

static void run(const fixture *f, const fused_run *r, const bd_kernel *kernel, emulate_grid grid,
                char *const *buffers, int rank) {
  int64_t range[2 * BD_MAX_RANK];
  const bd_rt_random random = {
      .seed = 0x1234567890abcdef, .step = 9, .first_sample = 40, .call = 3};
  char *arguments[MAX_VALUES];
  for (int d = 0; d < r->from->rank; d++)
    bd_local_range(&r->f.module->mesh, &r->f.function->values[r->f.sum].sharding, d,
                   r->from->dims[d], rank, &range[2 * d], &range[2 * d + 1]);
  for (int i = 0; i < kernel->in_count; i++)
    arguments[i] = buffers[kernel->in[i]];
  for (int i = 0; i < kernel->out_count; i++)
    arguments[kernel->in_count + i] = buffers[kernel->out[i]];
  assert_int_equal(bd_kernel_set_launch(f->all.set, kernel->number).range_count, 2 * r->from->rank);
  gpu_launch(f->all.ctx, f->all.set, f->library, kernel, grid, arguments, range, &random);
}

static void compare(const fused_run *r, char *const *apart, char *const *together,
                    const char *how) {
  const bd_kernel *k = &r->together;
  for (int i = 0; i < k->out_count; i++)
    if (memcmp(apart[k->out[i]], together[k->out[i]], (size_t)bytes_of(&r->f, k->out[i])))
      fail_msg("%s of %s [%d x .. x %d]%s: result %d has other bits %s",
               bd_op_get_info(r->f.norm)->name, bd_dtype_name(r->real), (int)r->from->dims[0],
               (int)r->from->dims[r->from->rank - 1], r->from->split ? " split" : "", i, how);
}

// What is made last.
static bd_id result_of(const fused_function *f) {
  if (f->led) return f->dx;
  return f->gradient || f->followed ? f->dropped : f->y;
}

// A result in an operand's place, but where padding would be the operand's.
static void take(const fused_run *r, char **buffers, bd_id out, bd_id in) {
  if (!r->from->split) buffers[out] = buffers[in];
}

static void check(const fixture *f, const fused_run *r, uint64_t seed, int rank) {
  static const emulate_grid grids[] = {{.blocks = 1}, {.blocks = 13, .descending = true}};
  char *apart[MAX_VALUES], *together[MAX_VALUES], *in_place[MAX_VALUES];
  fill(f->all.ctx, &r->f, seed, apart);
  run(f, r, &r->apart[0], grids[0], apart, rank);
  run(f, r, &r->apart[1], grids[0], apart, rank);
  for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
    fill(f->all.ctx, &r->f, seed, together);
    run(f, r, &r->together, grids[g], together, rank);
    compare(r, apart, together, "in one kernel");
    fill(f->all.ctx, &r->f, seed, in_place);
    take(r, in_place, r->f.sum, r->f.gradient && !r->f.led ? r->f.dy : r->f.r);
    take(r, in_place, result_of(&r->f), r->f.x);
    run(f, r, &r->together, grids[g], in_place, rank);
    compare(r, apart, in_place, "in place");
  }
}

static void one_kernel_gives_the_bits_of_two(void **state) {
  const fixture *f = *state;
  for (int i = 0; i < f->all.count; i++)
    for (int rank = 0; rank < (f->all.runs[i].from->split ? KERNEL_RANKS : 1); rank++)
      check(f, &f->all.runs[i], 17 + (uint64_t)i, rank);
}

static int results_of(const fused_function *f) {
  bool centered = f->mean != BD_NO_ID;
  if (f->gradient) return f->led ? 3 : 2;
  return f->followed && centered ? 5 : 3 + (centered && !f->followed);
}

// What the run behind a norm reads of it, unless others do.
static void the_result_of_a_norm_stays_in_registers(void **state) {
  const fixture *f = *state;
  for (int i = 0; i < f->all.count; i++) {
    const fused_run *r = &f->all.runs[i];
    const bd_kernel *k = &r->together;
    bool writes = bd_ids_find(k->out, k->out_count, r->f.gradient ? r->f.dx : r->f.y) >= 0;
    bool inner = r->f.gradient ? !r->f.led : r->f.followed && r->f.mean == BD_NO_ID;
    assert_int_equal(writes, !inner);
    assert_int_equal(k->out_count, results_of(&r->f));
  }
}

static const fused_case small = {2, {8, 64}, false};
enum { ROWS = 8 * 64 * 4 };

static void place(const fused_function *f, bd_id id, int64_t offset_bytes) {
  f->function->values[id].segment = BD_SEGMENT_WORKSPACE;
  f->function->values[id].offset_bytes = offset_bytes;
}

// The step that does both, or -1, with two values at these places of the workspace.
static int place_of(bd_op_kind norm, bool other_side, bd_id (*first)(const fused_function *),
                    int64_t at, bd_id (*second)(const fused_function *), int64_t other) {
  bd_ctx *ctx = bd_ctx_create();
  fused_function f;
  bd_kernel kernel;
  int step = -1;
  fused_function_make(ctx, &small, norm, other_side, BD_F32, &f);
  place(&f, first(&f), at);
  place(&f, second(&f), other);
  if (!fused_function_find(ctx, &f, &step, &kernel)) step = -1;
  bd_ctx_destroy(ctx);
  return step;
}

static int place_with(bd_op_kind norm, bd_id (*first)(const fused_function *), int64_t at,
                      bd_id (*second)(const fused_function *), int64_t other) {
  return place_of(norm, false, first, at, second, other);
}

static bd_id x_of(const fused_function *f) {
  return f->x;
}
static bd_id bias_of(const fused_function *f) {
  return f->bias;
}
static bd_id gain_of(const fused_function *f) {
  return f->gain;
}
static bd_id y_of(const fused_function *f) {
  return f->y;
}
static bd_id mean_of(const fused_function *f) {
  return f->mean;
}
static bd_id rstd_of(const fused_function *f) {
  return f->rstd;
}
static bd_id sum_of(const fused_function *f) {
  return f->sum;
}
static bd_id dropped_of(const fused_function *f) {
  return f->dropped;
}
static bd_id dx_of(const fused_function *f) {
  return f->dx;
}
static bd_id dy_of(const fused_function *f) {
  return f->dy;
}

static void rows_may_take_the_place_of_rows_only(void **state) {
  (void)state;
  const bd_op_kind forward = BD_OP_LAYERNORM, gradient = BD_OP_LAYERNORM_DX;
  assert_int_equal(place_with(forward, x_of, 0, y_of, ROWS), 0);
  assert_int_equal(place_with(forward, x_of, 0, y_of, 0), 0);
  assert_int_equal(place_with(forward, x_of, 0, sum_of, 0), 0);
  assert_int_equal(place_with(forward, x_of, 0, y_of, 256), -1);
  assert_int_equal(place_with(forward, x_of, 256, sum_of, 0), -1);
  assert_int_equal(place_with(forward, x_of, 0, mean_of, 0), -1);
  assert_int_equal(place_with(forward, bias_of, 0, y_of, 0), -1);
  assert_int_equal(place_with(forward, y_of, 0, rstd_of, 256), -1);
  assert_int_equal(place_with(gradient, gain_of, 0, sum_of, 0), -1);
  assert_int_equal(place_with(gradient, rstd_of, 0, dropped_of, 0), -1);
}

// So with a run that makes dy.
static void what_makes_the_gradient_comes_along(void **state) {
  (void)state;
  const bd_op_kind gradient = BD_OP_LAYERNORM_DX;
  assert_int_equal(place_of(gradient, true, x_of, 0, dx_of, 0), 0);
  assert_int_equal(place_of(gradient, true, x_of, 0, dx_of, 256), -1);
  assert_int_equal(place_of(gradient, true, bias_of, 0, dx_of, 0), -1);
  assert_int_equal(place_of(gradient, true, dy_of, 0, dx_of, 0), -1);
  assert_int_equal(place_of(gradient, true, gain_of, 0, dy_of, 0), -1);
}

// And with a run that reads y.
static void what_reads_the_result_comes_along(void **state) {
  (void)state;
  const bd_op_kind forward = BD_OP_LAYERNORM;
  assert_int_equal(place_of(forward, true, x_of, 0, y_of, 0), 0);
  assert_int_equal(place_of(forward, true, x_of, 0, dropped_of, 0), 0);
  assert_int_equal(place_of(forward, true, x_of, 0, dropped_of, 256), -1);
  assert_int_equal(place_of(forward, true, y_of, 0, sum_of, 0), -1);
  assert_int_equal(place_of(forward, true, gain_of, 0, sum_of, 0), -1);
}

// Between dx and the sum stand the gradients of the weights, which read dy.
static void the_kernel_stands_where_nothing_is_in_its_way(void **state) {
  (void)state;
  const bd_op_kind gradient = BD_OP_RMSNORM_DX;
  assert_int_equal(place_with(gradient, dy_of, 0, sum_of, ROWS), 0);
  assert_int_equal(place_with(gradient, dy_of, 0, sum_of, 0), 2);
  assert_int_equal(place_with(gradient, dy_of, 0, sum_of, 256), -1);
}

// Behind dx, since the sum takes the place of dy, and the gradient of the gain a place of its own
// or that of the gain.
static void what_is_written_in_between_is_not_read_later(void **state) {
  (void)state;
  for (int over = 0; over < 2; over++) {
    bd_ctx *ctx = bd_ctx_create();
    fused_function f;
    bd_kernel kernel;
    int step = -1;
    fused_function_make(ctx, &small, BD_OP_LAYERNORM_DX, false, BD_F32, &f);
    place(&f, f.dy, 0);
    place(&f, f.sum, 0);
    place(&f, f.gain, ROWS);
    place(&f, f.function->results[0], over ? ROWS : 2 * ROWS);
    assert_int_equal(fused_function_find(ctx, &f, &step, &kernel), !over);
    assert_int_equal(step, over ? -1 : 2);
    bd_ctx_destroy(ctx);
  }
}

static void what_others_read_is_left_apart(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  fused_function f;
  bd_kernel kernel;
  int step;
  fused_function_make(ctx, &small, BD_OP_LAYERNORM_DX, false, BD_F32, &f);
  assert_true(fused_function_find(ctx, &f, &step, &kernel));
  bd_function_add_result(ctx, f.function, f.dx);
  assert_false(fused_function_find(ctx, &f, &step, &kernel));
  bd_ctx_destroy(ctx);
}

// Means of as many rows as a row has elements look like a bias.
static void what_reads_means_is_left_apart(void **state) {
  (void)state;
  static const fused_case square = {2, {64, 64}, false};
  bd_ctx *ctx = bd_ctx_create();
  fused_function f;
  bd_kernel kernel;
  int step;
  fused_function_make(ctx, &square, BD_OP_LAYERNORM, true, BD_F32, &f);
  bd_op *sum = &f.function->ops[f.function->values[f.sum].producer];
  assert_true(fused_function_find(ctx, &f, &step, &kernel));
  sum->in[1] = f.mean;
  assert_false(fused_function_find(ctx, &f, &step, &kernel));
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_kernel_gives_the_bits_of_two),
      cmocka_unit_test(the_result_of_a_norm_stays_in_registers),
      cmocka_unit_test(rows_may_take_the_place_of_rows_only),
      cmocka_unit_test(what_makes_the_gradient_comes_along),
      cmocka_unit_test(what_reads_the_result_comes_along),
      cmocka_unit_test(the_kernel_stands_where_nothing_is_in_its_way),
      cmocka_unit_test(what_is_written_in_between_is_not_read_later),
      cmocka_unit_test(what_others_read_is_left_apart),
      cmocka_unit_test(what_reads_means_is_left_apart),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
