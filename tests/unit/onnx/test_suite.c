// The ONNX test suite: types and shapes as inferred, and results on the interpreter, against its
// own expected outputs (with its tolerances, rtol 1e-3 and atol 1e-7).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/onnx/lower.h"
#include "ir/interpret.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char folder[] = "/usr/share/libonnx-testdata/data";
static const char list[] = "tests/data/onnx/selected.txt";
enum { MOST_INPUTS = 64 };

typedef struct suite_case {
  const char *name;
  const char *why;  // it fails
  bool is_inferred; // and then lowered
  bool is_run;
} suite_case;

// The suite's files hold bfloat16 as the bits in uint16, for want of such a type in numpy.
static bd_status read_data(bd_ctx *ctx, const char *test, const char *kind, int i,
                           const bd_onnx_value *value, bd_onnx_tensor *out) {
  const char *path = bd_intern_f(ctx, "%s/%s/test_data_set_0/%s_%d.pb", folder, test, kind, i);
  char *data;
  size_t bytes;
  BD_TRY(bd_file_read(ctx, path, (size_t)64 << 20, &data, &bytes));
  BD_TRY(bd_onnx_read_tensor(ctx, path, (bd_onnx_bytes){(unsigned char *)data, bytes}, out));
  if (value->declared->dtype == BD_ONNX_BFLOAT16 && out->dtype == BD_ONNX_UINT16)
    out->dtype = BD_ONNX_BFLOAT16;
  return BD_OK;
}

static bool same(const bd_onnx_fact *fact, const bd_onnx_tensor *tensor) {
  bool equal = fact->dtype == tensor->dtype && fact->rank == tensor->rank;
  for (int d = 0; equal && d < tensor->rank; d++)
    equal = bd_onnx_is(fact->dims[d], tensor->dims[d]);
  return equal;
}

// Elements that were inferred are those that are expected.
static bool same_elements(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_fact *fact,
                          const bd_onnx_tensor *tensor) {
  if (!fact->known) return true;
  for (int64_t i = 0; i < tensor->elements; i++) {
    bd_onnx_number wanted, got = bd_onnx_at(fact, i);
    if (bd_onnx_tensor_elements(ctx, model, tensor, i, 1, &wanted) != BD_OK) return false;
    double error = bd_onnx_is_float(fact->dtype) ? got.real - wanted.real
                                                 : (double)(got.integer - wanted.integer);
    double size = bd_onnx_is_float(fact->dtype) ? wanted.real : 0;
    if (got.batch || !(error * error <= 1e-6 * size * size + 1e-14)) return false;
  }
  return true;
}

static bd_status check_outputs(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_fact *facts,
                               suite_case *test) {
  for (int i = 0; i < model->output_count; i++) {
    const bd_onnx_fact *fact = &facts[model->outputs[i]];
    bd_onnx_tensor wanted;
    BD_TRY(read_data(ctx, test->name, "output", i, &model->values[model->outputs[i]], &wanted));
    if (!same(fact, &wanted))
      test->why =
          bd_intern_f(ctx, "output %d inferred as %s %s", i, bd_onnx_dtype_name(fact->dtype),
                      bd_onnx_dims_text(ctx, fact->rank, fact->dims));
    else if (!same_elements(ctx, model, fact, &wanted))
      test->why = bd_intern_f(ctx, "elements of output %d are folded wrongly", i);
  }
  return BD_OK;
}

// A tensor of the suite as the interpreter's.
static bd_status to_interpreter(bd_ctx *ctx, const bd_onnx_model *model,
                                const bd_onnx_tensor *tensor, bd_type type, bd_tensor *out) {
  bool real = bd_onnx_is_float(tensor->dtype);
  bd_onnx_number *values = BD_NEW_ARRAY(ctx->arena, bd_onnx_number, tensor->elements);
  BD_TRY(bd_onnx_tensor_elements(ctx, model, tensor, 0, tensor->elements, values));
  *out = (bd_tensor){type, BD_NEW_ARRAY(ctx->arena, double, tensor->elements)};
  for (int64_t i = 0; i < tensor->elements; i++) {
    out->data[i] = real ? values[i].real : (double)values[i].integer;
    if (tensor->dtype == BD_ONNX_UINT64) out->data[i] = (double)(uint64_t)values[i].integer;
  }
  return BD_OK;
}

// The suite cuts to bfloat16 where braid rounds: its outputs of that type are within a last place.
static bool is_close(double got, double wanted, bool is_bfloat16) {
  if (isnan(wanted) || isinf(wanted)) return isnan(wanted) ? isnan(got) : got == wanted;
  return fabs(got - wanted) <= 1e-7 + (is_bfloat16 ? 0x1p-7 : 1e-3) * fabs(wanted);
}

static bd_status compare(bd_ctx *ctx, const bd_onnx_model *model, suite_case *test, int output,
                         const bd_tensor *got) {
  bd_onnx_tensor tensor;
  bd_tensor wanted;
  BD_TRY(read_data(ctx, test->name, "output", output, &model->values[model->outputs[output]],
                   &tensor));
  BD_TRY(to_interpreter(ctx, model, &tensor, got->type, &wanted));
  for (int64_t i = 0; i < tensor.elements && !test->why; i++)
    if (!is_close(got->data[i], wanted.data[i], tensor.dtype == BD_ONNX_BFLOAT16))
      test->why = bd_intern_f(ctx, "element %lld of output %d is %g, not %g", (long long)i, output,
                              got->data[i], wanted.data[i]);
  return BD_OK;
}

static const bd_onnx_tensor *find_tensor(const bd_onnx_model *model, const bd_onnx_options *options,
                                         int value) {
  if (model->values[value].initializer) return model->values[value].initializer;
  for (int i = 0; i < options->given_count; i++)
    if (strcmp(options->given[i].input, model->values[value].name) == 0)
      return options->given[i].tensor;
  return NULL;
}

static bd_status interpret(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_options *options,
                           bd_onnx_fact *facts, suite_case *test) {
  bd_onnx_program program;
  const bd_random_key key = {.seed = 1};
  BD_TRY(bd_onnx_lower_function(ctx, model, facts, &program));
  const bd_function *function = program.function;
  bd_tensor *in = BD_NEW_ARRAY(ctx->arena, bd_tensor, function->param_count), *out;
  for (int i = 0; i < function->param_count; i++) {
    const bd_onnx_tensor *tensor = find_tensor(model, options, program.params[i]);
    if (!tensor) return bd_fail(ctx, BD_UNSUPPORTED, BD_NOWHERE, "an input without data is used");
    BD_TRY(to_interpreter(ctx, model, tensor, function->values[function->params[i]].type, &in[i]));
  }
  BD_TRY(bd_interpret_function(ctx, program.module, function, in, &key, &out, NULL));
  test->is_run = true;
  for (int i = 0; i < function->result_count; i++)
    BD_TRY(compare(ctx, model, test, program.results[i], &out[i]));
  return BD_OK;
}

static bd_status infer_and_check(bd_ctx *ctx, const bd_onnx_model *model, suite_case *test) {
  static bd_onnx_tensor tensors[MOST_INPUTS];
  static bd_onnx_given given[MOST_INPUTS];
  bd_onnx_options options = {.given = given};
  bd_onnx_fact *facts;
  const bool *wanted = bd_onnx_wanted(ctx, model);
  assert_true(model->input_count <= MOST_INPUTS);
  for (int i = 0; i < model->input_count; i++) {
    int input = model->inputs[i];
    BD_TRY(read_data(ctx, test->name, "input", i, &model->values[input], &tensors[i]));
    // The suite gives CastLike's second operand, declared [3, 4], one element.
    if (strcmp(model->values[input].name, "like") == 0 && tensors[i].rank == 1) continue;
    given[options.given_count++] =
        (bd_onnx_given){model->values[input].name, &tensors[i], wanted[input]};
  }
  BD_TRY(bd_onnx_infer(ctx, model, &options, &facts));
  BD_TRY(check_outputs(ctx, model, facts, test));
  test->is_inferred = true;
  return test->why ? BD_OK : interpret(ctx, model, &options, facts, test);
}

static bd_status run_case(bd_ctx *ctx, void *argument) {
  suite_case *test = argument;
  bd_onnx_model model = {0};
  bd_owned held;
  bd_own(ctx, &held, bd_onnx_close, &model);
  const char *path = bd_intern_f(ctx, "%s/%s/model.onnx", folder, test->name);
  bd_status status = bd_onnx_open(ctx, path, &model);
  if (status == BD_OK) status = infer_and_check(ctx, &model, test);
  bd_disown(ctx, &held);
  bd_onnx_close(&model);
  return status;
}

typedef struct tally {
  int inferred, run, failed;
} tally;

static void add_case(tally *total, const char *name) {
  bd_ctx *ctx = bd_ctx_create();
  assert_non_null(ctx);
  suite_case test = {.name = name};
  bd_status status = bd_ctx_run(ctx, run_case, &test);
  bool refused = status == BD_UNSUPPORTED && test.is_inferred;
  if (test.why) printf("%s: %s\n", name, test.why);
  if (status != BD_OK) bd_diags_print(ctx, stdout, false);
  total->inferred += test.is_inferred;
  total->run += status == BD_OK && !test.why;
  total->failed += test.why || (status != BD_OK && !refused);
  bd_ctx_destroy(ctx);
}

static void test_suite(void **state) {
  (void)state;
  char line[256];
  tally total = {0};
  FILE *file = fopen(list, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    if (line[0] == '#') continue;
    line[strcspn(line, "\t\n")] = '\0';
    add_case(&total, line);
  }
  fclose(file);
  printf("%d inferred, %d run, %d failed\n", total.inferred, total.run, total.failed);
  assert_int_equal(total.failed, 0);
  assert_int_equal(total.inferred, 873);
  assert_int_equal(total.run, 873);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_suite)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
