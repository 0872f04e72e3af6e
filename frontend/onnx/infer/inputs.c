#include "frontend/onnx/infer/step.h"
#include "ir/base/text.h"
#include <string.h>

typedef struct binder {
  bd_ctx *ctx;
  const bd_onnx_model *model;
  const bd_onnx_options *options;
} binder;

static bool is_any(const char *symbol, const char *const *names) {
  for (; *names; names++)
    if (strcmp(symbol, *names) == 0) return true;
  return false;
}

static bool is_sequence(const char *symbol) {
  static const char *const names[] = {
      "seq",        "seq_len",      "seqlen", "sequence", "sequence_length",
      "seq_length", "sequence_len", "T",      NULL};
  return is_any(symbol, names);
}

// Whether a symbol is an extent of an input's other dimensions than the first.
static bool is_inner(const bd_onnx_model *model, const char *symbol) {
  for (int i = 0; i < model->input_count; i++) {
    const bd_onnx_declared *declared = model->values[model->inputs[i]].declared;
    for (int d = 1; d < declared->rank; d++)
      if (declared->dims[d].symbol && strcmp(declared->dims[d].symbol, symbol) == 0) return true;
  }
  return false;
}

static bool is_batch(const binder *b, const bd_onnx_extent *extent, int d) {
  if (b->options->batch) return extent->symbol && strcmp(extent->symbol, b->options->batch) == 0;
  return d == 0 &&
         !(extent->symbol && (is_sequence(extent->symbol) || is_inner(b->model, extent->symbol)));
}

static bd_status fail_unbound(const binder *b, int input, int d, const char *symbol) {
  const char *name = b->model->values[input].name;
  bd_loc loc = bd_loc_file(b->model->path);
  if (!symbol)
    return bd_fail(
        b->ctx, BD_INVALID, loc,
        "dimension %d of input \"%s\" has neither an extent nor a name; export the model "
        "with one",
        d, name);
  if (is_sequence(symbol))
    return bd_fail(b->ctx, BD_INVALID, loc,
                   "dimension %d of input \"%s\" is the symbol \"%s\": give it a number with "
                   "--seq N",
                   d, name, symbol);
  return bd_fail(b->ctx, BD_INVALID, loc,
                 "dimension %d of input \"%s\" is the symbol \"%s\": give it a number with "
                 "--dim %s=N, or make it the batch with --batch-dim %s",
                 d, name, symbol, symbol, symbol);
}

static bd_status bind_extent(const binder *b, int input, int d, const bd_onnx_extent *extent,
                             bd_onnx_number *out) {
  const bd_onnx_options *options = b->options;
  *out = bd_onnx_whole(extent->value);
  if (extent->value >= 0) return BD_OK;
  for (int i = 0; extent->symbol && i < options->dim_count; i++) {
    if (strcmp(options->dims[i].symbol, extent->symbol) != 0) continue;
    *out = bd_onnx_whole(options->dims[i].extent);
    return BD_OK;
  }
  if (extent->symbol && options->sequence > 0 && is_sequence(extent->symbol)) {
    *out = bd_onnx_whole(options->sequence);
    return BD_OK;
  }
  *out = (bd_onnx_number){.integer = 1, .batch = true};
  return is_batch(b, extent, d) ? BD_OK : fail_unbound(b, input, d, extent->symbol);
}

static const bd_onnx_given *find_given(const binder *b, const char *name) {
  for (int i = 0; i < b->options->given_count; i++)
    if (strcmp(b->options->given[i].input, name) == 0) return &b->options->given[i];
  return NULL;
}

static bd_status take_given(const binder *b, int input, const bd_onnx_given *given,
                            bd_onnx_fact *fact) {
  const bd_onnx_declared *declared = b->model->values[input].declared;
  const bd_onnx_tensor *tensor = given->tensor;
  bool same =
      declared->dtype == tensor->dtype && (declared->rank < 0 || declared->rank == tensor->rank);
  for (int d = 0; same && d < declared->rank; d++)
    same = declared->dims[d].value < 0 || declared->dims[d].value == tensor->dims[d];
  if (!same)
    return bd_fail(b->ctx, BD_INVALID, bd_loc_file(b->model->path),
                   "the tensor given for input \"%s\" has another type or shape than the input",
                   given->input);
  bd_onnx_number *dims = BD_NEW_ARRAY(b->ctx->arena, bd_onnx_number, tensor->rank);
  for (int d = 0; d < tensor->rank; d++)
    dims[d] = bd_onnx_whole(tensor->dims[d]);
  *fact = (bd_onnx_fact){.dtype = tensor->dtype, .rank = tensor->rank, .dims = dims};
  if (given->elements) fact->tensor = tensor;
  return BD_OK;
}

static bd_status bind_input(const binder *b, int input, bd_onnx_fact *fact) {
  const bd_onnx_value *value = &b->model->values[input];
  const bd_onnx_declared *declared = value->declared;
  bd_loc loc = bd_loc_file(b->model->path);
  const bd_onnx_given *given = find_given(b, value->name);
  if (given) return take_given(b, input, given, fact);
  if (bd_onnx_dtype_bytes(declared->dtype) == 0)
    return bd_fail(b->ctx, BD_UNSUPPORTED, loc, "input \"%s\" has elements of %s", value->name,
                   bd_onnx_dtype_name(declared->dtype));
  if (declared->rank < 0)
    return bd_fail(b->ctx, BD_UNSUPPORTED, loc,
                   "input \"%s\" has no shape; export the model with the shapes of its inputs",
                   value->name);
  bd_onnx_number *dims = BD_NEW_ARRAY(b->ctx->arena, bd_onnx_number, declared->rank), elements;
  int batches = 0;
  for (int d = 0; d < declared->rank; d++) {
    BD_TRY(bind_extent(b, input, d, &declared->dims[d], &dims[d]));
    batches += dims[d].batch;
  }
  if (batches > 1 || !bd_onnx_product(dims, declared->rank, &elements))
    return bd_fail(b->ctx, BD_INVALID, loc,
                   "input \"%s\", %s, has more than 2^46 elements, or the batch twice", value->name,
                   bd_onnx_dims_text(b->ctx, declared->rank, dims));
  *fact = (bd_onnx_fact){.dtype = declared->dtype, .rank = declared->rank, .dims = dims};
  return BD_OK;
}

// A symbol that the user gave a number and no input has is a misspelt one.
static bd_status check_dims(const binder *b) {
  for (int i = 0; i < b->options->dim_count; i++) {
    const char *symbol = b->options->dims[i].symbol;
    bool used = is_inner(b->model, symbol);
    for (int k = 0; k < b->model->input_count && !used; k++) {
      const bd_onnx_declared *declared = b->model->values[b->model->inputs[k]].declared;
      used = declared->rank > 0 && declared->dims[0].symbol &&
             strcmp(declared->dims[0].symbol, symbol) == 0;
    }
    if (!used)
      return bd_fail(b->ctx, BD_INVALID, bd_loc_file(b->model->path),
                     "no input has the symbol \"%s\" as an extent", symbol);
  }
  return BD_OK;
}

bd_status bd_onnx_bind_inputs(bd_ctx *ctx, const bd_onnx_model *model,
                              const bd_onnx_options *options, bd_onnx_fact *facts) {
  const binder b = {ctx, model, options};
  BD_TRY(check_dims(&b));
  for (int i = 0; i < model->input_count; i++)
    BD_TRY(bind_input(&b, model->inputs[i], &facts[model->inputs[i]]));
  return BD_OK;
}
