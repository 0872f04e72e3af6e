// Which layers look back no further than a window.
#include "frontend/hf/llama_config.h"
#include <string.h>

static bool says(const bd_json *json, const char *key) {
  const bd_json *member = bd_json_find(json, key);
  return member && member->kind != BD_JSON_NULL;
}

// What is said of layer `i` by name must be what the two other members say of it.
static bd_status check_layer(bd_ctx *ctx, const bd_json *json, const bd_json *type, int64_t i,
                             bool sliding, bool used, int64_t first) {
  bool numbered = says(json, "max_window_layers");
  if (!says(json, "use_sliding_window") || (used && !numbered)) return BD_OK;
  if (sliding == (used && i >= first)) return BD_OK;
  const char *other = used ? bd_intern_f(ctx, "\"max_window_layers\" is %lld", (long long)first)
                           : "\"use_sliding_window\" is false";
  return bd_fail(ctx, BD_INVALID, type->loc,
                 "\"layer_types\": layer %lld is \"%s\", but %s; leave one of them", (long long)i,
                 type->string, other);
}

// Whether a layer has the window: of those from `max_window_layers` on, unless each is named.
static bd_status read_layers(bd_ctx *ctx, const bd_json *json, int64_t layers, bool *out_window) {
  const bd_json *types = NULL;
  int64_t first = 0;
  BD_TRY(bd_json_array(ctx, json, "layer_types", false, &types));
  BD_TRY(bd_json_bool(ctx, json, "use_sliding_window", false, out_window));
  BD_TRY(bd_json_int(ctx, json, "max_window_layers", false, 0, INT32_MAX, &first));
  bool used = *out_window;
  *out_window &= first < layers;
  if (!types) return BD_OK;
  *out_window = false;
  if ((int64_t)types->count != layers)
    return bd_fail(ctx, BD_INVALID, types->loc, "\"layer_types\" names %zu layers of %lld",
                   types->count, (long long)layers);
  for (size_t i = 0; i < types->count; ++i) {
    const bd_json *type = &types->items[i];
    bool sliding = type->kind == BD_JSON_STRING && strcmp(type->string, "sliding_attention") == 0;
    *out_window |= sliding;
    if (sliding || (type->kind == BD_JSON_STRING && strcmp(type->string, "full_attention") == 0)) {
      BD_TRY(check_layer(ctx, json, type, (int64_t)i, sliding, used, first));
      continue;
    }
    return bd_fail(ctx, BD_UNSUPPORTED, type->loc,
                   "\"layer_types\": a layer is \"full_attention\" or \"sliding_attention\"");
  }
  return BD_OK;
}

bd_status bd_hf_window_of_some(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bool slides = false;
  BD_TRY(read_layers(ctx, json, c->layers, &slides));
  int64_t window = 4096;
  const bd_json *given = bd_json_find(json, "sliding_window");
  BD_TRY(bd_hf_extent(ctx, json, "sliding_window", &window));
  if (slides && !(given && given->kind == BD_JSON_NULL)) c->window = window;
  return BD_OK;
}
