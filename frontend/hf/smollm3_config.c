#include "frontend/hf/llama_config.h"

enum { NO_ROPE_INTERVAL = 4 }; // transformers' default

const char *const bd_hf_smollm3_keys[] = {
    "head_dim",           "attention_bias",         "mlp_bias",    "pretraining_tp",
    "use_sliding_window", "sliding_window",         "layer_types", "max_window_layers",
    "no_rope_layers",     "no_rope_layer_interval", NULL};

// Layers that are not turned: each `no_rope_layer_interval`-th, and those that are 0 where
// `no_rope_layers` lists them all.
static bd_status read_unturned(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  const bd_json *listed = NULL;
  bool *unturned = BD_NEW_ARRAY(ctx->arena, bool, c->layers);
  int64_t interval = NO_ROPE_INTERVAL, turned = 0;
  BD_TRY(bd_hf_extent(ctx, json, "no_rope_layer_interval", &interval));
  BD_TRY(bd_json_array(ctx, json, "no_rope_layers", false, &listed));
  if (listed && (int64_t)listed->count != c->layers)
    return bd_fail(ctx, BD_INVALID, listed->loc, "\"no_rope_layers\" has %zu layers of %lld",
                   listed->count, (long long)c->layers);
  for (int64_t i = 0; i < c->layers; ++i) {
    bool at_interval = (i + 1) % interval == 0;
    if (listed && !bd_json_whole(&listed->items[i], 0, 1, &turned))
      return bd_fail(ctx, BD_INVALID, listed->items[i].loc,
                     "\"no_rope_layers\": expected 1, of a layer that has rotary positions, or 0");
    unturned[i] = listed ? turned == 0 : at_interval;
    if (unturned[i] != at_interval && bd_json_given(json, "no_rope_layer_interval"))
      return bd_fail(ctx, BD_INVALID, listed->items[i].loc,
                     "\"no_rope_layers\": layer %lld is %lld, but \"no_rope_layer_interval\" is "
                     "%lld; leave one of them",
                     (long long)i, (long long)turned, (long long)interval);
  }
  c->unturned = unturned;
  return BD_OK;
}

bd_status bd_hf_read_smollm3(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias));
  c->output_bias = c->query_bias;
  BD_TRY(bd_json_bool(ctx, json, "mlp_bias", false, &c->mlp_bias));
  BD_TRY(read_unturned(ctx, json, c));
  return bd_hf_window_of_unturned(ctx, json, c);
}
