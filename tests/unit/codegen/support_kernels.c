#include "tests/unit/codegen/support_kernels.h"

#include "runtime/half.h"
#include <fcntl.h>
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

const kernel_case kernel_cases[] = {
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
    {BD_OP_REDUCE_SUM, "3,70,40", "rule=ABC->C", "B"},
    {BD_OP_REDUCE_SUM, "3,2500", "rule=AB->A", "B"},
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
    {BD_OP_LAYERNORM, "3,2300 2300 2300", "eps=1e-5", "A"},
    {BD_OP_LAYERNORM_DX, "3,2300 3,2300 2300 3 p3", "", ""},
    {BD_OP_RMSNORM, "7,5,72 72", "eps=1e-6", "AB"},
    {BD_OP_RMSNORM_DX, "7,5,72 7,5,72 72 p7,5", "", "AB"},
    {BD_OP_RMSNORM_DW, "7,5,72 7,5,72 p7,5", "", "ABc"},
    {BD_OP_EMBED, "50,24 i7,5", "", "vABc"},
    {BD_OP_ROPE, "4,9,5,16", "theta=10000.0", "bh"},
    {BD_OP_ROPE, "4,9,5,16", "theta=10000.0 inverse=1 factor=8.0 original_positions=64.0", "b"},
    {BD_OP_LSE, "7,5,50", "", "ABv"},
    {BD_OP_LSE, "2,3,7001", "", "v"},
    {BD_OP_XENT, "7,5,50 i7,5 7,5", "", "ABv"},
    {BD_OP_XENT_GRAD, "7,5,50 i7,5 7,5 .", "", "ABv"},
};

const kernel_case gpu_kernel_cases[] = {
    {BD_OP_ATTENTION, "3,9,4,16 3,9,4,16 3,9,4,16", "scale=0.05", "k"},
    {BD_OP_ATTENTION, "1,130,2,64 1,130,2,64 1,130,2,64", "scale=0.05 causal=1", ""},
    {BD_OP_ATTENTION, "3,70,6,24 3,70,3,24 3,70,3,24", "scale=0.1 causal=1 dropout=0.2 site=4",
     "bk"},
    {BD_OP_ATTENTION, "2,33,3,7 2,100,1,7 2,100,1,7", "scale=0.1", ""},
    {BD_OP_ATTENTION, "1,100,1,128 1,65,1,128 1,65,1,128", "scale=0.02 causal=1", ""},
    {BD_OP_ATTENTION, "1,65,1,250 1,66,1,250 1,66,1,250", "scale=0.02 dropout=0.1 site=9", ""},
    {BD_OP_ATTENTION_GRAD, "3,9,4,16 3,9,4,16 3,9,4,16 3,9,4,16 3,9,4,16 3,9,4", "scale=0.05", "k"},
    {BD_OP_ATTENTION_GRAD, "1,130,2,64 1,130,2,64 1,130,2,64 1,130,2,64 1,130,2,64 1,130,2",
     "scale=0.05 causal=1", ""},
    {BD_OP_ATTENTION_GRAD, "3,70,6,24 3,70,6,24 3,70,3,24 3,70,3,24 3,70,6,24 3,70,6",
     "scale=0.1 causal=1 dropout=0.2 site=4", "bk"},
    {BD_OP_ATTENTION_GRAD, "2,33,3,7 2,33,3,7 2,100,1,7 2,100,1,7 2,33,3,7 2,33,3", "scale=0.1",
     ""},
    {BD_OP_ATTENTION_GRAD, "1,100,1,128 1,100,1,128 1,65,1,128 1,65,1,128 1,100,1,128 1,100,1",
     "scale=0.02 causal=1", ""},
    {BD_OP_ATTENTION_GRAD, "1,65,1,256 1,65,1,256 1,66,1,256 1,66,1,256 1,65,1,256 1,65,1",
     "scale=0.02", ""},
};
const int gpu_kernel_case_count = sizeof gpu_kernel_cases / sizeof *gpu_kernel_cases;

const int kernel_case_count = sizeof kernel_cases / sizeof *kernel_cases;

double kernel_next_real(uint64_t *state) {
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

int kernel_parse_params(bd_ctx *ctx, bd_function *function, bd_op_kind kind, const char *shapes,
                        bd_dtype real, bd_id *out) {
  int count = 0;
  for (const char *at = shapes; *at; at += *at == ' ') {
    bool statistic = bd_op_dtypes(kind)->statistic_in >> count & 1;
    bd_type type = {.dtype = *at == 'i' ? BD_I32 : statistic ? BD_F32 : real};
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

void kernel_run_make(bd_ctx *ctx, const kernel_case *from, bd_dtype real, char letter, bool cuda,
                     int number, kernel_run *r) {
  *r = (kernel_run){.from = from, .loop = -1, .module = bd_module_create(ctx, BD_STAGE_SPMD, "m")};
  r->module->mesh = (bd_mesh){.axes = 1, .size = {letter ? KERNEL_RANKS : 1}};
  r->module->micro_batch = 1;
  r->function = bd_function_create(ctx, "f");
  bd_id in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
  bd_attr attrs[8];
  int attr_count = parse_attrs(ctx, from->attributes, attrs);
  int in_count = kernel_parse_params(ctx, r->function, from->kind, from->shapes, real, in);
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
  assert_true(bd_kernel_of_step(ctx, r->module, r->function, &fusion, 0, cuda, number, &r->kernel));
}

// One rank's part of a tensor, or the part's place in the whole.
typedef struct part {
  bd_type local;
  int64_t start[BD_MAX_RANK], count[BD_MAX_RANK];
} part;

static part part_of(const kernel_run *r, bd_id id, int rank) {
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

static bd_tensor make_operand(bd_ctx *ctx, const kernel_run *r, int operand, uint64_t *state) {
  bd_tensor t = {.type = r->function->values[r->function->ops[0].in[operand]].type};
  int64_t count = bd_type_elements(&t.type, 1);
  t.data = BD_NEW_ARRAY(ctx->arena, double, count);
  const char *shape = r->from->shapes;
  for (int i = 0; i < operand; i++)
    shape = strchr(shape, ' ') + 1;
  for (int64_t i = 0; i < count; i++) {
    double u = kernel_next_real(state);
    double x = t.type.dtype == BD_I32
                   ? floor(u * 50) - (r->from->kind != BD_OP_EMBED && u > 0.9 ? 99 : 0)
               : *shape == 'p' ? 0.05 + 3 * u
                               : 8 * u - 4;
    t.data[i] = bd_dtype_round(t.type.dtype, x);
  }
  return t;
}

static void round_all(bd_tensor *tensor) {
  for (int64_t i = 0; i < bd_type_elements(&tensor->type, 1); i++)
    tensor->data[i] = bd_dtype_round(tensor->type.dtype, tensor->data[i]);
}

// Statistics must belong to the operands that they are of.
static void fix_operands(const kernel_run *r, bd_tensor *in, bd_arena *arena,
                         const bd_random_key *key) {
  bd_op_kind kind = r->from->kind;
  bd_op op = {.kind = BD_OP_LSE};
  if (kind == BD_OP_XENT || kind == BD_OP_XENT_GRAD) {
    bd_op_get_eval(BD_OP_LSE)(&op, in, &in[2], key, arena);
    round_all(&in[2]);
  } else if (kind == BD_OP_ATTENTION_GRAD) {
    op = r->function->ops[0];
    op.kind = BD_OP_ATTENTION;
    for (int i = 4; i < 6; i++)
      memset(in[i].data, 0, (size_t)bd_type_elements(&in[i].type, 1) * sizeof(double));
    bd_op_get_eval(BD_OP_ATTENTION)(&op, in + 1, in + 4, key, arena);
    round_all(&in[4]);
    round_all(&in[5]);
  }
}

double kernel_read_real(bd_dtype dtype, const char *buffer, int64_t i) {
  if (dtype == BD_F32) return ((const float *)(const void *)buffer)[i];
  return bd_rt_from_half(dtype, ((const uint16_t *)(const void *)buffer)[i]);
}

static char *local_buffer(bd_ctx *ctx, const kernel_run *r, bd_id id, int rank,
                          const bd_tensor *whole) {
  part p = part_of(r, id, rank);
  int64_t count = bd_type_elements(&p.local, 1);
  float *reals = BD_NEW_ARRAY(ctx->arena, float, count);
  int32_t *ints = (int32_t *)reals;
  uint16_t *halves = (uint16_t *)reals;
  for (int64_t i = 0; i < count; i++) {
    int64_t element = whole ? logical_element(&p, &whole->type, i) : -1;
    if (p.local.dtype == BD_I32)
      ints[i] = element < 0 ? 1 << 30 : (int32_t)whole->data[element];
    else if (bd_dtype_bytes(p.local.dtype) == 2)
      halves[i] = bd_rt_to_half(p.local.dtype, element < 0 ? NAN : (float)whole->data[element]);
    else
      reals[i] = element < 0 ? NAN : (float)whole->data[element];
  }
  return (char *)reals;
}

static void fill_range(const kernel_run *r, int rank, int64_t *range) {
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

static void take_result(const kernel_run *r, bd_id id, int rank, const char *buffer,
                        bd_tensor *whole, bool *seen) {
  part p = part_of(r, id, rank);
  int how = r->function->values[id].sharding.at[0];
  int64_t count = bd_type_elements(&p.local, 1);
  for (int64_t i = 0; i < count; i++) {
    int64_t e = logical_element(&p, &whole->type, i);
    if (e < 0) continue;
    double x = kernel_read_real(p.local.dtype, buffer, i);
    whole->data[e] = seen[e] ? combined(how, whole->data[e], x) : x;
    seen[e] = true;
  }
}

static void compare(const kernel_run *r, const bd_tensor *want, const bd_tensor *got, int result) {
  int64_t count = bd_type_elements(&want->type, 1);
  // Attention sums products of sums, in f32.
  bool attention = r->from->kind == BD_OP_ATTENTION || r->from->kind == BD_OP_ATTENTION_GRAD;
  double scale = 1, slack = attention ? 8 : 1;
  for (int64_t i = 0; i < count; i++)
    scale = fmax(scale, fabs(want->data[i]));
  for (int64_t i = 0; i < count; i++) {
    double difference = fabs(want->data[i] - got->data[i]);
    double bound = (3e-6 * fabs(want->data[i]) + 3e-7 * scale) * slack;
    if (bd_dtype_bytes(want->type.dtype) == 2) // half a unit, and as much for each partial sum
      bound += (want->type.dtype == BD_BF16 ? 0x1p-8 : 0x1p-11) *
               (r->loop < 0 ? fabs(want->data[i]) : KERNEL_RANKS * scale);
    if (difference <= bound) continue;
    fail_msg("%s (%s; %s) split at loop %d: result %d element %ld is %.9g, not %.9g",
             bd_op_get_info(r->from->kind)->name, r->from->shapes, r->from->attributes, r->loop,
             result, (long)i, got->data[i], want->data[i]);
  }
}

int64_t kernel_value_bytes(const kernel_run *r, bd_id id) {
  bd_type local = part_of(r, id, 0).local;
  return bd_type_elements(&local, 1) * bd_dtype_bytes(local.dtype);
}

typedef struct check {
  bd_ctx *ctx;
  const kernel_run *run;
  kernel_executor execute;
  void *user;
} check;

static void run_rank(const check *c, int rank, const bd_tensor *in, const bd_rt_random *random,
                     bd_tensor *got, bool **seen) {
  const kernel_run *r = c->run;
  const bd_kernel *k = &r->kernel;
  char *buffers[BD_MAX_OPERANDS + BD_MAX_RESULTS + 1];
  int64_t range[2 * BD_MAX_LOOPS];
  fill_range(r, rank, range);
  for (int i = 0; i < k->in_count; i++)
    buffers[i] = local_buffer(c->ctx, r, k->in[i], rank, &in[k->in[i]]);
  for (int i = 0; i < k->out_count; i++)
    buffers[k->in_count + i] = local_buffer(c->ctx, r, k->out[i], rank, NULL);
  if (k->scratch)
    buffers[k->in_count + k->out_count] =
        bd_arena_alloc(c->ctx->arena, (size_t)kernel_value_bytes(r, k->scratch_like));
  c->execute(c->user, r, buffers, range, random);
  for (int i = 0; i < k->out_count; i++)
    take_result(r, k->out[i], rank, buffers[k->in_count + i], &got[i], seen[i]);
}

void kernel_run_check(bd_ctx *ctx, const kernel_run *r, uint64_t seed, kernel_executor execute,
                      void *user) {
  const check c = {ctx, r, execute, user};
  const bd_op *op = &r->function->ops[0];
  bd_random_key key = {.seed = 0x1234567890abcdef, .step = 9, .first_sample = 40, .call = 3};
  bd_rt_random random = {.seed = key.seed, .step = 9, .first_sample = 40, .call = 3};
  bd_tensor in[BD_MAX_OPERANDS], want[BD_MAX_RESULTS], got[BD_MAX_RESULTS];
  bool *seen[BD_MAX_RESULTS];
  for (int i = 0; i < op->in_count; i++)
    in[i] = make_operand(ctx, r, i, &seed);
  fix_operands(r, in, ctx->arena, &key);
  for (int i = 0; i < op->out_count; i++) {
    want[i].type = got[i].type = r->function->values[op->out[i]].type;
    int64_t count = bd_type_elements(&want[i].type, 1);
    want[i].data = BD_NEW_ARRAY(ctx->arena, double, count);
    got[i].data = BD_NEW_ARRAY(ctx->arena, double, count);
    seen[i] = BD_NEW_ARRAY(ctx->arena, bool, count);
  }
  bd_op_get_eval(op->kind)(op, in, want, &key, ctx->arena);
  for (int rank = 0; rank < (r->loop < 0 ? 1 : KERNEL_RANKS); rank++)
    run_rank(&c, rank, in, &random, got, seen);
  for (int i = 0; i < op->out_count; i++)
    compare(r, &want[i], &got[i], i);
}

void kernel_spawn(const char *const *arguments, const char *log) {
  pid_t child;
  int status = 1;
  char *const *list = (char *const *)(uintptr_t)arguments;
  posix_spawn_file_actions_t actions;
  assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
  if (log)
    assert_int_equal(posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log,
                                                      O_WRONLY | O_CREAT | O_TRUNC, 0600),
                     0);
  assert_int_equal(posix_spawnp(&child, arguments[0], &actions, NULL, list, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

void kernel_remove_outputs(bd_ctx *ctx, const char *folder, const char *stem) {
  if (getenv("BD_KEEP")) return;
  for (const char *const *end = (const char *const[]){"ll", "s", "ptx", "o", "so", "log", NULL};
       *end; end++)
    unlink(bd_intern_f(ctx, "%s.%s", stem, *end));
  rmdir(folder);
}
