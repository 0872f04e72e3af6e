// Files of chains: `L layers`, a line per layer, and the size of the last output.
#include "planner/remat/chain.h"
#include "planner/remat/lines.h"

#define LAYER_FORM "LAYER FORWARD BACKWARD INPUT TAPE"

static bd_status wrong_end(const bd_lines *lines, const char *wanted) {
  return bd_fail(lines->ctx, BD_INVALID, bd_lines_loc(lines, 0), "the file ends where %s is wanted",
                 wanted);
}

static bd_status read_layer(bd_lines *lines, int layer, bd_chain *chain) {
  int64_t number;
  if (!bd_lines_next(lines))
    return wrong_end(lines, bd_intern_f(lines->ctx, "layer %d of %d", layer, chain->layers - 1));
  BD_TRY(bd_lines_count(lines, 5, LAYER_FORM));
  BD_TRY(bd_lines_int(lines, 0, "the layer's number", layer, layer, &number));
  BD_TRY(bd_lines_real(lines, 1, "the forward time", &chain->forward[layer]));
  BD_TRY(bd_lines_real(lines, 2, "the backward time", &chain->backward[layer]));
  BD_TRY(bd_lines_int(lines, 3, "the input's size", 0, BD_CHAIN_MAX_SLOTS, &chain->value[layer]));
  return bd_lines_int(lines, 4, "the tape's size", 0, BD_CHAIN_MAX_SLOTS, &chain->tape[layer]);
}

static bd_status check_tapes(bd_ctx *ctx, const char *file, const bd_chain *chain) {
  for (int i = 0; i < chain->layers; i++)
    if (chain->tape[i] < chain->value[i + 1])
      return bd_fail(ctx, BD_INVALID, bd_loc_file(file),
                     "the tape of layer %d takes %lld slots and its output alone %lld; a tape "
                     "includes the output",
                     i, (long long)chain->tape[i], (long long)chain->value[i + 1]);
  return BD_OK;
}

bd_status bd_chain_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                        bd_chain *out) {
  bd_lines lines = bd_lines_init(ctx, file, data, bytes);
  int64_t layers;
  if (!bd_lines_next(&lines)) return wrong_end(&lines, "'L LAYERS'");
  BD_TRY(bd_lines_count(&lines, 2, "L LAYERS"));
  BD_TRY(bd_lines_int(&lines, 1, "the number of layers", 1, BD_CHAIN_MAX_LAYERS, &layers));
  out->layers = (int)layers + 1;
  out->forward = BD_NEW_ARRAY(ctx->arena, double, out->layers);
  out->backward = BD_NEW_ARRAY(ctx->arena, double, out->layers);
  out->value = BD_NEW_ARRAY(ctx->arena, int64_t, out->layers + 1);
  out->tape = BD_NEW_ARRAY(ctx->arena, int64_t, out->layers);
  for (int i = 0; i < layers; i++)
    BD_TRY(read_layer(&lines, i, out));
  if (!bd_lines_next(&lines)) return wrong_end(&lines, "'a_last SIZE'");
  if (!bd_lines_is(&lines, 0, "a_last"))
    return bd_fail(ctx, BD_INVALID, bd_lines_loc(&lines, 0),
                   "'a_last SIZE', the size of the last output, is wanted after the layers");
  BD_TRY(bd_lines_count(&lines, 2, "a_last SIZE"));
  BD_TRY(bd_lines_int(&lines, 1, "the last output's size", 0, BD_CHAIN_MAX_SLOTS,
                      &out->value[layers]));
  if (bd_lines_next(&lines))
    return bd_fail(ctx, BD_INVALID, bd_lines_loc(&lines, 0), "nothing may follow 'a_last SIZE'");
  return check_tapes(ctx, file, out);
}
