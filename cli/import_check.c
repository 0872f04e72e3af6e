#include "cli/import_check.h"
#include "cli/answer.h"
#include "cli/build.h"
#include "cli/folder.h"
#include "cli/import_values.h"
#include "cli/process.h"
#include "cli/stop.h"
#include "cli/temporary.h"
#include "codegen/evaluation.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "ir/element.h"
#include "ir/flatten.h"
#include "ir/memory.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 2, PIECE_BYTES = 1 << 16 };
// Of the largest value of an output: what sums of rounded products may be off by; and of a loss.
#define TOLERANCE 1e-4
#define LOSS_TOLERANCE 5e-5

// A function that is run as generated code, on parameters, and the results that it should have.
typedef struct part {
  const bd_function *function;
  bd_tensor *in, *wanted;
  const char **names; // of the results, for people
  double tolerance;
} part;

enum { MOST_PARTS = 2 }; // the model's outputs, and the loss

typedef struct check {
  bd_ctx *ctx;
  const bd_onnx_model *model;
  int count;
  part parts[MOST_PARTS];
  bd_module *evaluation;
  const char *folder;
} check;

// The interpreter holds every value as doubles.
static bd_status check_memory(const check *c, const bd_function *function) {
  double bytes = 0, room = 0.5 * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  for (bd_id v = 0; v < function->value_count; v++)
    bytes += 8 * (double)bd_type_elements(&function->values[v].type, SAMPLES);
  if (bytes <= room) return BD_OK;
  return bd_fail(c->ctx, BD_UNSUPPORTED, bd_loc_file(c->model->path),
                 "--check holds all values of %d samples as doubles, which are %.1f GiB, more than "
                 "half of this machine's memory; check a smaller model of the same ops, or fewer "
                 "tokens (--seq)",
                 SAMPLES, bytes / 0x1p30);
}

static bd_status interpret(const check *c, const bd_module *module, const bd_function *function,
                           const bd_tensor *in, bd_tensor **out) {
  const bd_random_key key = {.seed = 1};
  return bd_interpret_function(c->ctx, module, function, SAMPLES, in, &key, out, NULL);
}

// The model's outputs, of the function that it is before anything is done to it.
static bd_status add_outputs(check *c, bd_onnx_fact *facts) {
  bd_onnx_program program;
  BD_TRY(bd_onnx_lower_function(c->ctx, c->model, facts, &program));
  int count = program.function->result_count;
  int known = c->model->output_count - count;
  printf("check: %d output%s on the interpreter and as generated code", count,
         bd_plural(count, "s"));
  if (known > 0) printf("; %d %s known beforehand", known, known == 1 ? "is" : "are");
  printf("\n");
  if (count == 0) return BD_OK;
  part *p = &c->parts[c->count++];
  *p = (part){.function = program.function,
              .names = BD_NEW_ARRAY(c->ctx->arena, const char *, count),
              .tolerance = TOLERANCE};
  for (int i = 0; i < count; i++)
    p->names[i] = bd_intern_f(c->ctx, "output %s",
                              c->model->values[c->model->outputs[program.results[i]]].name);
  BD_TRY(check_memory(c, p->function));
  BD_TRY(bd_import_values(c->ctx, c->model, &program, SAMPLES, &p->in));
  return interpret(c, program.module, p->function, p->in, &p->wanted);
}

static bool draws_numbers(const bd_function *function) {
  for (int i = 0; i < function->op_count; i++)
    if (function->ops[i].kind == BD_OP_DROPOUT) return true;
  return false;
}

// The loss: of the lowered graph on the interpreter, of the written one as generated code.
static bd_status add_loss(check *c, const bd_import_graphs *graphs) {
  static const char *const name = "the loss of the graph";
  if (!graphs->written) return BD_OK;
  const bd_function *lowered = bd_module_flatten(c->ctx, graphs->lowered);
  const bd_function *written = bd_module_flatten(c->ctx, graphs->written);
  if (draws_numbers(lowered)) {
    printf("check: the loss is not compared: it draws random numbers\n");
    return BD_OK;
  }
  bd_tensor *in;
  part *p = &c->parts[c->count++];
  *p = (part){.function = written,
              .names = BD_NEW_ARRAY(c->ctx->arena, const char *, 1),
              .tolerance = LOSS_TOLERANCE};
  p->names[0] = name;
  BD_TRY(check_memory(c, lowered));
  BD_TRY(bd_import_graph_values(c->ctx, c->model, graphs->lowered, lowered, SAMPLES, NULL, &in));
  BD_TRY(bd_import_graph_values(c->ctx, c->model, graphs->written, written, SAMPLES, in, &p->in));
  return interpret(c, graphs->lowered, lowered, in, &p->wanted);
}

static bool write_tensor(FILE *file, const bd_tensor *tensor) {
  char piece[PIECE_BYTES] = {0};
  int64_t size = bd_dtype_bytes(tensor->type.dtype), most = PIECE_BYTES / size;
  int64_t count = bd_type_elements(&tensor->type, 1);
  for (int64_t done = 0; done < count; done += most) {
    int64_t now = count - done < most ? count - done : most;
    for (int64_t i = 0; i < now; i++)
      bd_element_write(tensor->type.dtype, piece, i, tensor->data[done + i]);
    if (!fwrite(piece, (size_t)(now * size), 1, file)) return false;
  }
  memset(piece, 0, BD_ALIGNMENT);
  int64_t rest = bd_align(count * size) - count * size;
  return rest == 0 || fwrite(piece, (size_t)rest, 1, file);
}

static bd_status write_parameters(const check *c, const char *path) {
  FILE *file = fopen(path, "wb");
  bool good = file != NULL;
  for (int i = 0; i < c->count; i++)
    for (int k = 0; good && k < c->parts[i].function->param_count; k++)
      good = write_tensor(file, &c->parts[i].in[k]);
  if (file && fclose(file) != 0) good = false;
  if (good) return BD_OK;
  return bd_fail(c->ctx, BD_EXTERNAL, bd_loc_file(path), "cannot be written: %s", strerror(errno));
}

static bd_status refuse_stopped(const check *c, const char *what, int signal) {
  return bd_fail(c->ctx, BD_EXTERNAL, bd_loc_file(c->model->path), "%s was stopped by %s", what,
                 bd_stop_word(signal));
}

static bd_status run_program(const check *c, const char *in, const char *out) {
  const char *program = bd_path_join(c->ctx, c->folder, "evaluate");
  char *argv[] = {(char *)program, (char *)in, (char *)out, NULL};
  bd_process_end end;
  BD_TRY(bd_process_run(c->ctx, argv, NULL, &end));
  if (end.stopped_by) return refuse_stopped(c, "running the model", end.stopped_by);
  if (end.exit_code == 0) return BD_OK;
  return bd_fail(c->ctx, BD_EXTERNAL, bd_loc_file(c->model->path),
                 "the model's program ended with status %d", end.exit_code);
}

typedef struct difference {
  int64_t elements, differ;
  double largest, size; // of finite values
} difference;

// What is no number on both sides, or the same infinity, is equal.
static difference compare(const bd_tensor *wanted, const char *data) {
  difference d = {.elements = bd_type_elements(&wanted->type, 1)};
  for (int64_t i = 0; i < d.elements; i++) {
    double want = wanted->data[i], got = bd_element_read(wanted->type.dtype, data, i);
    if (isfinite(want)) d.size = fmax(d.size, fabs(want));
    if (want == got || (isnan(want) && isnan(got))) continue;
    d.differ++;
    double error = fabs(want - got);
    d.largest = isfinite(error) ? fmax(d.largest, error) : INFINITY;
  }
  return d;
}

static bd_status report(const check *c, const part *p, int index, const difference *d) {
  bool is_real = bd_dtype_is_float(p->wanted[index].type.dtype);
  bool good = is_real ? d->largest <= p->tolerance * d->size : d->differ == 0;
  const char *name = p->names[index];
  bd_text text = bd_text_init(c->ctx->arena);
  bd_text_add(&text, "check: ");
  bd_text_add_printable(&text, name, strlen(name));
  if (is_real)
    bd_text_addf(&text, ": the largest difference is %.3g, of values up to %.3g\n", d->largest,
                 d->size);
  else
    bd_text_addf(&text, ": %lld of %lld elements differ\n", (long long)d->differ,
                 (long long)d->elements);
  BD_TRY(bd_answer_write(c->ctx, &text, NULL));
  if (good) return BD_OK;
  return bd_fail(
      c->ctx, BD_UNSUPPORTED, bd_loc_file(c->model->path),
      "%s of generated code is another than the interpreter's, which computes in doubles: either "
      "the model magnifies what f32 rounds, or braid is wrong",
      name);
}

static bd_status compare_results(const check *c, const char *path) {
  bd_map map;
  BD_TRY(bd_map_open(c->ctx, path, &map));
  const char *data = (const char *)map.data;
  bd_status status = BD_OK;
  for (int i = 0; i < c->count; i++) {
    const part *p = &c->parts[i];
    for (int k = 0; status == BD_OK && k < p->function->result_count; k++) {
      difference d = compare(&p->wanted[k], data);
      data += bd_align(d.elements * bd_dtype_bytes(p->wanted[k].type.dtype));
      int stopped_by = bd_stop_came();
      status =
          stopped_by ? refuse_stopped(c, "comparing the results", stopped_by) : report(c, p, k, &d);
    }
  }
  bd_map_close(&map);
  return status;
}

static bd_status check_in(const check *c) {
  const char *in = bd_path_join(c->ctx, c->folder, "in"),
             *out = bd_path_join(c->ctx, c->folder, "out");
  BD_TRY(bd_build_evaluation(c->ctx, c->evaluation, c->folder));
  BD_TRY(write_parameters(c, in));
  BD_TRY(run_program(c, in, out));
  return compare_results(c, out);
}

static void remove_folder(void *path) {
  bd_folder_remove(path);
}

bd_status bd_import_check(bd_ctx *ctx, const bd_onnx_model *model, bd_onnx_fact *facts,
                          const bd_import_graphs *graphs) {
  check c = {.ctx = ctx, .model = model};
  BD_TRY(add_outputs(&c, facts));
  BD_TRY(add_loss(&c, graphs));
  if (c.count == 0) return BD_OK;
  c.evaluation = bd_evaluation_create(ctx, SAMPLES);
  for (int i = 0; i < c.count; i++)
    BD_TRY(bd_evaluation_add(ctx, c.evaluation, c.parts[i].function));
  bd_stop_hold(NULL);
  BD_TRY(bd_temporary_make(ctx, "check", &c.folder));
  bd_owned held;
  bd_own(ctx, &held, remove_folder, (char *)c.folder);
  bd_status status = check_in(&c);
  bd_disown(ctx, &held);
  bd_folder_remove(c.folder);
  return status;
}
