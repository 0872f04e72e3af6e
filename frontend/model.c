#include "frontend/hf/hf.h"
#include "frontend/json/model_json.h"
#include "frontend/transformer.h"
#include "ir/base/file.h"
#include <string.h>

#define MODEL_TEXT_LIMIT_BYTES ((size_t)64 << 20)

bd_status bd_choose_sequence(bd_ctx *ctx, const bd_model_options *options, int64_t positions,
                             bd_loc loc, int64_t *out_sequence) {
  if (options->sequence > positions)
    return bd_fail(ctx, BD_INVALID, loc,
                   "a sequence of %lld is longer than the model's %lld positions",
                   (long long)options->sequence, (long long)positions);
  *out_sequence = options->sequence > 0 ? options->sequence : positions;
  return BD_OK;
}

static bool ends_with(const char *text, const char *tail) {
  size_t length = strlen(text), tail_length = strlen(tail);
  return length >= tail_length && strcmp(text + length - tail_length, tail) == 0;
}

static bd_status refuse_options(bd_ctx *ctx, const char *spec, const bd_model_options *options) {
  if (options->samples)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(spec),
                   "the inputs of a graph file are fixed: a stream of tokens is no samples");
  if (options->vocabulary == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_loc_file(spec),
                 "the shapes of a graph file are fixed: its vocabulary cannot be changed");
}

static bd_status check_sequence(bd_ctx *ctx, const char *spec, const bd_model_options *options,
                                const bd_module *graph) {
  if (options->sequence == 0 || options->sequence == bd_module_sequence(graph)) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_loc_file(spec),
                 "the shapes of a graph file are fixed: its sequence length cannot be changed");
}

static bd_status load_text(bd_ctx *ctx, const char *path, bd_module **out_graph) {
  char *data = NULL;
  size_t bytes = 0;
  BD_TRY(bd_file_read(ctx, path, MODEL_TEXT_LIMIT_BYTES, &data, &bytes));
  BD_TRY(bd_module_parse(ctx, path, data, bytes, out_graph));
  if ((*out_graph)->stage == BD_STAGE_GRAPH) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                 "a module of stage %s cannot be compiled; a model is of stage graph",
                 bd_stage_name((*out_graph)->stage));
}

static bd_status load(bd_ctx *ctx, const char *spec, const bd_model_options *options,
                      bd_module **out_graph) {
  if (bd_preset_exists(spec)) return bd_preset_load(ctx, spec, options, out_graph);
  if (bd_is_folder(spec)) return bd_hf_load(ctx, spec, options, out_graph);
  if (ends_with(spec, ".json")) {
    BD_TRY(refuse_options(ctx, spec, options));
    BD_TRY(bd_model_json_load(ctx, spec, out_graph));
    return check_sequence(ctx, spec, options, *out_graph);
  }
  if (ends_with(spec, ".braid")) {
    BD_TRY(refuse_options(ctx, spec, options));
    BD_TRY(load_text(ctx, spec, out_graph));
    return check_sequence(ctx, spec, options, *out_graph);
  }
  if (ends_with(spec, ".onnx"))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(spec),
                   "an ONNX model is imported first: 'braid import %s -o MODEL.braid', which tells "
                   "its symbolic extents and its loss",
                   spec);
  if (bd_file_exists(spec))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(spec),
                   "not a model: expected a Hugging Face folder, a .json graph or a .braid text");
  return bd_preset_load(ctx, spec, options, out_graph);
}

bd_status bd_model_load(bd_ctx *ctx, const char *spec, const bd_model_options *options,
                        bd_module **out_graph) {
  if (options->sequence < 0 || options->vocabulary < 0 ||
      options->sequence > BD_MAX_CONFIG_EXTENT || options->vocabulary > BD_MAX_CONFIG_EXTENT)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                   "sequence length and vocabulary lie between 1 and 2^28");
  bd_module *graph = NULL;
  BD_TRY(load(ctx, bd_intern_z(ctx, spec), options, &graph));
  BD_TRY(bd_module_verify(ctx, graph));
  *out_graph = graph;
  return BD_OK;
}
