// Generated kernels against the reference evaluation of each op, whole and cut over three ranks
// with padding. Padding holds NaN, so a kernel that reads it is found out.
#include "codegen/kernel/kernel.h"
#include "ir/interpret.h"
#include "runtime/braid_rt_abi.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

enum { RANKS = 3, MAX_CASES = 256 };

typedef void (*kernel_function)(char *const *buffers, const int64_t *range,
                                const bd_rt_random *random, const float *scalars, int64_t chunk);
typedef int64_t (*chunks_function)(const int64_t *range);

typedef struct test_case {
  bd_op_kind kind;
  const char
      *shapes; // operands separated by spaces; 'i' before integers; 'p' before positive reals
  const char *attributes; // "name=value ..."; the value's form gives the kind
  const char *letters;    // loops to split in turn
} test_case;

static const test_case cases[] = {
    {BD_OP_ADD, "7,5,40 7,5,40", "", "AC"},
    {BD_OP_ADD, "7,5,40 40", "", "ABC"},
    {BD_OP_SUB, "7,33 7,33", "", "B"},
    {BD_OP_MUL, "7,1300 1300", "", "A"},
    {BD_OP_DIV, "7,33 p7,33", "", "A"},
    {BD_OP_NEG, "9001", "", "A"},
    {BD_OP_SCALE, "7,33", "value=0.37", "A"},
    {BD_OP_OFFSET, "7,33", "value=-1.5", "A"},
    {BD_OP_EXP, "3,700", "", "B"},
    {BD_OP_LOG, "p3,700", "", ""},
    {BD_OP_SQRT, "p3,700", "", ""},
    {BD_OP_TANH, "3,700", "", ""},
    {BD_OP_SIGMOID, "3,700", "", ""},
    {BD_OP_RELU, "3,700", "", ""},
    {BD_OP_RELU_GRAD, "3,700 3,700", "", ""},
    {BD_OP_GELU, "3,700", "", "A"},
    {BD_OP_GELU_GRAD, "3,700 3,700", "", ""},
    {BD_OP_GELU_ERF, "3,700", "", ""},
    {BD_OP_GELU_ERF_GRAD, "3,700 3,700", "", ""},
    {BD_OP_SILU, "3,700", "", ""},
    {BD_OP_SILU_GRAD, "3,700 3,700", "", ""},
    {BD_OP_DROPOUT, "7,5,40", "p=0.3 site=5", "ABC"},
    {BD_OP_DROPOUT, "50", "p=0.3 site=6", "A"},
    {BD_OP_REDUCE_SUM, "7,5,40", "rule=ABC->C", "ABC"},
    {BD_OP_REDUCE_SUM, "7,5,40", "rule=ABC->AB", "ABC"},
    {BD_OP_REDUCE_SUM, "7,5,40", "rule=abc->ca", "abc"},
    {BD_OP_REDUCE_SUM, "7,5,40", "rule=ABC->B", "ABC"},
    {BD_OP_BROADCAST, "40", "rule=B->AB dims=7,40", "AB"},
    {BD_OP_BROADCAST, "7", "rule=A->AB dims=7,40", "AB"},
    {BD_OP_PERMUTE, "7,5,40", "rule=abc->cab", "abc"},
    {BD_OP_PERMUTE, "7,5,4,10", "rule=abcd->acbd", "abcd"},
    {BD_OP_RESHAPE, "7,5,40", "dims=7,200", "A"},
    {BD_OP_RESHAPE, "7,5,40", "dims=7,5,4,10", "AB"},
    {BD_OP_SLICE, "7,5,40", "dim=1 start=1 size=3", "AC"},
    {BD_OP_SLICE, "7,5,40", "dim=2 start=3 size=20", "AB"},
    {BD_OP_PAD, "7,3,40", "dim=1 start=1 size=5", "AC"},
    {BD_OP_PAD, "7,5,20", "dim=2 start=3 size=40", "AB"},
    {BD_OP_LAYERNORM, "7,5,72 72 72", "eps=1e-5", "AB"},
    {BD_OP_LAYERNORM_DX, "7,5,72 7,5,72 72 7,5 p7,5", "", "AB"},
    {BD_OP_LAYERNORM_DW, "7,5,72 7,5,72 7,5 p7,5", "", "ABc"},
    {BD_OP_RMSNORM, "7,5,72 72", "eps=1e-6", "AB"},
    {BD_OP_RMSNORM_DX, "7,5,72 7,5,72 72 p7,5", "", "AB"},
    {BD_OP_RMSNORM_DW, "7,5,72 7,5,72 p7,5", "", "ABc"},
    {BD_OP_EMBED, "50,24 i7,5", "", "vABc"},
    {BD_OP_ROPE, "4,9,5,16", "theta=10000.0", "bh"},
    {BD_OP_ROPE, "4,9,5,16", "theta=10000.0 inverse=1 factor=8.0 original_positions=64.0", "b"},
    {BD_OP_LSE, "7,5,50", "", "ABv"},
    {BD_OP_XENT, "7,5,50 i7,5 7,5", "", "ABv"},
    {BD_OP_XENT_GRAD, "7,5,50 i7,5 7,5 .", "", "ABv"},
};

typedef struct run {
  const test_case *from;
  int loop; // split, or -1
  bd_module *module;
  bd_function *function;
  bd_kernel kernel;
  bd_index_map map;
} run;

typedef struct fixture {
  bd_ctx *ctx;
  int count;
  run runs[MAX_CASES];
  run fused;
  void *library;
} fixture;

static double next_real(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 40) / 16777216.0;
}

static bd_attr parse_attr(bd_ctx *ctx, const char *name, const char *value) {
  char *end;
  if (strchr(value, '>')) return bd_attr_string(ctx, name, bd_intern_z(ctx, value));
  if (!strcmp(name, "dims")) {
    int64_t *dims = BD_NEW_ARRAY(ctx->arena, int64_t, BD_MAX_RANK);
    int count = 0;
    for (end = (char *)(uintptr_t)value; *end; end += *end == ',')
      dims[count++] = strtoll(end, &end, 10);
    return bd_attr_ints(ctx, name, count, dims);
  }
  if (strpbrk(value, ".e")) return bd_attr_real(ctx, name, strtod(value, &end));
  return bd_attr_int(ctx, name, strtoll(value, &end, 10));
}

static int parse_attrs(bd_ctx *ctx, const char *text, bd_attr *out) {
  char copy[200], *save = NULL;
  assert_true(strlen(text) < sizeof copy);
  memcpy(copy, text, strlen(text) + 1);
  int count = 0;
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *equals = strchr(word, '=');
    *equals = 0;
    out[count++] = parse_attr(ctx, bd_intern_z(ctx, word), equals + 1);
  }
  return count;
}

static int parse_params(bd_ctx *ctx, bd_function *function, const char *shapes, bd_id *out) {
  int count = 0;
  for (const char *at = shapes; *at; at += *at == ' ') {
    bd_type type = {.dtype = *at == 'i' ? BD_I32 : BD_F32};
    if (*at == 'i' || *at == 'p' || *at == '.') at++;
    while (*at && *at != ' ') {
      char *end;
      type.dims[type.rank++] = strtoll(at, &end, 10);
      at = end + (*end == ',');
    }
    out[count++] = bd_function_add_param(ctx, function, NULL, type);
  }
  return count;
}

static void add_run(fixture *f, const test_case *from, char letter) {
  bd_ctx *ctx = f->ctx;
  run *r = &f->runs[f->count];
  *r = (run){.from = from, .loop = -1, .module = bd_module_create(ctx, BD_STAGE_SPMD, "m")};
  r->module->mesh = (bd_mesh){.axes = 1, .size = {letter ? RANKS : 1}};
  r->module->micro_batch = 1;
  r->function = bd_function_create(ctx, "f");
  bd_id in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
  bd_attr attrs[8];
  int attr_count = parse_attrs(ctx, from->attributes, attrs);
  int in_count = parse_params(ctx, r->function, from->shapes, in);
  bd_status status =
      bd_build(ctx, r->function, from->kind, in_count, in, attr_count, attrs, BD_NOWHERE, out);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  bd_op *op = &r->function->ops[0];
  bd_type types[BD_MAX_RESULTS];
  assert_int_equal(bd_op_infer(ctx, r->function, op, &r->map, types), BD_OK);
  int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  if (letter) {
    r->loop = bd_index_find(&r->map, letter);
    assert_true(r->loop >= 0);
    split[0] = (int8_t)r->loop;
  }
  for (int i = 0; i < op->in_count; i++)
    r->function->values[in[i]].sharding = bd_split_operand(&r->map, &r->module->mesh, split, i);
  for (int i = 0; i < op->out_count; i++) {
    bd_function_add_result(ctx, r->function, op->out[i]);
    r->function->values[op->out[i]].sharding = bd_split_result(&r->map, &r->module->mesh, split, i);
  }
  bd_fusion fusion;
  bd_fuse(ctx, r->module, r->function, &fusion);
  assert_true(
      bd_kernel_of_step(ctx, r->module, r->function, &fusion, 0, false, f->count, &r->kernel));
  f->count++;
}

static void spawn(const char *const *arguments) {
  pid_t child;
  int status = 1;
  char *const *list = (char *const *)(uintptr_t)arguments;
  assert_int_equal(posix_spawnp(&child, arguments[0], NULL, NULL, list, environ), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void remove_outputs(bd_ctx *ctx, const char *folder, const char *stem) {
  if (getenv("BD_KEEP")) return;
  for (const char *const *end = (const char *const[]){"ll", "s", "ptx", "so", NULL}; *end; end++)
    unlink(bd_intern_f(ctx, "%s.%s", stem, *end));
  rmdir(folder);
}

// Accumulates into its result, which in the test is also its first operand.
static void add_fused(fixture *f) {
  bd_ctx *ctx = f->ctx;
  run *r = &f->fused;
  r->module = bd_module_create(ctx, BD_STAGE_SPMD, "m");
  r->module->mesh = (bd_mesh){.axes = 1, .size = {1}};
  r->module->micro_batch = 1;
  r->function = bd_function_create(ctx, "f");
  bd_id in[2], sum, gate, product;
  assert_int_equal(parse_params(ctx, r->function, "7,5 5", in), 2);
  assert_false(bd_build(ctx, r->function, BD_OP_ADD, 2, in, 0, NULL, BD_NOWHERE, &sum));
  assert_false(bd_build(ctx, r->function, BD_OP_GELU, 1, &sum, 0, NULL, BD_NOWHERE, &gate));
  assert_false(bd_build(ctx, r->function, BD_OP_MUL, 2, (bd_id[]){gate, in[0]}, 0, NULL, BD_NOWHERE,
                        &product));
  bd_function_add_result(ctx, r->function, product);
  for (bd_id v = 0; v < r->function->value_count; v++)
    r->function->values[v].sharding = bd_sharding_replicated();
  bd_fusion fusion;
  bd_fuse(ctx, r->module, r->function, &fusion);
  assert_int_equal(fusion.step_count, 1);
  assert_true(
      bd_kernel_of_step(ctx, r->module, r->function, &fusion, 0, false, MAX_CASES, &r->kernel));
  r->kernel.accumulate[0] = true;
}

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  *state = f;
  f->ctx = bd_ctx_create();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    add_run(f, &cases[i], 0);
    for (const char *letter = cases[i].letters; *letter; letter++)
      add_run(f, &cases[i], *letter);
  }
  add_fused(f);
  bd_kernel_set *set;
  assert_int_equal(bd_kernel_set_create(f->ctx, false, "", &set), BD_OK);
  for (int i = 0; i < f->count; i++)
    assert_int_equal(bd_kernel_set_add(f->ctx, set, &f->runs[i].kernel), BD_OK);
  assert_int_equal(bd_kernel_set_add(f->ctx, set, &f->fused.kernel), BD_OK);
  char folder[] = "/tmp/bd_kernels_XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *stem = bd_intern_f(f->ctx, "%s/k", folder);
  bd_status status = bd_kernel_set_write(f->ctx, set, stem);
  if (status != BD_OK) bd_diags_print(f->ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  bd_kernel_set_destroy(set);
  const char *object = bd_intern_f(f->ctx, "%s.so", stem);
  spawn((const char *[]){"cc", "-shared", "-o", object, bd_intern_f(f->ctx, "%s.s", stem), NULL});
  f->library = dlopen(object, RTLD_NOW);
  assert_non_null(f->library);
  remove_outputs(f->ctx, folder, stem);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  dlclose(f->library);
  bd_ctx_destroy(f->ctx);
  test_free(f);
  return 0;
}

// One rank's part of a tensor, or the part's place in the whole.
typedef struct part {
  bd_type local;
  int64_t start[BD_MAX_RANK], count[BD_MAX_RANK];
} part;

static part part_of(const run *r, bd_id id, int rank) {
  const bd_value *v = &r->function->values[id];
  const bd_mesh *mesh = &r->module->mesh;
  part p = {.local = bd_local_type(mesh, &v->sharding, &v->type, 1)};
  for (int d = 0; d < v->type.rank; d++)
    bd_local_range(mesh, &v->sharding, d, v->type.dims[d], rank, &p.start[d], &p.count[d]);
  return p;
}

// The logical element of local element `at`; -1 in padding.
static int64_t logical_element(const part *p, const bd_type *whole, int64_t at) {
  int64_t index[BD_MAX_RANK], element = 0;
  for (int d = whole->rank - 1; d >= 0; d--) {
    index[d] = at % p->local.dims[d];
    at /= p->local.dims[d];
    if (index[d] >= p->count[d]) return -1;
  }
  for (int d = 0; d < whole->rank; d++)
    element = element * whole->dims[d] + p->start[d] + index[d];
  return element;
}

static bd_tensor make_operand(bd_ctx *ctx, const run *r, int operand, uint64_t *state) {
  bd_tensor t = {.type = r->function->values[r->function->ops[0].in[operand]].type};
  int64_t count = bd_type_elements(&t.type, 1);
  t.data = BD_NEW_ARRAY(ctx->arena, double, count);
  const char *shape = r->from->shapes;
  for (int i = 0; i < operand; i++)
    shape = strchr(shape, ' ') + 1;
  for (int64_t i = 0; i < count; i++) {
    double u = next_real(state);
    double x = t.type.dtype == BD_I32
                   ? floor(u * 50) - (r->from->kind != BD_OP_EMBED && u > 0.9 ? 99 : 0)
               : *shape == 'p' ? 0.05 + 3 * u
                               : 8 * u - 4;
    t.data[i] = (double)(float)x;
  }
  return t;
}

static void fix_operands(const run *r, bd_tensor *in, bd_arena *arena, const bd_random_key *key) {
  if (r->from->kind != BD_OP_XENT && r->from->kind != BD_OP_XENT_GRAD) return;
  bd_op op = {.kind = BD_OP_LSE};
  bd_tensor lse = in[2];
  bd_op_get_eval(BD_OP_LSE)(&op, in, &lse, key, arena);
  for (int64_t i = 0; i < bd_type_elements(&lse.type, 1); i++)
    lse.data[i] = (double)(float)lse.data[i];
}

static char *local_buffer(bd_ctx *ctx, const run *r, bd_id id, int rank, const bd_tensor *whole) {
  part p = part_of(r, id, rank);
  int64_t count = bd_type_elements(&p.local, 1);
  float *reals = BD_NEW_ARRAY(ctx->arena, float, count);
  int32_t *ints = (int32_t *)reals;
  for (int64_t i = 0; i < count; i++) {
    int64_t element = whole ? logical_element(&p, &whole->type, i) : -1;
    if (p.local.dtype == BD_I32)
      ints[i] = element < 0 ? 1 << 30 : (int32_t)whole->data[element];
    else
      reals[i] = element < 0 ? NAN : (float)whole->data[element];
  }
  return (char *)reals;
}

static void fill_range(const run *r, int rank, int64_t *range) {
  for (int i = 0; i < r->map.loops; i++) {
    int64_t extent = r->map.loop[i].extent;
    range[2 * i] = 0;
    range[2 * i + 1] = extent;
    if (i != r->loop) continue;
    bd_sharding on_first = {.at = {0, -1, -1, -1}};
    bd_local_range(&r->module->mesh, &on_first, 0, extent, rank, &range[2 * i], &range[2 * i + 1]);
  }
}

static double combined(int how, double a, double b) {
  if (how == BD_PARTIAL_LSE) return fmax(a, b) + log1p(exp(-fabs(a - b)));
  return how == BD_PARTIAL_SUM ? a + b : b;
}

static void take_result(const run *r, bd_id id, int rank, const float *buffer, bd_tensor *whole,
                        bool *seen) {
  part p = part_of(r, id, rank);
  int how = r->function->values[id].sharding.at[0];
  int64_t count = bd_type_elements(&p.local, 1);
  for (int64_t i = 0; i < count; i++) {
    int64_t e = logical_element(&p, &whole->type, i);
    if (e < 0) continue;
    whole->data[e] = seen[e] ? combined(how, whole->data[e], buffer[i]) : buffer[i];
    seen[e] = true;
  }
}

static void compare(const run *r, const bd_tensor *want, const bd_tensor *got, int result) {
  int64_t count = bd_type_elements(&want->type, 1);
  double scale = 1;
  for (int64_t i = 0; i < count; i++)
    scale = fmax(scale, fabs(want->data[i]));
  for (int64_t i = 0; i < count; i++) {
    double difference = fabs(want->data[i] - got->data[i]);
    double bound = 3e-6 * fabs(want->data[i]) + 3e-7 * scale;
    if (difference <= bound) continue;
    fail_msg("%s (%s; %s) split at loop %d: result %d element %ld is %.9g, not %.9g",
             bd_op_get_info(r->from->kind)->name, r->from->shapes, r->from->attributes, r->loop,
             result, (long)i, got->data[i], want->data[i]);
  }
}

static void run_rank(fixture *f, const run *r, int rank, const bd_tensor *in,
                     const bd_rt_random *random, bd_tensor *got, bool **seen) {
  const bd_kernel *k = &r->kernel;
  char *buffers[BD_MAX_OPERANDS + BD_MAX_RESULTS];
  int64_t range[2 * BD_MAX_LOOPS];
  fill_range(r, rank, range);
  for (int i = 0; i < k->in_count; i++)
    buffers[i] = local_buffer(f->ctx, r, k->in[i], rank, &in[k->in[i]]);
  for (int i = 0; i < k->out_count; i++)
    buffers[k->in_count + i] = local_buffer(f->ctx, r, k->out[i], rank, NULL);
  kernel_function body;
  chunks_function chunks;
  *(void **)&body = dlsym(f->library, bd_intern_f(f->ctx, "bdk_%d", k->number));
  *(void **)&chunks = dlsym(f->library, bd_intern_f(f->ctx, "bdk_%d_chunks", k->number));
  assert_true(body && chunks);
  int64_t count = chunks(range);
  for (int64_t chunk = count - 1; chunk >= 0; chunk--)
    body(buffers, range, random, NULL, chunk);
  for (int i = 0; i < k->out_count; i++)
    take_result(r, k->out[i], rank, (float *)buffers[k->in_count + i], &got[i], seen[i]);
}

static void run_case(fixture *f, const run *r, uint64_t seed) {
  const bd_op *op = &r->function->ops[0];
  bd_random_key key = {.seed = 0x1234567890abcdef, .step = 9, .first_sample = 40, .call = 3};
  bd_rt_random random = {.seed = key.seed, .step = 9, .first_sample = 40, .call = 3};
  bd_tensor in[BD_MAX_OPERANDS], want[BD_MAX_RESULTS], got[BD_MAX_RESULTS];
  bool *seen[BD_MAX_RESULTS];
  for (int i = 0; i < op->in_count; i++)
    in[i] = make_operand(f->ctx, r, i, &seed);
  fix_operands(r, in, f->ctx->arena, &key);
  for (int i = 0; i < op->out_count; i++) {
    want[i].type = got[i].type = r->function->values[op->out[i]].type;
    int64_t count = bd_type_elements(&want[i].type, 1);
    want[i].data = BD_NEW_ARRAY(f->ctx->arena, double, count);
    got[i].data = BD_NEW_ARRAY(f->ctx->arena, double, count);
    seen[i] = BD_NEW_ARRAY(f->ctx->arena, bool, count);
  }
  bd_op_get_eval(op->kind)(op, in, want, &key, f->ctx->arena);
  for (int rank = 0; rank < (r->loop < 0 ? 1 : RANKS); rank++)
    run_rank(f, r, rank, in, &random, got, seen);
  for (int i = 0; i < op->out_count; i++)
    compare(r, &want[i], &got[i], i);
}

static void kernels_agree_with_the_reference(void **state) {
  fixture *f = *state;
  for (int i = 0; i < f->count; i++)
    run_case(f, &f->runs[i], 17 + (uint64_t)i);
}

// PTX for every kernel; assembled where the CUDA toolkit is there. Execution is tested on GPUs.
static void kernels_assemble_for_gpus(void **state) {
  fixture *f = *state;
  bd_kernel_set *set;
  assert_int_equal(bd_kernel_set_create(f->ctx, true, "sm_90", &set), BD_OK);
  for (int i = 0; i < f->count; i++)
    assert_int_equal(bd_kernel_set_add(f->ctx, set, &f->runs[i].kernel), BD_OK);
  char folder[] = "/tmp/bd_kernels_XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *stem = bd_intern_f(f->ctx, "%s/k", folder);
  assert_int_equal(bd_kernel_set_write(f->ctx, set, stem), BD_OK);
  bd_kernel_set_destroy(set);
  const char *ptxas = "/usr/local/cuda/bin/ptxas";
  if (access(ptxas, X_OK) == 0)
    spawn((const char *[]){ptxas, "-arch=sm_90", "-O1", bd_intern_f(f->ctx, "%s.ptx", stem), "-o",
                           bd_intern_f(f->ctx, "%s.so", stem), NULL});
  remove_outputs(f->ctx, folder, stem);
}

// gelu(x + bias) * x + accumulated, written over x: one kernel, values between ops in registers.
static void a_run_of_ops_is_one_kernel_in_place(void **state) {
  fixture *f = *state;
  const bd_kernel *k = &f->fused.kernel;
  assert_int_equal(k->in_count, 2);
  assert_int_equal(k->out_count, 1);
  float x[35], bias[5], before[35];
  uint64_t seed = 3;
  for (int i = 0; i < 35; i++)
    before[i] = x[i] = (float)(4 * next_real(&seed) - 2);
  for (int i = 0; i < 5; i++)
    bias[i] = (float)next_real(&seed);
  char *buffers[] = {(char *)x, (char *)bias, (char *)x};
  int64_t range[] = {0, 7, 0, 5};
  kernel_function body;
  *(void **)&body = dlsym(f->library, bd_intern_f(f->ctx, "bdk_%d", k->number));
  assert_non_null(body);
  body(buffers, range, NULL, NULL, 0);
  for (int i = 0; i < 35; i++) {
    double s = (double)before[i] + bias[i % 5];
    double u = sqrt(2 / M_PI) * (s + 0.044715 * s * s * s);
    double want = 0.5 * s * (1 + tanh(u)) * before[i] + (double)before[i];
    assert_true(fabs(want - x[i]) < 2e-6);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_agree_with_the_reference),
      cmocka_unit_test(kernels_assemble_for_gpus),
      cmocka_unit_test(a_run_of_ops_is_one_kernel_in_place),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
