#include "tests/unit/codegen/support_kernels.h"

#include "ir/element.h"
#include "ir/memory.h"
#include "ir/pool.h"
#include "tests/unit/samples.h"
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

enum { MAX_LIST = 64 };

double kernel_next_real(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 40) / 16777216.0;
}

static bd_attr parse_attr(bd_ctx *ctx, const char *name, const char *value) {
  char *end;
  if (strchr(value, '>') || !strcmp(name, "dtype") || !strcmp(name, "reduction"))
    return bd_attr_string(ctx, name, bd_intern_z(ctx, value));
  static const char *const lists[] = {"dims", "values", "kernel", "strides",
                                     "dilations", "pads", "divisors"};
  bool list = false;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    list |= !strcmp(name, lists[i]);
  if (list) {
    int64_t *ints = BD_NEW_ARRAY(ctx->arena, int64_t, MAX_LIST);
    double *reals = BD_NEW_ARRAY(ctx->arena, double, MAX_LIST);
    int count = 0;
    for (const char *at = value; *at; at = end + (*end == ',')) {
      ints[count] = strtoll(at, &end, 10);
      reals[count++] = strtod(at, &end);
      assert_true(count < MAX_LIST);
    }
    if (strpbrk(value, ".n")) return bd_attr_reals(ctx, name, count, reals);
    return bd_attr_ints(ctx, name, count, ints);
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
    bd_type type = {.dtype = statistic ? BD_F32 : real};
    const char *colon = at + strcspn(at, ": ");
    if (*at == 'p' || *at == 'w' || *at == '.') at++;
    if (*colon == ':') {
      const char *name = bd_intern(ctx, at, (size_t)(colon - at));
      assert_true(bd_dtype_parse(name, &type.dtype));
      at = colon + 1;
    } else if (*at == 'i') {
      type.dtype = BD_I32;
      at++;
    }
    while (*at && *at != ' ') {
      char *end = (char *)(uintptr_t)(at + 1);
      type.dims[type.rank++] = *at == 'B' ? BD_DIM_BATCH : strtoll(at, &end, 10);
      at = end + (*end == ',');
    }
    out[count++] = bd_function_add_param(ctx, function, NULL, type);
  }
  return count;
}

bool kernel_case_has_halves(const kernel_case *from) {
  bool any = false;
  for (const char *at = from->shapes; *at;) {
    size_t length = strcspn(at, " ");
    any |= *at != 'i' && !memchr(at, ':', length);
    at += length + (at[length] == ' ');
  }
  return any;
}

bool kernel_case_is_cut(const kernel_case *from) {
  return strstr(from->attributes, "chunk=") != NULL;
}

void kernel_run_make(bd_ctx *ctx, const kernel_case *from, bd_dtype real, char letter, bool cuda,
                     int number, kernel_run *r) {
  *r = (kernel_run){.from = from,
                    .real = real,
                    .loop = -1,
                    .module = bd_module_create(ctx, BD_STAGE_SPMD, "m")};
  r->module->mesh = (bd_mesh){.axes = 2, .size = {1, letter ? KERNEL_RANKS : 1}};
  r->module->micro_batch = KERNEL_SAMPLES;
  r->module->cuda = cuda;
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
  int8_t *split = r->split;
  memset(split, -1, BD_MAX_AXES);
  if (letter) {
    r->loop = bd_index_find(&r->map, letter);
    assert_true(r->loop >= 0);
    split[1] = (int8_t)r->loop;
    split[0] = r->map.loop[r->loop].within;
    if (split[0] >= 0) r->module->mesh.size[0] = (int)r->map.loop[split[0]].extent;
    assert_true(bd_split_nested(&r->map, &r->module->mesh, KERNEL_SAMPLES, split, 1));
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
  part p = {.local = bd_local_type(mesh, &v->sharding, &v->type, KERNEL_SAMPLES)};
  for (int d = 0; d < v->type.rank; d++)
    bd_local_range(mesh, &v->sharding, d, bd_extent(v->type.dims[d], KERNEL_SAMPLES), rank,
                   &p.start[d], &p.count[d]);
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

// Of wide operands: one in twenty, and the first row of those that are only added up.
static bool is_lowest(const kernel_run *r, const bd_type *type, int64_t element, double u) {
  return u < 0.05 || (r->from->kind == BD_OP_LSE && element < type->dims[type->rank - 1]);
}

// With the samples of all ranks.
static bd_type whole_type(const kernel_run *r, bd_id id) {
  bd_type type = r->function->values[id].type;
  for (int d = 0; d < type.rank; d++)
    type.dims[d] = bd_extent(type.dims[d], KERNEL_SAMPLES);
  return type;
}

static bd_tensor make_operand(bd_ctx *ctx, const kernel_run *r, int operand, uint64_t *state) {
  bd_tensor t = {.type = whole_type(r, r->function->ops[0].in[operand])};
  int64_t count = bd_type_elements(&t.type, KERNEL_SAMPLES);
  t.data = BD_NEW_ARRAY(ctx->arena, double, count);
  const char *shape = r->from->shapes;
  for (int i = 0; i < operand; i++)
    shape = strchr(shape, ' ') + 1;
  bool index = bd_op_dtypes(r->from->kind)->index_in >> operand & 1;
  for (int64_t i = 0; i < count; i++) {
    double u = kernel_next_real(state), x = 8 * u - 4;
    if (index)
      x = floor(u * 50) - (r->from->kind != BD_OP_EMBED && u > 0.9 ? 99 : 0);
    else if (t.type.dtype == BD_BOOL)
      x = u < 0.5;
    else if (!bd_dtype_is_float(t.type.dtype))
      x = floor(u * 24) - (*shape == 'p' || bd_dtype_is_unsigned(t.type.dtype) ? 0 : 12);
    else if (*shape == 'p')
      x = 0.05 + 3 * u;
    else if (*shape == 'w')
      x = is_lowest(r, &t.type, i, u) ? -INFINITY : 400 * u - 200;
    t.data[i] = bd_dtype_round(t.type.dtype, x);
  }
  return t;
}

static void round_all(bd_tensor *tensor) {
  for (int64_t i = 0; i < bd_type_elements(&tensor->type, KERNEL_SAMPLES); i++)
    tensor->data[i] = bd_dtype_round(tensor->type.dtype, tensor->data[i]);
}

static int64_t samples_of_rank(const kernel_run *r) {
  bool cut = r->loop >= 0 && r->map.loop[r->loop].extent == BD_DIM_BATCH;
  return cut ? KERNEL_SAMPLES / KERNEL_RANKS : KERNEL_SAMPLES;
}

// Of every sample a queue whose items have chosen one group each, or none, and of a rank's samples
// where their rows in each group begin, groups at multiples of 4.
static void queue_items(const kernel_run *r, bd_tensor *in) {
  int64_t items = in[0].type.dims[1], groups = in[0].type.dims[2], own = samples_of_rank(r);
  for (int64_t b = 0; b < KERNEL_SAMPLES; b++)
    for (int64_t i = 0; i < items; i++)
      for (int64_t e = 0; e < groups; e++) {
        double *at = &in[0].data[(b * items + i) * groups + e];
        int64_t chosen = (b * 5 + i * i * 7 + i / 3) % (groups + 2);
        *at = (double)(e == chosen) + (i ? at[-groups] : 0);
      }
  for (int64_t first = 0; first < KERNEL_SAMPLES; first += own)
    for (int64_t e = 0, next = 0; e < groups; e++, next = (next + 3) / 4 * 4)
      for (int64_t b = first; b < first + own; b++) {
        in[1].data[b * groups + e] = (double)next;
        next += (int64_t)in[0].data[((b + 1) * items - 1) * groups + e];
      }
}

// Statistics must belong to the operands that they are of.
static void fix_operands(const kernel_run *r, bd_tensor *in, bd_arena *arena,
                         const bd_random_key *key) {
  bd_op_kind kind = r->from->kind;
  bd_op op = {.kind = BD_OP_LSE};
  if (kind == BD_OP_ROW_ITEMS) {
    queue_items(r, in);
  } else if (kind == BD_OP_SEARCH) { // a list that grows
    int64_t count = bd_type_elements(&in[0].type, KERNEL_SAMPLES);
    bd_tensor steps = {.type = in[0].type, .data = BD_NEW_ARRAY(arena, double, count)};
    for (int64_t i = 0; i < count; i++)
      steps.data[i] = fabs(fmod(in[0].data[i], 2));
    op = r->function->ops[0];
    bd_op_get_eval(BD_OP_CUMSUM)(&op, &steps, in, key, arena);
  } else if (kind == BD_OP_XENT || kind == BD_OP_XENT_GRAD) {
    bd_op_get_eval(BD_OP_LSE)(&op, in, &in[2], key, arena);
    round_all(&in[2]);
  } else if (bd_op_is_attention_grad(kind)) {
    bd_tensor forward[4] = {in[1], in[2], in[3]};
    op = r->function->ops[0];
    bool biased = kind == BD_OP_RELATIVE_ATTENTION_GRAD;
    op.kind = biased ? BD_OP_RELATIVE_ATTENTION : BD_OP_ATTENTION;
    if (biased) forward[3] = in[6];
    for (int i = 4; i < 6; i++)
      memset(in[i].data, 0, (size_t)bd_type_elements(&in[i].type, KERNEL_SAMPLES) * sizeof(double));
    bd_op_get_eval(op.kind)(&op, forward, in + 4, key, arena);
    round_all(&in[4]);
    round_all(&in[5]);
  }
}

// In padding: what shows that it was read.
static double poison_of(bd_dtype dtype) {
  if (bd_dtype_is_float(dtype)) return NAN;
  return dtype == BD_BOOL ? 1 : dtype == BD_I32 ? 1 << 30 : 99;
}

static char *local_buffer(bd_ctx *ctx, const kernel_run *r, bd_id id, int rank,
                          const bd_tensor *whole) {
  part p = part_of(r, id, rank);
  int64_t count = bd_type_elements(&p.local, KERNEL_SAMPLES);
  char *buffer = bd_arena_alloc(ctx->arena, (size_t)(count * bd_dtype_bytes(p.local.dtype)));
  for (int64_t i = 0; i < count; i++) {
    int64_t element = whole ? logical_element(&p, &whole->type, i) : -1;
    bd_element_write(p.local.dtype, buffer, i,
                     element < 0 ? poison_of(p.local.dtype) : whole->data[element]);
  }
  return buffer;
}

static void fill_range(const kernel_run *r, int rank, int64_t *range) {
  for (int i = 0; i < r->map.loops; i++) {
    int64_t extent = bd_extent(r->map.loop[i].extent, KERNEL_SAMPLES);
    bd_sharding along = {.at = {r->split[0] == i ? 0 : -1, r->split[1] == i ? 0 : -1, -1, -1}};
    bd_local_range(&r->module->mesh, &along, 0, extent, rank, &range[2 * i], &range[2 * i + 1]);
  }
}

static double combined(int how, double a, double b) {
  if (how == BD_PARTIAL_LSE) return a == b ? a + log(2) : fmax(a, b) + log1p(exp(-fabs(a - b)));
  if (how == BD_PARTIAL_MAX) return fmax(a, b);
  return how == BD_PARTIAL_SUM ? a + b : b;
}

static void take_result(const kernel_run *r, bd_id id, int rank, const char *buffer,
                        bd_tensor *whole, bool *seen) {
  part p = part_of(r, id, rank);
  int how = r->function->values[id].sharding.at[1];
  int64_t count = bd_type_elements(&p.local, KERNEL_SAMPLES);
  for (int64_t i = 0; i < count; i++) {
    int64_t e = logical_element(&p, &whole->type, i);
    if (e < 0) continue;
    double x = bd_element_read(p.local.dtype, buffer, i);
    whole->data[e] = seen[e] ? combined(how, whole->data[e], x) : x;
    seen[e] = true;
  }
}

static void compare(const kernel_run *r, const bd_tensor *want, const bd_tensor *got, int result) {
  int64_t count = bd_type_elements(&want->type, KERNEL_SAMPLES);
  // Attention sums products of sums: in f32, but for weights of halves, which GPUs round to halves.
  // The derivative of a capped score is a difference from 1, which has the error of numbers near 1.
  // The gradient of sinks is a sum of terms of both signs.
  bool attention = bd_op_attends(r->from->kind), sums = r->from->kind == BD_OP_SINKS_GRAD;
  bool capped = attention && strstr(r->from->attributes, "softcap");
  double largest = 0, slack = capped ? 16 : attention || sums ? 8 : 1;
  const double unit = want->type.dtype == BD_BF16 ? 0x1p-8 : 0x1p-11;
  for (int64_t i = 0; i < count; i++)
    if (isfinite(want->data[i])) largest = fmax(largest, fabs(want->data[i]));
  const double scale = fmax(1, largest);
  for (int64_t i = 0; i < count; i++) {
    double difference = fabs(want->data[i] - got->data[i]);
    double bound = (3e-6 * fabs(want->data[i]) + 3e-7 * scale) * slack;
    if (want->data[i] == got->data[i] || (isnan(want->data[i]) && isnan(got->data[i]))) continue;
    if (got->data[i] == bd_dtype_round(want->type.dtype, want->data[i])) continue; // infinite, too
    if (!bd_dtype_is_float(want->type.dtype))
      bound = 0;
    else if (bd_dtype_bytes(want->type.dtype) ==
             2) // half a unit, and as much for each partial sum or row
      bound += unit * (attention ? largest : 0) +
               unit * (r->loop < 0 && r->from->kind != BD_OP_SCATTER ? fabs(want->data[i])
                                                                     : KERNEL_RANKS * scale);
    if (difference <= bound) continue;
    fail_msg("%s (%s; %s) split at loop %d: result %d element %ld is %.9g, not %.9g",
             bd_op_get_info(r->from->kind)->name, r->from->shapes, r->from->attributes, r->loop,
             result, (long)i, got->data[i], want->data[i]);
  }
}

int64_t kernel_value_bytes(const kernel_run *r, bd_id id) {
  bd_type local = part_of(r, id, 0).local;
  return bd_type_elements(&local, KERNEL_SAMPLES) * bd_dtype_bytes(local.dtype);
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
  if (k->scratch) {
    size_t bytes = (size_t)bd_memory_scratch_bytes(r->module, r->function, &r->function->ops[0]);
    char *scratch = bd_arena_alloc(c->ctx->arena, bytes);
    buffers[k->in_count + k->out_count] = memset(scratch, 0xff, bytes); // NaN
  }
  c->execute(c->user, r, buffers, range, random);
  for (int i = 0; i < k->out_count; i++)
    take_result(r, k->out[i], rank, buffers[k->in_count + i], &got[i], seen[i]);
}

// The reference: of what counts over samples, with those of a rank at a time.
static void evaluate(bd_ctx *ctx, const kernel_run *r, const bd_tensor *in, bd_tensor *want,
                     const bd_random_key *key) {
  const bd_op *op = &r->function->ops[0];
  if (!bd_op_pools(op)) {
    bd_op_get_eval(op->kind)(op, in, want, key, ctx->arena);
    return;
  }
  int64_t count = samples_of_rank(r);
  for (int64_t first = 0; first < KERNEL_SAMPLES; first += count) {
    bd_tensor own[BD_MAX_OPERANDS], made = samples_take(ctx, &want[0], first, count);
    for (int i = 0; i < op->in_count; i++)
      own[i] = samples_take(ctx, &in[i], first, count);
    bd_op_get_eval(op->kind)(op, own, &made, key, ctx->arena);
    samples_put(&want[0], first, &made);
  }
}

// What the case is alone, so that another case changes no numbers of it.
static uint64_t seed_of(const kernel_run *r) {
  uint64_t seed = (uint64_t)r->from->kind << 8 | (uint64_t)(r->loop + 1);
  for (const char *at = r->from->shapes; *at; at++)
    seed = seed * 31 + (unsigned char)*at;
  for (const char *at = r->from->attributes; *at; at++)
    seed = seed * 31 + (unsigned char)*at;
  return seed;
}

static void check_once(const check *c, bool keeps_all) {
  bd_ctx *ctx = c->ctx;
  const kernel_run *r = c->run;
  uint64_t seed = seed_of(r);
  const bd_op *op = &r->function->ops[0];
  bd_random_key key = {.seed = 0x1234567890abcdef, .step = 9, .first_sample = 40, .call = 3};
  bd_rt_random random = {
      .seed = key.seed, .step = 9, .first_sample = 40, .call = 3, .keeps_all = keeps_all};
  bd_tensor in[BD_MAX_OPERANDS], want[BD_MAX_RESULTS], got[BD_MAX_RESULTS];
  bool *seen[BD_MAX_RESULTS];
  for (int i = 0; i < op->in_count; i++)
    in[i] = make_operand(ctx, r, i, &seed);
  fix_operands(r, in, ctx->arena, &key);
  for (int i = 0; i < op->out_count; i++) {
    want[i].type = got[i].type = whole_type(r, op->out[i]);
    int64_t count = bd_type_elements(&want[i].type, KERNEL_SAMPLES);
    want[i].data = BD_NEW_ARRAY(ctx->arena, double, count);
    got[i].data = BD_NEW_ARRAY(ctx->arena, double, count);
    seen[i] = BD_NEW_ARRAY(ctx->arena, bool, count);
  }
  evaluate(ctx, r, in, want, &key);
  for (int rank = 0; rank < bd_mesh_devices(&r->module->mesh); rank++)
    run_rank(c, rank, in, &random, got, seen);
  for (int i = 0; i < op->out_count; i++)
    compare(r, &want[i], &got[i], i);
}

// The probability with which an op drops elements, or NULL.
static bd_attr *find_dropout(const bd_op *op) {
  for (int i = 0; i < op->attr_count; i++)
    if (strcmp(op->attrs[i].name, op->kind == BD_OP_DROPOUT ? "p" : "dropout") == 0)
      return &op->attrs[i];
  return NULL;
}

// Where nothing is dropped the same kernel does what the op does without dropout.
void kernel_run_check(bd_ctx *ctx, const kernel_run *r, kernel_executor execute, void *user) {
  check c = {ctx, r, execute, user};
  check_once(&c, false);
  if (!find_dropout(&r->function->ops[0])) return;
  kernel_run keeping = *r;
  keeping.function = bd_function_clone(ctx, r->function);
  find_dropout(&keeping.function->ops[0])->real = 0;
  c.run = &keeping;
  check_once(&c, true);
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
