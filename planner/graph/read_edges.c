#include "planner/graph/read_internal.h"
#include <string.h>

// Numbers of a table that the cuts may take together.
#define TABLE_LIMIT ((int64_t)1 << 24)
enum { EDGE_LIMIT = 1 << 16 };

static void add_value(bd_layers_reader *r, bd_layers_value value) {
  if (!value.bytes) return;
  if (r->value_count == r->value_capacity) {
    int wanted = r->value_capacity ? 2 * r->value_capacity : 64;
    r->values = bd_arena_grow(r->ctx->arena, r->values, (size_t)r->value_count, (size_t)wanted,
                              sizeof *r->values);
    r->value_capacity = wanted;
  }
  r->values[r->value_count++] = value;
}

static bd_status find_entry(bd_layers_reader *r, const bd_json *name, const bd_layers_entry **out) {
  for (int i = 0; name->kind == BD_JSON_STRING && i < r->entry_count; i++)
    if (strcmp(r->entries[i].name, name->string) == 0) {
      *out = &r->entries[i];
      return BD_OK;
    }
  return bd_fail(r->ctx, BD_INVALID, name->loc, "not the name of a layer");
}

// Adds a reader to the value.
static bd_status add_reader(bd_layers_reader *r, const bd_json *name, const char *from,
                            bd_layers_value *value) {
  const bd_layers_entry *to;
  BD_TRY(find_entry(r, name, &to));
  if (to->first <= value->from)
    return bd_fail(r->ctx, BD_INVALID, name->loc,
                   "'%s' does not come after '%s'; list the layers in an order in which values "
                   "flow",
                   to->name, from);
  if (to->first > value->to) value->to = to->first;
  if (to->first > value->from + 1) value->skips = true;
  return BD_OK;
}

static bd_status read_edge(bd_layers_reader *r, const bd_json *item) {
  static const char *const keys[] = {"from", "to", "bytes", NULL};
  if (item->kind != BD_JSON_OBJECT)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "an edge is an object");
  BD_TRY(bd_json_only(r->ctx, item, keys));
  const bd_json *from_name = bd_json_find(item, "from"), *to = bd_json_find(item, "to");
  const bd_layers_entry *from;
  if (!from_name || !to)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "an edge has \"from\" and \"to\"");
  BD_TRY(find_entry(r, from_name, &from));
  bd_layers_value value = {.from = from->first + from->count - 1, .bytes = from->output_bytes};
  BD_TRY(bd_json_int(r->ctx, item, "bytes", false, 0, BD_LAYERS_MAX_BYTES, &value.bytes));
  if (to->kind != BD_JSON_ARRAY) BD_TRY(add_reader(r, to, from->name, &value));
  for (size_t i = 0; to->kind == BD_JSON_ARRAY && i < to->count; i++)
    BD_TRY(add_reader(r, &to->items[i], from->name, &value));
  if (!value.to) return bd_fail(r->ctx, BD_INVALID, to->loc, "\"to\" names no layer");
  add_value(r, value);
  return BD_OK;
}

// What passes between the layers before one and the rest.
typedef struct crossing {
  int64_t messages, bytes, skip_bytes;
} crossing;

// Per layer, from the values that begin and end to cross there.
static crossing *find_crossings(const bd_layers_reader *r) {
  int layers = r->problem->layer_count;
  crossing *out = BD_NEW_ARRAY(r->ctx->arena, crossing, layers + 1);
  for (int i = 0; i < r->value_count; i++) {
    const bd_layers_value *value = &r->values[i];
    crossing *begins = &out[value->from + 1], *ends = &out[value->to + 1];
    int64_t skip_bytes = value->skips ? value->bytes : 0;
    *begins = (crossing){begins->messages + 1, begins->bytes + value->bytes,
                         begins->skip_bytes + skip_bytes};
    *ends =
        (crossing){ends->messages - 1, ends->bytes - value->bytes, ends->skip_bytes - skip_bytes};
  }
  for (int l = 1; l <= layers; l++) {
    out[l].messages += out[l - 1].messages;
    out[l].bytes += out[l - 1].bytes;
    out[l].skip_bytes += out[l - 1].skip_bytes;
  }
  return out;
}

// Seconds in which values pass between stages one way: every device of the smaller stage moves its
// share over a link of its own.
static double pass_seconds(const bd_layers_reader *r, const crossing *at, int left, int right) {
  const bd_layers_mode *a = &r->modes[left], *b = &r->modes[right];
  const bd_layers_link *link = &r->links[a->group * r->problem->group_count + b->group];
  int width = a->devices < b->devices ? a->devices : b->devices;
  return (double)at->messages * link->latency_seconds +
         (double)at->bytes / (width * link->bytes_per_second);
}

static bd_layers_cut make_cut(const bd_layers_reader *r, const crossing *at, const double *change) {
  int modes = r->problem->mode_count, cells = r->form_count * r->form_count;
  double *send = BD_NEW_ARRAY(r->ctx->arena, double, modes *modes *cells);
  double *receive = BD_NEW_ARRAY(r->ctx->arena, double, modes *modes *cells);
  int64_t *held = BD_NEW_ARRAY(r->ctx->arena, int64_t, modes);
  for (int n = 0; n < modes; n++)
    held[n] = (at->skip_bytes + r->modes[n].devices - 1) / r->modes[n].devices;
  // The stage that is sent something brings it to the form it wants.
  for (int pair = 0; pair < modes * modes; pair++)
    for (int i = 0; i < cells; i++) {
      send[pair * cells + i] = 2 * pass_seconds(r, at, pair / modes, pair % modes);
      receive[pair * cells + i] = send[pair * cells + i] + change[i];
    }
  return (bd_layers_cut){change, send, receive, held};
}

// The chain within entries, which their copies form, and between them where no edges are given.
static void add_chain(bd_layers_reader *r, bool between) {
  for (int i = 0; i < r->entry_count; i++) {
    const bd_layers_entry *entry = &r->entries[i];
    int end = entry->first + entry->count, last = r->problem->layer_count - 1;
    for (int at = entry->first; at < end; at++)
      if (at < last && (at + 1 < end || between))
        add_value(r, (bd_layers_value){at, at + 1, false, entry->output_bytes});
  }
}

bd_status bd_layers_read_edges(bd_layers_reader *r) {
  const bd_json *list = NULL;
  bd_ctx *ctx = r->ctx;
  int modes = r->problem->mode_count, forms = r->form_count, layers = r->problem->layer_count;
  BD_TRY(bd_json_array(ctx, r->root, "edges", false, &list));
  if (list && list->count > EDGE_LIMIT)
    return bd_fail(ctx, BD_INVALID, list->loc, "more than %d edges", EDGE_LIMIT);
  for (size_t i = 0; list && i < list->count; i++)
    BD_TRY(read_edge(r, &list->items[i]));
  add_chain(r, !list);
  double *change = BD_NEW_ARRAY(ctx->arena, double, modes *forms *forms);
  for (int i = 0; i < modes * forms * forms; i++)
    change[i] = r->change[i / forms % forms][i % forms];
  const crossing *crossings = find_crossings(r);
  bd_layers_cut *cuts = BD_NEW_ARRAY(ctx->arena, bd_layers_cut, layers);
  int64_t numbers = 0;
  for (int l = 1; l < layers; l++) {
    const crossing *at = &crossings[l], *before = &crossings[l - 1];
    if (at->bytes > BD_LAYERS_MAX_BYTES)
      return bd_fail(ctx, BD_INVALID, list ? list->loc : r->root->loc,
                     "more than %lld bytes pass from layer %d on to later ones",
                     (long long)BD_LAYERS_MAX_BYTES, l - 1);
    cuts[l] = cuts[l - 1];
    if (l > 1 && at->messages == before->messages && at->bytes == before->bytes &&
        at->skip_bytes == before->skip_bytes)
      continue;
    numbers += 2 * (int64_t)modes * modes * forms * forms;
    if (numbers > TABLE_LIMIT)
      return bd_fail(ctx, BD_INVALID, r->root->loc,
                     "too many layers for %d pairs of a group and a number of devices", modes);
    cuts[l] = make_cut(r, at, change);
  }
  r->problem->cuts = cuts;
  return BD_OK;
}
