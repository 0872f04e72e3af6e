#include "ir/plan_details.h"
#include <math.h>
#include <string.h>

enum { PRINTED_TENANTS = 12 }; // of a stage

const char *bd_traffic_name(bd_traffic traffic) {
  static const char *const names[BD_TRAFFIC_COUNT] = {
      "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "mirror", "send", "receive"};
  return names[traffic];
}

static void print_link(const bd_axis_link *link, bd_text *text) {
  bd_text_add(text, "{");
  bd_text_add_json_member(text, "latency_seconds", link->latency_seconds);
  bd_text_add(text, ", ");
  bd_text_add_json_member(text, "bytes_per_second", link->bytes_per_second);
  bd_text_addf(text, ", \"inside_node\": %s}", link->inside_node ? "true" : "false");
}

static void print_links(const bd_plan_details *details, int axes, const char *indent,
                        bd_text *text) {
  bd_text_addf(text, "%s  \"links\": [", indent);
  for (int axis = 0; axis < axes; axis++) {
    bd_text_add(text, axis ? ", " : "");
    print_link(&details->link[axis], text);
  }
  bd_text_addf(text, "],\n%s  \"stage_link\": ", indent);
  print_link(&details->stage_link, text);
  bd_text_add(text, ",\n");
}

static void print_traffic(const bd_stage_details *stage, int axes, bd_text *text) {
  bd_text_add(text, "\"traffic\": [");
  bool first = true;
  for (int kind = 0; kind < BD_TRAFFIC_COUNT; kind++)
    for (int axis = 0; axis < (kind < BD_TRAFFIC_SEND ? axes : 1); axis++) {
      if (stage->traffic_seconds[kind][axis] <= 0) continue;
      bd_text_addf(text, "%s{\"kind\": \"%s\", ", first ? "" : ", ",
                   bd_traffic_name((bd_traffic)kind));
      if (kind < BD_TRAFFIC_SEND) bd_text_addf(text, "\"axis\": %d, ", axis);
      bd_text_add_json_member(text, "seconds", stage->traffic_seconds[kind][axis]);
      bd_text_add(text, "}");
      first = false;
    }
  bd_text_add(text, "]");
}

// The largest few.
static void print_live(const bd_stage_details *stage, const char *indent, bd_text *text) {
  bd_text_add(text, "\"live\": [");
  for (int i = 0; i < stage->live_count && i < PRINTED_TENANTS; i++) {
    const bd_tenant *tenant = &stage->live[i];
    bd_text_addf(text, "%s\n%s      {\"name\": ", i ? "," : "", indent);
    bd_text_add_json_string(text, tenant->name);
    bd_text_addf(text, ", \"segment\": \"%s\", \"bytes\": %lld, \"count\": %d}",
                 bd_segment_name(tenant->segment), (long long)tenant->bytes, tenant->count);
  }
  bd_text_add(text, "]");
}

static void print_stage(const bd_stage_details *stage, int axes, const char *indent,
                        bd_text *text) {
  bd_text_addf(text, "%s    {", indent);
  bd_text_add_json_member(text, "compute_seconds", stage->compute_seconds);
  bd_text_add(text, ", ");
  bd_text_add_json_member(text, "recompute_seconds", stage->recompute_seconds);
  if (stage->aside_seconds > 0) {
    bd_text_add(text, ", ");
    bd_text_add_json_member(text, "aside_seconds", stage->aside_seconds);
  }
  bd_text_add(text, ", ");
  bd_text_add_json_member(text, "update_seconds", stage->update_seconds);
  bd_text_add(text, ", \"sync_seconds\": [");
  for (int axis = 0; axis < axes; axis++) {
    bd_text_add(text, axis ? ", " : "");
    bd_text_add_json_number(text, stage->sync_seconds[axis]);
  }
  bd_text_addf(text, "],\n%s     ", indent);
  bd_text_add_json_member(text, "flops", stage->flops);
  bd_text_add(text, ", ");
  bd_text_add_json_member(text, "recompute_flops", stage->recompute_flops);
  bd_text_addf(text, ", \"recompute_bytes\": %lld,", (long long)stage->recompute_bytes);
  if (stage->host_bytes) bd_text_addf(text, " \"host_bytes\": %lld,", (long long)stage->host_bytes);
  bd_text_addf(text, "\n%s     ", indent);
  print_traffic(stage, axes, text);
  bd_text_addf(text, ",\n%s     ", indent);
  print_live(stage, indent, text);
  bd_text_add(text, "}");
}

static void print_familiar(const bd_plan_details *details, const char *indent, bd_text *text) {
  bd_text_addf(text, "%s  \"familiar\": [", indent);
  for (int i = 0; i < details->familiar_count; i++) {
    const bd_familiar *one = &details->familiar[i];
    bd_text_addf(text, "%s\n%s    {\"name\": ", i ? "," : "", indent);
    bd_text_add_json_string(text, one->name);
    bd_text_add(text, ", \"pins\": ");
    bd_text_add_json_string(text, one->pins);
    bd_text_add(text, ", ");
    bd_text_add_json_member(text, "step_seconds", one->step_seconds);
    bd_text_addf(text, ", \"lacking_bytes\": %lld", (long long)one->lacking_bytes);
    if (one->reason) {
      bd_text_add(text, ", \"reason\": ");
      bd_text_add_json_string(text, one->reason);
    }
    bd_text_add(text, "}");
  }
  bd_text_add(text, "]\n");
}

void bd_plan_details_print(const bd_plan_details *details, int stages, int axes, const char *indent,
                           bd_text *text) {
  bd_text_addf(text, "{\n%s  ", indent);
  bd_text_add_json_member(text, "model_flops", details->model_flops);
  bd_text_add(text, ", ");
  bd_text_add_json_member(text, "flops_per_second", details->flops_per_second);
  bd_text_addf(text, ",\n%s  \"weights\": %d, \"gradient_parts\": %d, \"gathered\": %d", indent,
               details->weights, details->gradient_parts, details->gathered);
  if (details->marked_products)
    bd_text_addf(text, ",\n%s  \"products\": %d, \"marked_products\": %d, \"float8_products\": %d",
                 indent, details->products, details->marked_products, details->float8_products);
  bd_text_add(text, ",\n");
  print_links(details, axes, indent, text);
  bd_text_addf(text, "%s  \"stages\": [\n", indent);
  for (int s = 0; s < stages; s++) {
    print_stage(&details->stages[s], axes, indent, text);
    bd_text_add(text, s + 1 < stages ? ",\n" : "\n");
  }
  bd_text_addf(text, "%s  ],\n", indent);
  bd_text_addf(text, "%s  \"fullest_stage\": %d,\n", indent, details->fullest_stage);
  print_familiar(details, indent, text);
  bd_text_addf(text, "%s}", indent);
}

typedef struct details_reader {
  bd_ctx *ctx;
  int stages, axes;
  bd_plan_details *out;
} details_reader;

static bd_status read_link(const details_reader *r, const bd_json *json, bd_axis_link *out) {
  static const char *const keys[] = {"latency_seconds", "bytes_per_second", "inside_node", NULL};
  if (json->kind != BD_JSON_OBJECT)
    return bd_fail(r->ctx, BD_INVALID, json->loc, "a link is an object");
  BD_TRY(bd_json_only(r->ctx, json, keys));
  BD_TRY(bd_json_real(r->ctx, json, "latency_seconds", true, 0, 1e300, &out->latency_seconds));
  BD_TRY(bd_json_real(r->ctx, json, "bytes_per_second", true, 0, 1e300, &out->bytes_per_second));
  return bd_json_bool(r->ctx, json, "inside_node", true, &out->inside_node);
}

static bd_status read_traffic(const details_reader *r, const bd_json *stage,
                              bd_stage_details *out) {
  static const char *const keys[] = {"kind", "axis", "seconds", NULL};
  const bd_json *list;
  BD_TRY(bd_json_array(r->ctx, stage, "traffic", true, &list));
  for (size_t i = 0; i < list->count; i++) {
    const bd_json *item = &list->items[i];
    const char *name;
    int64_t axis = 0;
    double seconds;
    BD_TRY(bd_json_only(r->ctx, item, keys));
    BD_TRY(bd_json_string(r->ctx, item, "kind", true, &name));
    BD_TRY(bd_json_int(r->ctx, item, "axis", false, 0, r->axes - 1, &axis));
    BD_TRY(bd_json_real(r->ctx, item, "seconds", true, 0, 1e300, &seconds));
    int kind = 0;
    while (kind < BD_TRAFFIC_COUNT && strcmp(bd_traffic_name((bd_traffic)kind), name))
      kind++;
    if (kind == BD_TRAFFIC_COUNT)
      return bd_fail(r->ctx, BD_INVALID, item->loc, "unknown kind of traffic");
    out->traffic_seconds[kind][axis] += seconds;
  }
  return BD_OK;
}

static bool find_segment(const char *name, bd_segment *out) {
  for (int s = 1; s < BD_SEGMENT_COUNT; s++)
    if (strcmp(bd_segment_name((bd_segment)s), name) == 0) {
      *out = (bd_segment)s;
      return true;
    }
  return false;
}

static bd_status read_live(const details_reader *r, const bd_json *json, bd_stage_details *out) {
  static const char *const keys[] = {"name", "segment", "bytes", "count", NULL};
  bd_ctx *ctx = r->ctx;
  const bd_json *list = NULL;
  BD_TRY(bd_json_array(ctx, json, "live", false, &list));
  if (!list) return BD_OK;
  out->live_count = (int)list->count;
  out->live = BD_NEW_ARRAY(ctx->arena, bd_tenant, list->count);
  for (size_t i = 0; i < list->count; i++) {
    const bd_json *item = &list->items[i];
    bd_tenant *tenant = &out->live[i];
    const char *segment;
    int64_t count;
    BD_TRY(bd_json_only(ctx, item, keys));
    BD_TRY(bd_json_string(ctx, item, "name", true, &tenant->name));
    BD_TRY(bd_json_string(ctx, item, "segment", true, &segment));
    BD_TRY(bd_json_int(ctx, item, "bytes", true, 0, INT64_MAX, &tenant->bytes));
    BD_TRY(bd_json_int(ctx, item, "count", true, 0, INT32_MAX, &count));
    tenant->count = (int)count;
    if (!find_segment(segment, &tenant->segment))
      return bd_fail(ctx, BD_INVALID, item->loc, "unknown segment");
  }
  return BD_OK;
}

static bd_status read_stage(const details_reader *r, const bd_json *json, bd_stage_details *out) {
  static const char *const keys[] = {"compute_seconds",
                                     "recompute_seconds",
                                     "aside_seconds",
                                     "update_seconds",
                                     "sync_seconds",
                                     "flops",
                                     "recompute_flops",
                                     "recompute_bytes",
                                     "host_bytes",
                                     "traffic",
                                     "live",
                                     NULL};
  bd_ctx *ctx = r->ctx;
  const bd_json *sync;
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(bd_json_real(ctx, json, "compute_seconds", true, 0, 1e300, &out->compute_seconds));
  BD_TRY(bd_json_real(ctx, json, "recompute_seconds", true, 0, 1e300, &out->recompute_seconds));
  BD_TRY(bd_json_real(ctx, json, "aside_seconds", false, 0, 1e300, &out->aside_seconds));
  BD_TRY(bd_json_real(ctx, json, "update_seconds", true, 0, 1e300, &out->update_seconds));
  BD_TRY(bd_json_real(ctx, json, "flops", true, 0, 1e300, &out->flops));
  BD_TRY(bd_json_real(ctx, json, "recompute_flops", true, 0, 1e300, &out->recompute_flops));
  BD_TRY(bd_json_int(ctx, json, "recompute_bytes", true, 0, INT64_MAX, &out->recompute_bytes));
  BD_TRY(bd_json_int(ctx, json, "host_bytes", false, 0, INT64_MAX, &out->host_bytes));
  BD_TRY(read_live(r, json, out));
  BD_TRY(bd_json_array(ctx, json, "sync_seconds", true, &sync));
  for (size_t axis = 0; axis < sync->count; axis++) {
    const bd_json *item = &sync->items[axis];
    if ((int)axis >= r->axes || (item->kind != BD_JSON_REAL && item->kind != BD_JSON_INT) ||
        !(item->real >= 0))
      return bd_fail(ctx, BD_INVALID, item->loc, "'sync_seconds' wants seconds per mesh axis");
    out->sync_seconds[axis] = item->real;
  }
  return read_traffic(r, json, out);
}

static bd_status read_stages(const details_reader *r, const bd_json *json) {
  const bd_json *list;
  BD_TRY(bd_json_array(r->ctx, json, "stages", true, &list));
  if (list->count != (size_t)r->stages)
    return bd_fail(r->ctx, BD_INVALID, list->loc, "details of %zu stages for a plan of %d",
                   list->count, r->stages);
  r->out->stages = BD_NEW_ARRAY(r->ctx->arena, bd_stage_details, r->stages);
  for (int s = 0; s < r->stages; s++)
    BD_TRY(read_stage(r, &list->items[s], &r->out->stages[s]));
  return BD_OK;
}

static bd_status read_familiar(const details_reader *r, const bd_json *json) {
  static const char *const keys[] = {"name",          "pins",   "step_seconds",
                                     "lacking_bytes", "reason", NULL};
  const bd_json *list;
  BD_TRY(bd_json_array(r->ctx, json, "familiar", true, &list));
  r->out->familiar_count = (int)list->count;
  r->out->familiar = BD_NEW_ARRAY(r->ctx->arena, bd_familiar, list->count);
  for (size_t i = 0; i < list->count; i++) {
    const bd_json *item = &list->items[i];
    bd_familiar *out = &r->out->familiar[i];
    out->step_seconds = INFINITY;
    BD_TRY(bd_json_only(r->ctx, item, keys));
    BD_TRY(bd_json_string(r->ctx, item, "name", true, &out->name));
    BD_TRY(bd_json_string(r->ctx, item, "pins", true, &out->pins));
    BD_TRY(bd_json_real(r->ctx, item, "step_seconds", false, 0, 1e300, &out->step_seconds));
    BD_TRY(bd_json_int(r->ctx, item, "lacking_bytes", true, 0, INT64_MAX, &out->lacking_bytes));
    BD_TRY(bd_json_string(r->ctx, item, "reason", false, &out->reason));
  }
  return BD_OK;
}

static bd_status read_counts(const details_reader *r, const bd_json *json) {
  bd_plan_details *out = r->out;
  const struct {
    const char *key;
    int *at;
  } counts[] = {{"weights", &out->weights},
                {"gradient_parts", &out->gradient_parts},
                {"gathered", &out->gathered},
                {"products", &out->products},
                {"marked_products", &out->marked_products},
                {"float8_products", &out->float8_products}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    int64_t count = 0;
    BD_TRY(bd_json_int(r->ctx, json, counts[i].key, false, 0, INT32_MAX, &count));
    *counts[i].at = (int)count;
  }
  if (out->float8_products > out->marked_products || out->marked_products > out->products)
    return bd_fail(
        r->ctx, BD_INVALID, json->loc,
        "'details' tells of %d products, %d that could be in 8 bits and %d that are: each "
        "of these is among those before it",
        out->products, out->marked_products, out->float8_products);
  return BD_OK;
}

bd_status bd_plan_details_parse(bd_ctx *ctx, const bd_json *json, int stages, int axes,
                                bd_plan_details **out_details) {
  static const char *const keys[] = {"model_flops",     "flops_per_second",
                                     "weights",         "gradient_parts",
                                     "gathered",        "products",
                                     "marked_products", "float8_products",
                                     "links",           "stage_link",
                                     "stages",          "fullest_stage",
                                     "familiar",        NULL};
  details_reader r = {ctx, stages, axes, BD_NEW(ctx->arena, bd_plan_details)};
  const bd_json *links, *stage_link;
  int64_t fullest = 0;
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(bd_json_real(ctx, json, "model_flops", true, 0, 1e300, &r.out->model_flops));
  BD_TRY(bd_json_real(ctx, json, "flops_per_second", true, 0, 1e300, &r.out->flops_per_second));
  BD_TRY(read_counts(&r, json));
  BD_TRY(bd_json_array(ctx, json, "links", true, &links));
  BD_TRY(bd_json_object(ctx, json, "stage_link", true, &stage_link));
  if (links->count != (size_t)axes)
    return bd_fail(
        ctx, BD_INVALID, links->loc,
        "'links' wants one per mesh axis; where \"mesh\" was edited, take \"predicted\" out, and "
        "'braid compile --plan' predicts anew");
  for (int axis = 0; axis < axes; axis++)
    BD_TRY(read_link(&r, &links->items[axis], &r.out->link[axis]));
  BD_TRY(read_link(&r, stage_link, &r.out->stage_link));
  BD_TRY(read_stages(&r, json));
  BD_TRY(bd_json_int(ctx, json, "fullest_stage", true, 0, stages - 1, &fullest));
  r.out->fullest_stage = (int)fullest;
  BD_TRY(read_familiar(&r, json));
  *out_details = r.out;
  return BD_OK;
}
