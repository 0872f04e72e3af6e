#include "tests/unit/codegen/support_fused_norms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

// Rows that fill packs, cut over ranks and whole, that are taken element by element, that begin and
// end within a pack, and that a block shares; some are longer than a warp's packs.
static const fused_case cases[] = {
    {3, {FUSED_SPLIT_ROWS, 5, 72}, true},
    {2, {FUSED_SPLIT_ROWS, 33}, true},
    {2, {5, 1003}, false},
    {2, {3, 2304}, false},
    {3, {6, 4, 200}, false},
};

typedef struct builder {
  bd_ctx *ctx;
  const fused_case *from;
  bd_dtype real;
  fused_function *f;
} builder;

static bd_id rows(const builder *b) {
  bd_type type = {.dtype = b->real, .rank = b->from->rank};
  for (int d = 0; d < type.rank; d++)
    type.dims[d] = b->from->dims[d];
  return bd_function_add_param(b->ctx, b->f->function, NULL, type);
}

static bd_id columns(const builder *b) {
  bd_type type = {.dtype = b->real, .rank = 1, .dims = {b->from->dims[b->from->rank - 1]}};
  return bd_function_add_param(b->ctx, b->f->function, NULL, type);
}

static bd_id statistics(const builder *b) {
  bd_type type = {.dtype = BD_F32, .rank = b->from->rank - 1};
  for (int d = 0; d < type.rank; d++)
    type.dims[d] = b->from->dims[d];
  return bd_function_add_param(b->ctx, b->f->function, NULL, type);
}

static void build(const builder *b, bd_op_kind kind, int count, const bd_id *in, bd_id *out) {
  const bd_attr dropout[] = {bd_attr_real(b->ctx, "p", 0.3), bd_attr_int(b->ctx, "site", 5)};
  const bd_attr eps[] = {bd_attr_real(b->ctx, "eps", 1e-5)};
  bool drops = kind == BD_OP_DROPOUT, forward = kind == b->f->norm && !b->f->gradient;
  assert_int_equal(bd_build(b->ctx, b->f->function, kind, count, in, drops ? 2 : forward,
                            drops ? dropout : eps, BD_NOWHERE, out),
                   BD_OK);
}

static void build_forward(const builder *b) {
  fused_function *f = b->f;
  bool centered = f->norm == BD_OP_LAYERNORM;
  bd_id biased, dropped, out[BD_MAX_RESULTS];
  f->x = rows(b);
  f->bias = columns(b);
  f->r = rows(b);
  f->gain = columns(b);
  bd_id beta = centered ? columns(b) : BD_NO_ID;
  build(b, BD_OP_ADD, 2, (bd_id[]){f->x, f->bias}, &biased);
  build(b, BD_OP_DROPOUT, 1, &biased, &dropped);
  build(b, BD_OP_ADD, 2, (bd_id[]){dropped, f->r}, &f->sum);
  build(b, f->norm, 2 + centered, (bd_id[]){f->sum, f->gain, beta}, out);
  f->y = out[0];
  f->mean = centered ? out[1] : BD_NO_ID;
  f->rstd = out[1 + centered];
  bd_function_add_result(b->ctx, f->function, f->sum);
  for (int i = 0; i < 2 + centered; i++)
    bd_function_add_result(b->ctx, f->function, out[i]);
}

static void build_followed(const builder *b) {
  fused_function *f = b->f;
  bool centered = f->norm == BD_OP_LAYERNORM;
  bd_id out[BD_MAX_RESULTS];
  f->x = rows(b);
  f->gain = columns(b);
  bd_id beta = centered ? columns(b) : BD_NO_ID;
  f->r = rows(b);
  build(b, f->norm, 2 + centered, (bd_id[]){f->x, f->gain, beta}, out);
  f->y = out[0];
  f->mean = centered ? out[1] : BD_NO_ID;
  f->rstd = out[1 + centered];
  build(b, BD_OP_ADD, 2, (bd_id[]){f->y, f->r}, &f->sum);
  build(b, BD_OP_DROPOUT, 1, &f->sum, &f->dropped);
  for (int i = !centered; i < 2 + centered; i++)
    bd_function_add_result(b->ctx, f->function, out[i]);
  bd_function_add_result(b->ctx, f->function, f->sum);
  bd_function_add_result(b->ctx, f->function, f->dropped);
}

// The gradients of a norm's operand and weights.
static void build_gradients(const builder *b) {
  fused_function *f = b->f;
  bool centered = f->norm == BD_OP_LAYERNORM_DX;
  bd_id in[5] = {f->dy}, out[2];
  int count = 1;
  in[count++] = f->x = rows(b);
  in[count++] = f->gain = columns(b);
  if (centered) in[count++] = f->mean = statistics(b);
  in[count++] = f->rstd = statistics(b);
  build(b, f->norm, count, in, &f->dx);
  for (int i = 2; i < count - 1; i++)
    in[i] = in[i + 1];
  build(b, centered ? BD_OP_LAYERNORM_DW : BD_OP_RMSNORM_DW, count - 1, in, out);
  for (int i = 0; i <= centered; i++)
    bd_function_add_result(b->ctx, f->function, out[i]);
}

static void build_gradient(const builder *b) {
  fused_function *f = b->f;
  f->dy = rows(b);
  f->r = rows(b);
  build_gradients(b);
  build(b, BD_OP_ADD, 2, (bd_id[]){f->r, f->dx}, &f->sum);
  build(b, BD_OP_DROPOUT, 1, &f->sum, &f->dropped);
  bd_function_add_result(b->ctx, f->function, f->sum);
  bd_function_add_result(b->ctx, f->function, f->dropped);
}

static void build_led(const builder *b) {
  fused_function *f = b->f;
  f->r = rows(b);
  f->bias = columns(b);
  build(b, BD_OP_ADD, 2, (bd_id[]){f->r, f->bias}, &f->sum);
  build(b, BD_OP_DROPOUT, 1, &f->sum, &f->dy);
  build_gradients(b);
  bd_function_add_result(b->ctx, f->function, f->sum);
  bd_function_add_result(b->ctx, f->function, f->dx);
}

void fused_function_make(bd_ctx *ctx, const fused_case *from, bd_op_kind norm, bool other_side,
                         bd_dtype real, fused_function *out) {
  bool gradient = norm == BD_OP_LAYERNORM_DX || norm == BD_OP_RMSNORM_DX;
  *out = (fused_function){.norm = norm,
                          .gradient = gradient,
                          .led = gradient && other_side,
                          .followed = !gradient && other_side,
                          .bias = BD_NO_ID,
                          .mean = BD_NO_ID,
                          .dy = BD_NO_ID,
                          .y = BD_NO_ID,
                          .dropped = BD_NO_ID,
                          .dx = BD_NO_ID};
  const builder b = {ctx, from, real, out};
  bd_module *module = bd_module_create(ctx, BD_STAGE_EXEC, "m");
  module->cuda = true;
  module->mesh = (bd_mesh){.axes = 1, .size = {from->split ? KERNEL_RANKS : 1}};
  module->micro_batch = 1;
  out->module = module;
  out->function = bd_function_create(ctx, "f");
  if (out->led)
    build_led(&b);
  else if (out->followed)
    build_followed(&b);
  else if (out->gradient)
    build_gradient(&b);
  else
    build_forward(&b);
  for (bd_id v = 0; v < out->function->value_count; v++) {
    bd_value *value = &out->function->values[v];
    value->sharding = bd_sharding_replicated();
    if (from->split && value->type.dims[0] == from->dims[0]) value->sharding.at[0] = 0;
  }
  bd_module_add_function(ctx, module, out->function);
}

bool fused_function_find(bd_ctx *ctx, const fused_function *f, int *out_place,
                         bd_kernel *out_kernel) {
  const bd_prefetch *prefetch = bd_prefetch_find(ctx, f->module);
  const bd_fusion *fusion = &prefetch[0].fusion;
  bd_fused_norms norms;
  bd_fused_norm_find(ctx, f->module, 0, prefetch, &norms);
  for (int step = 0; step < fusion->step_count; step++) {
    if (norms.of[step].norm < 0) continue;
    *out_place = step;
    return bd_fused_norm_kernel(ctx, f->module, f->function, fusion, &norms.of[step], step, 0,
                                out_kernel);
  }
  return false;
}

static void add_kernel(fused_set *s, bd_kernel *kernel) {
  kernel->number = s->kernels++;
  assert_int_equal(bd_kernel_set_add(s->ctx, s->set, kernel), BD_OK);
}

static void add_apart(fused_set *s, fused_run *r) {
  bd_fusion fusion;
  bd_fuse(s->ctx, r->f.module, r->f.function, &fusion);
  int last = r->f.led ? 1 : fusion.step_count - 1;
  for (int i = 0; i < 2; i++) {
    assert_true(bd_kernel_of_step(s->ctx, r->f.module, r->f.function, &fusion, i ? last : 0, true,
                                  0, &r->apart[i]));
    add_kernel(s, &r->apart[i]);
  }
}

static void add_run(fused_set *s, const fused_case *from, bd_op_kind norm, bool other_side,
                    bd_dtype real, bool apart) {
  assert_true(s->count < FUSED_MAX_RUNS);
  fused_run *r = &s->runs[s->count++];
  r->from = from;
  r->real = real;
  fused_function_make(s->ctx, from, norm, other_side, real, &r->f);
  int place;
  if (apart) add_apart(s, r);
  assert_true(fused_function_find(s->ctx, &r->f, &place, &r->together));
  add_kernel(s, &r->together);
}

void fused_set_open(fused_set *s, bool apart) {
  static const bd_op_kind norms[] = {BD_OP_LAYERNORM, BD_OP_RMSNORM, BD_OP_LAYERNORM_DX,
                                     BD_OP_RMSNORM_DX};
  static const bd_dtype types[] = {BD_F32, BD_BF16, BD_F16};
  s->ctx = bd_ctx_create();
  assert_int_equal(bd_kernel_set_create(s->ctx, true, "sm_80", &s->set), BD_OK);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (size_t n = 0; n < sizeof norms / sizeof *norms; n++)
      for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int other_side = 0; other_side < 2 && (types[t] != BD_F16 || c == 0); other_side++)
          add_run(s, &cases[c], norms[n], other_side, types[t], apart);
  char folder[] = "/tmp/bd_kernels_XXXXXX";
  assert_non_null(mkdtemp(folder));
  s->folder = bd_intern_z(s->ctx, folder);
  s->stem = bd_intern_f(s->ctx, "%s/k", folder);
  assert_int_equal(bd_kernel_set_write(s->ctx, s->set, s->stem), BD_OK);
}

void fused_set_close(fused_set *s) {
  bd_kernel_set_destroy(s->set);
  kernel_remove_outputs(s->ctx, s->folder, s->stem);
  bd_ctx_destroy(s->ctx);
}
