#include "tests/suite/case.h"
#include "ir/base/file.h"
#include <math.h>
#include <string.h>

// The suite's files hold bfloat16 as the bits in uint16, for want of such a type in numpy.
static bd_status read_data(suite_case *test, const char *kind, int i, int value,
                           bd_onnx_tensor *out) {
  bd_ctx *ctx = test->ctx;
  const char *path = bd_intern_f(ctx, "%s/test_data_set_0/%s_%d.pb", test->folder, kind, i);
  char *data;
  size_t bytes;
  BD_TRY(bd_file_read(ctx, path, (size_t)64 << 20, &data, &bytes));
  BD_TRY(bd_onnx_read_tensor(ctx, path, (bd_onnx_bytes){(unsigned char *)data, bytes}, out));
  if (test->model.values[value].declared->dtype == BD_ONNX_BFLOAT16 && out->dtype == BD_ONNX_UINT16)
    out->dtype = BD_ONNX_BFLOAT16;
  return BD_OK;
}

static bd_status read_output(suite_case *test, int i, bd_onnx_tensor *out) {
  return read_data(test, "output", i, test->model.outputs[i], out);
}

static bool same(const bd_onnx_fact *fact, const bd_onnx_tensor *tensor) {
  bool equal = fact->dtype == tensor->dtype && fact->rank == tensor->rank;
  for (int d = 0; equal && d < tensor->rank; d++)
    equal = bd_onnx_is(fact->dims[d], tensor->dims[d]);
  return equal;
}

// The suite cuts to bfloat16 where braid rounds: its outputs of that type are within a last place.
static bool is_close(double got, double wanted, bool is_bfloat16) {
  if (isnan(wanted) || isinf(wanted)) return isnan(wanted) ? isnan(got) : got == wanted;
  return fabs(got - wanted) <= 1e-7 + (is_bfloat16 ? 0x1p-7 : 1e-3) * fabs(wanted);
}

// Elements that were inferred are those that are expected.
static bool same_elements(suite_case *test, const bd_onnx_fact *fact,
                          const bd_onnx_tensor *tensor) {
  if (!fact->known) return true;
  for (int64_t i = 0; i < tensor->elements; i++) {
    bd_onnx_number wanted, got = bd_onnx_at(fact, i);
    if (bd_onnx_tensor_elements(test->ctx, &test->model, tensor, i, 1, &wanted) != BD_OK)
      return false;
    bool is_real = bd_onnx_is_float(fact->dtype);
    if (got.batch || (is_real ? !is_close(got.real, wanted.real, fact->dtype == BD_ONNX_BFLOAT16)
                              : got.integer != wanted.integer))
      return false;
  }
  return true;
}

static bd_status check_inferred(suite_case *test, const bd_onnx_fact *facts) {
  for (int i = 0; i < test->model.output_count; i++) {
    const bd_onnx_fact *fact = &facts[test->model.outputs[i]];
    bd_onnx_tensor wanted;
    BD_TRY(read_output(test, i, &wanted));
    if (!same(fact, &wanted))
      test->why =
          bd_intern_f(test->ctx, "output %d inferred as %s %s", i, bd_onnx_dtype_name(fact->dtype),
                      bd_onnx_dims_text(test->ctx, fact->rank, fact->dims));
    else if (!same_elements(test, fact, &wanted))
      test->why = bd_intern_f(test->ctx, "elements of output %d are folded wrongly", i);
  }
  return BD_OK;
}

// A tensor of the suite as the interpreter's.
static bd_status to_interpreter(suite_case *test, const bd_onnx_tensor *tensor, bd_type type,
                                bd_tensor *out) {
  bool real = bd_onnx_is_float(tensor->dtype);
  bd_onnx_number *values = BD_NEW_ARRAY(test->ctx->arena, bd_onnx_number, tensor->elements);
  BD_TRY(bd_onnx_tensor_elements(test->ctx, &test->model, tensor, 0, tensor->elements, values));
  *out = (bd_tensor){type, BD_NEW_ARRAY(test->ctx->arena, double, tensor->elements)};
  for (int64_t i = 0; i < tensor->elements; i++) {
    out->data[i] = real ? values[i].real : (double)values[i].integer;
    if (tensor->dtype == BD_ONNX_UINT64) out->data[i] = (double)(uint64_t)values[i].integer;
  }
  return BD_OK;
}

static bd_status compare_output(suite_case *test, int output, const bd_tensor *got) {
  bd_onnx_tensor tensor;
  bd_tensor wanted;
  BD_TRY(read_output(test, output, &tensor));
  BD_TRY(to_interpreter(test, &tensor, got->type, &wanted));
  for (int64_t i = 0; i < tensor.elements && !test->why; i++)
    if (!is_close(got->data[i], wanted.data[i], tensor.dtype == BD_ONNX_BFLOAT16))
      test->why = bd_intern_f(test->ctx, "element %lld of output %d is %g, not %g", (long long)i,
                              output, got->data[i], wanted.data[i]);
  return BD_OK;
}

static bd_status compare(suite_case *test, const bd_tensor *results) {
  for (int i = 0; i < test->program.function->result_count; i++)
    BD_TRY(compare_output(test, test->program.results[i], &results[i]));
  return BD_OK;
}

static const bd_onnx_tensor *find_tensor(const suite_case *test, const bd_onnx_options *options,
                                         int value) {
  if (test->model.values[value].initializer) return test->model.values[value].initializer;
  for (int i = 0; i < options->given_count; i++)
    if (strcmp(options->given[i].input, test->model.values[value].name) == 0)
      return options->given[i].tensor;
  return NULL;
}

static bd_status interpret(suite_case *test, const bd_onnx_options *options, bd_onnx_fact *facts) {
  const bd_random_key key = {.seed = 1};
  bd_onnx_program program;
  BD_TRY(bd_onnx_lower_function(test->ctx, &test->model, facts, &program));
  if (program.function->result_count == 0) return BD_OK;
  const bd_function *function = program.function;
  bd_tensor *out;
  test->in = BD_NEW_ARRAY(test->ctx->arena, bd_tensor, function->param_count);
  for (int i = 0; i < function->param_count; i++) {
    const bd_onnx_tensor *tensor = find_tensor(test, options, program.params[i]);
    if (!tensor)
      return bd_fail(test->ctx, BD_UNSUPPORTED, BD_NOWHERE, "an input without data is used");
    BD_TRY(to_interpreter(test, tensor, function->values[function->params[i]].type, &test->in[i]));
  }
  BD_TRY(bd_interpret_function(test->ctx, program.module, function, 1, test->in, &key, &out, NULL));
  test->program = program;
  return compare(test, out);
}

static bd_status run_case(bd_ctx *ctx, void *argument) {
  suite_case *test = argument;
  bd_onnx_tensor *tensors = BD_NEW_ARRAY(ctx->arena, bd_onnx_tensor, SUITE_MOST_INPUTS);
  bd_onnx_given *given = BD_NEW_ARRAY(ctx->arena, bd_onnx_given, SUITE_MOST_INPUTS);
  bd_onnx_options options = {.given = given};
  bd_onnx_fact *facts;
  BD_TRY(bd_onnx_open(ctx, bd_path_join(ctx, test->folder, "model.onnx"), &test->model));
  const bool *wanted = bd_onnx_wanted(ctx, &test->model);
  if (test->model.input_count > SUITE_MOST_INPUTS)
    return bd_fail(ctx, BD_UNSUPPORTED, BD_NOWHERE, "too many inputs");
  for (int i = 0; i < test->model.input_count; i++) {
    int input = test->model.inputs[i];
    const char *name = test->model.values[input].name;
    BD_TRY(read_data(test, "input", i, input, &tensors[i]));
    // The suite gives CastLike's second operand, declared [3, 4], one element.
    if (strcmp(name, "like") == 0 && tensors[i].rank == 1) continue;
    given[options.given_count++] = (bd_onnx_given){name, &tensors[i], wanted[input]};
  }
  BD_TRY(bd_onnx_infer(ctx, &test->model, &options, &facts));
  BD_TRY(check_inferred(test, facts));
  return test->why ? BD_OK : interpret(test, &options, facts);
}

bool suite_case_interpret(suite_case *test, const char *name, const char *folder) {
  *test = (suite_case){.ctx = bd_ctx_create()};
  if (!test->ctx) return false;
  test->name = bd_intern_z(test->ctx, name);
  test->folder = bd_intern_z(test->ctx, folder);
  return bd_ctx_run(test->ctx, run_case, test) == BD_OK && !test->why;
}

typedef struct comparison {
  suite_case *test;
  const bd_tensor *results;
} comparison;

static bd_status run_comparison(bd_ctx *ctx, void *argument) {
  (void)ctx;
  const comparison *c = argument;
  return compare(c->test, c->results);
}

bool suite_case_compare(suite_case *test, const bd_tensor *results) {
  comparison c = {test, results};
  return bd_ctx_run(test->ctx, run_comparison, &c) == BD_OK && !test->why;
}

void suite_case_end(suite_case *test) {
  bd_onnx_close(&test->model);
  if (test->ctx) bd_ctx_destroy(test->ctx);
}
