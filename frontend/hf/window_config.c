// Which layers look back no further than a window.
#include "frontend/hf/llama_config.h"
#include <string.h>

// transformers' defaults.
enum { MAX_WINDOW_LAYERS = 28, SLIDING_WINDOW = 4096 };

// What is said of layer `i` by name must be what the two other members say of it.
static bd_status check_layer(bd_ctx *ctx, const bd_json *json, const bd_json *type, int64_t i,
                             bool sliding, bool used, int64_t first) {
  bool numbered = bd_json_given(json, "max_window_layers");
  if (!bd_json_given(json, "use_sliding_window") || (used && !numbered)) return BD_OK;
  if (sliding == (used && i >= first)) return BD_OK;
  const char *other = used ? bd_intern_f(ctx, "\"max_window_layers\" is %lld", (long long)first)
                           : "\"use_sliding_window\" is false";
  return bd_fail(ctx, BD_INVALID, type->loc,
                 "\"layer_types\": layer %lld is \"%s\", but %s; leave one of them", (long long)i,
                 type->string, other);
}

// Which layers have the window where each is named; *out_types: the names, or NULL.
static bd_status read_types(bd_ctx *ctx, const bd_json *json, int64_t layers, bool *windowed,
                            const bd_json **out_types) {
  const bd_json *types = NULL;
  BD_TRY(bd_json_array(ctx, json, "layer_types", false, &types));
  *out_types = types;
  if (!types) return BD_OK;
  if ((int64_t)types->count != layers)
    return bd_fail(ctx, BD_INVALID, types->loc, "\"layer_types\" names %zu layers of %lld",
                   types->count, (long long)layers);
  for (size_t i = 0; i < types->count; ++i) {
    const bd_json *type = &types->items[i];
    windowed[i] = type->kind == BD_JSON_STRING && strcmp(type->string, "sliding_attention") == 0;
    if (windowed[i] ||
        (type->kind == BD_JSON_STRING && strcmp(type->string, "full_attention") == 0))
      continue;
    return bd_fail(ctx, BD_UNSUPPORTED, type->loc,
                   "\"layer_types\": a layer is \"full_attention\" or \"sliding_attention\"");
  }
  return BD_OK;
}

// Which layers have the window: those from `max_window_layers` on, unless each is named.
static bd_status read_layers(bd_ctx *ctx, const bd_json *json, int64_t layers, bool *windowed) {
  const bd_json *types = NULL, *window = bd_json_find(json, "sliding_window");
  bool none =
      window && window->kind == BD_JSON_NULL; // then no layer has one, whatever it is called
  int64_t first = MAX_WINDOW_LAYERS;
  bool used = false;
  BD_TRY(bd_json_bool(ctx, json, "use_sliding_window", false, &used));
  BD_TRY(bd_json_int(ctx, json, "max_window_layers", false, 0, INT32_MAX, &first));
  BD_TRY(read_types(ctx, json, layers, windowed, &types));
  for (int64_t i = 0; i < layers; ++i) {
    if (types && !none)
      BD_TRY(check_layer(ctx, json, &types->items[i], i, windowed[i], used, first));
    if (!types) windowed[i] = used && i >= first;
  }
  return BD_OK;
}

// `sliding_window` of the layers, or the family's own; null: none has one.
static bd_status read_window(bd_ctx *ctx, const bd_json *json, const bool *windowed,
                             bd_llama_config *c) {
  int64_t window = c->window > 0 ? c->window : SLIDING_WINDOW;
  const bd_json *given = bd_json_find(json, "sliding_window");
  BD_TRY(bd_hf_extent(ctx, json, "sliding_window", &window));
  c->window = 0;
  if (given && given->kind == BD_JSON_NULL) return BD_OK;
  c->window = window;
  c->windowed = windowed;
  return BD_OK;
}

bd_status bd_hf_window_of_some(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bool *windowed = BD_NEW_ARRAY(ctx->arena, bool, c->layers);
  BD_TRY(read_layers(ctx, json, c->layers, windowed));
  return read_window(ctx, json, windowed, c);
}

bd_status bd_hf_window_by_turns(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bool *windowed = BD_NEW_ARRAY(ctx->arena, bool, c->layers);
  for (int64_t i = 0; i < c->layers; i += 2)
    windowed[i] = true;
  if (bd_json_given(json, "layer_types")) BD_TRY(read_layers(ctx, json, c->layers, windowed));
  return read_window(ctx, json, windowed, c);
}

bd_status bd_hf_window_of_all(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  int64_t unused = 0;
  bool used = false;
  BD_TRY(bd_json_bool(ctx, json, "use_sliding_window", false, &used));
  BD_TRY(bd_json_int(ctx, json, "max_window_layers", false, 0, INT32_MAX, &unused));
  BD_TRY(read_window(ctx, json, NULL, c));
  if (!used) c->window = 0;
  return BD_OK;
}

bd_status bd_hf_window_of_unturned(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bool *windowed = BD_NEW_ARRAY(ctx->arena, bool, c->layers), used = false;
  const bd_json *types = NULL;
  int64_t unused = 0;
  BD_TRY(bd_json_bool(ctx, json, "use_sliding_window", false, &used));
  BD_TRY(bd_json_int(ctx, json, "max_window_layers", false, 0, INT32_MAX, &unused));
  BD_TRY(bd_hf_extent(ctx, json, "sliding_window", &c->window));
  BD_TRY(read_types(ctx, json, c->layers, windowed, &types));
  for (int64_t i = 0; i < c->layers; ++i) {
    if (types && windowed[i] && (!used || c->window == 0))
      return bd_fail(
          ctx, BD_INVALID, types->items[i].loc, "\"layer_types\": layer %lld is \"%s\", but %s",
          (long long)i, types->items[i].string,
          used ? "\"sliding_window\" says of no window" : "\"use_sliding_window\" is not true");
    if (!types) windowed[i] = used && c->unturned[i];
  }
  c->windowed = windowed;
  return BD_OK;
}

bd_status bd_hf_window_of_most(bd_ctx *ctx, const bd_json *json, int64_t pattern,
                               bd_llama_config *c) {
  bool *windowed = BD_NEW_ARRAY(ctx->arena, bool, c->layers);
  const bd_json *types = NULL, *given = bd_json_given(json, "sliding_window_pattern");
  const bd_json *window = bd_json_find(json, "sliding_window");
  if (window && window->kind == BD_JSON_NULL)
    return bd_fail(ctx, BD_INVALID, window->loc,
                   "\"sliding_window\" is null, but some layers have a window; say how long it is");
  c->window = SLIDING_WINDOW;
  c->windowed = windowed;
  BD_TRY(bd_hf_extent(ctx, json, "sliding_window", &c->window));
  BD_TRY(bd_hf_extent(ctx, json, "sliding_window_pattern", &pattern));
  BD_TRY(read_types(ctx, json, c->layers, windowed, &types));
  for (int64_t i = 0; i < c->layers; ++i) {
    bool slides = (i + 1) % pattern != 0;
    if (types && given && windowed[i] != slides)
      return bd_fail(ctx, BD_INVALID, types->items[i].loc,
                     "\"layer_types\": layer %lld is \"%s\", but \"sliding_window_pattern\" is "
                     "%lld; leave one of them",
                     (long long)i, types->items[i].string, (long long)pattern);
    if (!types) windowed[i] = slides;
  }
  return BD_OK;
}
