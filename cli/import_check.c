#include "cli/import_check.h"
#include "cli/build.h"
#include "cli/folder.h"
#include "cli/import_values.h"
#include "cli/process.h"
#include "codegen/evaluation.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "ir/element.h"
#include "ir/memory.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 2, PIECE_BYTES = 1 << 16 };
// Of the largest value of an output: what sums of rounded products may be off by.
#define TOLERANCE 1e-4

typedef struct check {
  bd_ctx *ctx;
  const bd_onnx_model *model;
  bd_onnx_program program;
  bd_module *evaluation;
  bd_tensor *in, *wanted;
  const char *folder;
} check;

// The interpreter holds every value as doubles.
static bd_status check_memory(const check *c) {
  const bd_function *function = c->program.function;
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

static bool write_tensor(FILE *file, const bd_module *module, const bd_tensor *tensor) {
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
  for (int i = 0; good && i < c->program.function->param_count; i++)
    good = write_tensor(file, c->evaluation, &c->in[i]);
  if (file && fclose(file) != 0) good = false;
  if (good) return BD_OK;
  return bd_fail(c->ctx, BD_EXTERNAL, bd_loc_file(path), "cannot be written: %s", strerror(errno));
}

static bd_status run_program(const check *c, const char *in, const char *out) {
  const char *program = bd_path_join(c->ctx, c->folder, "evaluate");
  char *argv[] = {(char *)program, (char *)in, (char *)out, NULL};
  bd_process_end end;
  BD_TRY(bd_process_run(c->ctx, argv, NULL, &end));
  if (end.exit_code == 0 && !end.stopped_by) return BD_OK;
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

static bd_status report(const check *c, int index, const difference *d) {
  const bd_type *type = &c->wanted[index].type;
  const char *name = c->model->values[c->model->outputs[c->program.results[index]]].name;
  bool is_real = bd_dtype_is_float(type->dtype);
  bool good = is_real ? d->largest <= TOLERANCE * d->size : d->differ == 0;
  bd_text text = bd_text_init(c->ctx->arena);
  bd_text_add(&text, "check: output ");
  bd_text_add_printable(&text, name, strlen(name));
  if (is_real)
    bd_text_addf(&text, ": the largest difference is %.3g, of values up to %.3g\n", d->largest,
                 d->size);
  else
    bd_text_addf(&text, ": %lld of %lld elements differ\n", (long long)d->differ,
                 (long long)d->elements);
  fwrite(text.data, 1, text.length, stdout);
  if (good) return BD_OK;
  return bd_fail(
      c->ctx, BD_UNSUPPORTED, bd_loc_file(c->model->path),
      "output \"%s\" of generated code is another than the interpreter's, which computes in "
      "doubles: either the model magnifies what f32 rounds, or braid is wrong",
      name);
}

static bd_status compare_results(const check *c, const char *path) {
  bd_map map;
  BD_TRY(bd_map_open(c->ctx, path, &map));
  const char *data = (const char *)map.data;
  bd_status status = BD_OK;
  for (int i = 0; status == BD_OK && i < c->program.function->result_count; i++) {
    difference d = compare(&c->wanted[i], data);
    data += bd_align(d.elements * bd_dtype_bytes(c->wanted[i].type.dtype));
    status = report(c, i, &d);
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

bd_status bd_import_check(bd_ctx *ctx, const bd_onnx_model *model, bd_onnx_fact *facts) {
  check c = {.ctx = ctx, .model = model};
  const bd_random_key key = {.seed = 1};
  BD_TRY(bd_onnx_lower_function(ctx, model, facts, &c.program));
  printf("check: %d of %d outputs on the interpreter and as generated code, the others are known "
         "beforehand\n",
         c.program.function->result_count, model->output_count);
  if (c.program.function->result_count == 0) return BD_OK;
  BD_TRY(check_memory(&c));
  BD_TRY(bd_import_values(ctx, model, &c.program, SAMPLES, &c.in));
  BD_TRY(bd_interpret_function(ctx, c.program.module, c.program.function, c.in, &key, &c.wanted,
                               NULL));
  c.evaluation = bd_evaluation_create(ctx, SAMPLES);
  BD_TRY(bd_evaluation_add(ctx, c.evaluation, c.program.function));
  BD_TRY(bd_folder_temporary(ctx, "check", &c.folder));
  bd_owned held;
  bd_own(ctx, &held, remove_folder, (char *)c.folder);
  bd_status status = check_in(&c);
  bd_disown(ctx, &held);
  bd_folder_remove(c.folder);
  return status;
}
