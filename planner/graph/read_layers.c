#include "ir/base/suggest.h"
#include "planner/graph/read_internal.h"
#include <math.h>
#include <string.h>

static int find_mode(bd_layers_reader *r, int group, int devices) {
  for (int n = 0; n < r->problem->mode_count; n++)
    if (r->modes[n].group == group && r->modes[n].devices == devices) return n;
  if (r->problem->mode_count == BD_LAYERS_MAX_MODES) return -1;
  r->modes[r->problem->mode_count] = (bd_layers_mode){group, devices};
  return r->problem->mode_count++;
}

static bd_status find_form(bd_layers_reader *r, const bd_json *item, const char *key, int *out) {
  const char *name = "";
  BD_TRY(bd_json_string(r->ctx, item, key, false, &name));
  for (*out = 0; *out < r->form_count; ++*out)
    if (strcmp(r->forms[*out], name) == 0) return BD_OK;
  if (r->form_count == BD_LAYERS_MAX_FORMS)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "more than %d forms", BD_LAYERS_MAX_FORMS);
  r->forms[r->form_count++] = name;
  return BD_OK;
}

// Numbers of an option; `*out_kind` NULL when it is for every kind.
static bd_status read_option(bd_layers_reader *r, const bd_json *item, bd_layers_option *out,
                             const char **out_kind, int64_t *out_devices) {
  static const char *const keys[] = {"name",
                                     "kind",
                                     "devices",
                                     "form",
                                     "micro_batches",
                                     "forward_seconds",
                                     "backward_seconds",
                                     "weight_seconds",
                                     "sync_seconds",
                                     "fixed_bytes",
                                     "micro_batch_bytes",
                                     "weight_input_bytes",
                                     "workspace_bytes",
                                     NULL};
  bd_ctx *ctx = r->ctx;
  int64_t micro_batches = 0;
  if (item->kind != BD_JSON_OBJECT)
    return bd_fail(ctx, BD_INVALID, item->loc, "an option is an object");
  BD_TRY(bd_json_only(ctx, item, keys));
  *out_kind = NULL;
  *out_devices = 1;
  BD_TRY(bd_json_string(ctx, item, "kind", false, out_kind));
  BD_TRY(bd_json_int(ctx, item, "devices", false, 1, BD_LAYERS_MAX_DEVICES, out_devices));
  BD_TRY(bd_json_int(ctx, item, "micro_batches", false, 1, BD_LAYERS_MAX_MICRO_BATCHES,
                     &micro_batches));
  out->micro_batches = (int)micro_batches;
  const double most = BD_LAYERS_MAX_SECONDS;
  BD_TRY(bd_json_real(ctx, item, "forward_seconds", true, 0, most, &out->forward_seconds));
  BD_TRY(bd_json_real(ctx, item, "backward_seconds", true, 0, most, &out->backward_seconds));
  BD_TRY(bd_json_real(ctx, item, "weight_seconds", false, 0, out->backward_seconds,
                      &out->weight_seconds));
  BD_TRY(bd_json_real(ctx, item, "sync_seconds", false, 0, most, &out->sync_seconds));
  const int64_t bytes = BD_LAYERS_MAX_BYTES;
  BD_TRY(bd_json_int(ctx, item, "fixed_bytes", false, 0, bytes, &out->fixed_bytes));
  BD_TRY(bd_json_int(ctx, item, "micro_batch_bytes", false, 0, bytes, &out->micro_batch_bytes));
  BD_TRY(bd_json_int(ctx, item, "weight_input_bytes", false, 0, bytes, &out->weight_input_bytes));
  BD_TRY(bd_json_int(ctx, item, "workspace_bytes", false, 0, bytes, &out->workspace_bytes));
  return find_form(r, item, "form", &out->form);
}

// An option for each group of its kind that has the devices. `speed` is for options of no kind.
static bd_status add_option(bd_layers_reader *r, const bd_json *item, int index,
                            bd_layers_option *options, int *count) {
  const char *kind;
  int64_t devices;
  bool known = false;
  bd_layers_option read = {.index = index};
  BD_TRY(read_option(r, item, &read, &kind, &devices));
  for (int g = 0; g < r->problem->group_count; g++) {
    if (kind && strcmp(kind, r->kinds[g])) continue;
    known = true;
    if (devices > r->groups[g].count) continue;
    bd_layers_option *out = &options[(*count)++];
    *out = read;
    out->mode = find_mode(r, g, (int)devices);
    if (out->mode < 0)
      return bd_fail(r->ctx, BD_INVALID, item->loc,
                     "more than %d pairs of a group and a number of devices", BD_LAYERS_MAX_MODES);
    if (kind) continue;
    out->forward_seconds /= r->speeds[g];
    out->backward_seconds /= r->speeds[g];
    out->weight_seconds /= r->speeds[g];
  }
  if (known) return BD_OK;
  return bd_fail(r->ctx, BD_INVALID, bd_json_find(item, "kind")->loc,
                 "no group of \"devices\" is of kind '%s'", kind);
}

static bd_status read_options(bd_layers_reader *r, const bd_json *item, bd_layers_layer *out,
                              const char ***out_names) {
  const bd_json *list;
  BD_TRY(bd_json_array(r->ctx, item, "options", true, &list));
  if (!list->count || list->count > BD_LAYERS_MAX_OPTIONS)
    return bd_fail(r->ctx, BD_INVALID, list->loc, "\"options\" wants 1 to %d entries",
                   BD_LAYERS_MAX_OPTIONS);
  bd_layers_option *options =
      BD_NEW_ARRAY(r->ctx->arena, bd_layers_option, list->count * (size_t)r->problem->group_count);
  *out_names = BD_NEW_ARRAY(r->ctx->arena, const char *, list->count);
  for (size_t i = 0; i < list->count; i++) {
    BD_TRY(add_option(r, &list->items[i], (int)i, options, &out->option_count));
    BD_TRY(bd_json_string(r->ctx, &list->items[i], "name", false, &(*out_names)[i]));
  }
  out->options = options;
  return BD_OK;
}

static bd_status read_entry(bd_layers_reader *r, const bd_json *item, bd_layers_layer *layers,
                            int index) {
  static const char *const keys[] = {"name", "repeat", "output_bytes", "options", NULL};
  bd_ctx *ctx = r->ctx;
  bd_layers_entry *entry = &r->entries[r->entry_count];
  bd_layers_layer layer = {.class = index};
  const char **names = NULL;
  int64_t repeat = 1;
  if (item->kind != BD_JSON_OBJECT)
    return bd_fail(ctx, BD_INVALID, item->loc, "a layer is an object");
  BD_TRY(bd_json_only(ctx, item, keys));
  BD_TRY(bd_json_string(ctx, item, "name", true, &entry->name));
  BD_TRY(bd_json_int(ctx, item, "repeat", false, 1, BD_LAYERS_MAX_LAYERS, &repeat));
  BD_TRY(
      bd_json_int(ctx, item, "output_bytes", false, 0, BD_LAYERS_MAX_BYTES, &entry->output_bytes));
  BD_TRY(read_options(r, item, &layer, &names));
  for (int i = 0; i < r->entry_count; i++)
    if (strcmp(r->entries[i].name, entry->name) == 0)
      return bd_fail(ctx, BD_INVALID, item->loc, "two layers are called '%s'", entry->name);
  entry->first = r->problem->layer_count;
  entry->count = (int)repeat;
  if (entry->first + entry->count > BD_LAYERS_MAX_LAYERS)
    return bd_fail(ctx, BD_INVALID, item->loc, "more than %d layers", BD_LAYERS_MAX_LAYERS);
  for (int i = 0; i < entry->count; i++) {
    int at = r->problem->layer_count++;
    layers[at] = layer;
    r->names->layer[at] = entry->name;
    r->names->copy[at] = i;
    r->names->option[at] = names;
  }
  r->entry_count++;
  return BD_OK;
}

// Changes of form that are not listed are not possible; no change is free.
static bd_status read_changes(bd_layers_reader *r) {
  static const char *const keys[] = {"from", "to", "seconds", NULL};
  const bd_json *list = NULL;
  for (int f = 0; f < BD_LAYERS_MAX_FORMS; f++)
    for (int g = 0; g < BD_LAYERS_MAX_FORMS; g++)
      r->change[f][g] = f == g ? 0 : INFINITY;
  BD_TRY(bd_json_array(r->ctx, r->root, "changes", false, &list));
  for (size_t i = 0; list && i < list->count; i++) {
    const bd_json *item = &list->items[i];
    int from, to, known = r->form_count;
    double seconds;
    if (item->kind != BD_JSON_OBJECT)
      return bd_fail(r->ctx, BD_INVALID, item->loc, "a change of form is an object");
    BD_TRY(bd_json_only(r->ctx, item, keys));
    BD_TRY(find_form(r, item, "from", &from));
    BD_TRY(find_form(r, item, "to", &to));
    BD_TRY(bd_json_real(r->ctx, item, "seconds", true, 0, BD_LAYERS_MAX_SECONDS, &seconds));
    if (r->form_count > known)
      return bd_fail(r->ctx, BD_INVALID, item->loc, "no option has the form '%s'", r->forms[known]);
    if (from == to)
      return bd_fail(r->ctx, BD_INVALID, item->loc, "a change is from one form to another");
    r->change[from][to] = seconds;
  }
  return BD_OK;
}

bd_status bd_layers_read_layers(bd_layers_reader *r) {
  bd_ctx *ctx = r->ctx;
  const bd_json *list;
  BD_TRY(bd_json_array(ctx, r->root, "layers", true, &list));
  if (!list->count || list->count > BD_LAYERS_MAX_LAYERS)
    return bd_fail(ctx, BD_INVALID, list->loc, "\"layers\" wants 1 to %d entries",
                   BD_LAYERS_MAX_LAYERS);
  bd_layers_layer *layers = BD_NEW_ARRAY(ctx->arena, bd_layers_layer, BD_LAYERS_MAX_LAYERS);
  r->problem->layers = layers;
  r->problem->modes = r->modes = BD_NEW_ARRAY(ctx->arena, bd_layers_mode, BD_LAYERS_MAX_MODES);
  r->entries = BD_NEW_ARRAY(ctx->arena, bd_layers_entry, list->count);
  r->names->layer = BD_NEW_ARRAY(ctx->arena, const char *, BD_LAYERS_MAX_LAYERS);
  r->names->copy = BD_NEW_ARRAY(ctx->arena, int, BD_LAYERS_MAX_LAYERS);
  r->names->option = BD_NEW_ARRAY(ctx->arena, const char **, BD_LAYERS_MAX_LAYERS);
  for (size_t i = 0; i < list->count; i++)
    BD_TRY(read_entry(r, &list->items[i], layers, (int)i));
  r->problem->form_count = r->form_count;
  return read_changes(r);
}
