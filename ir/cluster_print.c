#include "ir/cluster_mixed.h"
#include "ir/cluster_precision.h"

// Members of an object, one a line or, in a short object, all on one.
typedef struct writer {
  bd_text *text;
  const char *indent; // of a line; NULL in a short object
  bool any;
} writer;

static void add_key(writer *w, const char *key) {
  if (w->any) bd_text_add(w->text, w->indent ? ",\n" : ", ");
  if (w->indent) bd_text_add(w->text, w->indent);
  bd_text_addf(w->text, "\"%s\": ", key);
  w->any = true;
}

static void add_real(writer *w, const char *key, double value) {
  add_key(w, key);
  bd_text_add_double(w->text, value);
}

static void add_int(writer *w, const char *key, int64_t value) {
  add_key(w, key);
  bd_text_addf(w->text, "%lld", (long long)value);
}

static void add_bool(writer *w, const char *key, bool value) {
  add_key(w, key);
  bd_text_add(w->text, value ? "true" : "false");
}

static void add_name(writer *w, const char *key, const char *name) {
  add_key(w, key);
  bd_text_add_json_string(w->text, name);
}

// What is 0 when it is absent.
static void add_known(writer *w, const char *key, double value) {
  if (value != 0) add_real(w, key, value);
}

static void add_link_members(writer *w, const bd_link *link) {
  add_real(w, "latency_seconds", link->latency_seconds);
  add_real(w, "bytes_per_second", link->bytes_per_second);
  add_known(w, "half_rate_bytes", link->half_rate_bytes);
}

static void add_link(writer *w, const char *key, const bd_link *link) {
  writer inner = {.text = w->text};
  add_key(w, key);
  bd_text_add(w->text, "{");
  add_link_members(&inner, link);
  bd_text_add(w->text, "}");
}

static void add_points(writer *w, const bd_work_rates *work) {
  writer inner = {.text = w->text};
  bool any = false;
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++)
    any |= work->point_seconds[kind] > 0;
  if (!any) return;
  add_key(w, "point_seconds");
  bd_text_add(w->text, "{");
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++)
    add_known(&inner, bd_op_get_info((bd_op_kind)kind)->name, work->point_seconds[kind]);
  bd_text_add(w->text, "}");
}

static void add_work(writer *w, const bd_work_rates *work) {
  writer inner = {.text = w->text};
  add_key(w, "work");
  bd_text_add(w->text, "{");
  add_known(&inner, "product_edge", work->product_edge);
  add_known(&inner, "product_depth", work->product_depth);
  add_known(&inner, "product_wave", work->product_wave);
  add_known(&inner, "attention_forward", work->attention_forward);
  add_known(&inner, "attention_backward", work->attention_backward);
  add_known(&inner, "attention_tokens", work->attention_tokens);
  add_known(&inner, "attention_width", work->attention_width);
  add_known(&inner, "attention_generated", work->attention_generated);
  add_known(&inner, "attention_generated_f32", work->attention_generated_f32);
  if (work->attention_materialized) add_bool(&inner, "attention_materialized", true);
  add_known(&inner, "transcendental_seconds", work->transcendental_seconds);
  add_known(&inner, "update_bytes_per_second", work->update_bytes_per_second);
  add_known(&inner, "product_beside", work->product_beside);
  add_known(&inner, "gradients_exposed", work->gradients_exposed);
  add_points(&inner, work);
  bd_text_add(w->text, "}");
}

static void add_group(writer *w, const bd_node_group *group) {
  const bd_node_parts *node = &group->node;
  add_int(w, "nodes", group->nodes);
  add_int(w, "devices_per_node", group->devices_per_node);
  add_link(w, "intra", &group->intra);
  add_link(w, "inter", &group->inter);
  if (node->island_devices > 0) {
    add_int(w, "island_devices", node->island_devices);
    add_link(w, "island", &node->island);
  }
  if (node->switch_sum.bytes_per_second > 0) add_link(w, "switch_sum", &node->switch_sum);
  if (node->host_memory_bytes > 0) add_int(w, "host_memory_bytes", node->host_memory_bytes);
  add_known(w, "host_bytes_per_second", node->host_bytes_per_second);
}

static void add_kind(writer *w, const bd_device_kind *kind) {
  add_int(w, "memory_bytes", kind->memory_bytes);
  add_int(w, "reserved_bytes", kind->reserved_bytes);
  add_real(w, "flops_f32", kind->flops.f32);
  add_real(w, "flops_bf16", kind->flops.bf16);
  add_real(w, "flops_f16", kind->flops.f16);
  add_known(w, "flops_f8", kind->flops.f8);
  add_real(w, "memory_bytes_per_second", kind->memory_bytes_per_second);
  add_real(w, "kernel_seconds", kind->kernel_seconds);
  add_key(w, "precisions");
  bd_cluster_precisions_print(kind->lacks, w->text);
  add_work(w, &kind->work);
  add_bool(w, "gpu", kind->gpu);
  add_int(w, "threads_per_device", kind->threads_per_device);
}

static void add_kinds(writer *w, const bd_cluster *c) {
  add_key(w, "kinds");
  for (int k = 0; k < c->kind_count; k++) {
    writer inner = {.text = w->text, .indent = "      "};
    bd_text_add(w->text, k ? ",\n    " : "{\n    ");
    bd_text_add_json_string(w->text, c->kinds[k].name);
    bd_text_add(w->text, ": {\n");
    add_kind(&inner, &c->kinds[k]);
    bd_text_add(w->text, "\n    }");
  }
  bd_text_add(w->text, "\n  }");
}

static void add_groups(writer *w, const bd_cluster *c) {
  add_key(w, "groups");
  for (int g = 0; g < c->group_count; g++) {
    writer inner = {.text = w->text, .indent = "      "};
    bd_text_add(w->text, g ? ",\n    {\n" : "[\n    {\n");
    add_name(&inner, "kind", c->kinds[c->groups[g].kind].name);
    add_group(&inner, &c->groups[g]);
    bd_text_add(w->text, "\n    }");
  }
  bd_text_add(w->text, "\n  ]");
}

static void add_between(writer *w, const bd_cluster *c) {
  bool any = false;
  add_key(w, "between");
  bd_text_add(w->text, "[");
  for (int a = 0; a < c->group_count; a++)
    for (int b = a + 1; b < c->group_count; b++) {
      writer inner = {.text = w->text, .any = true};
      bd_text_addf(w->text, "%s\n    {\"groups\": [%d, %d]", any ? "," : "", a, b);
      add_link_members(&inner, &c->between[a * c->group_count + b]);
      bd_text_add(w->text, "}");
      any = true;
    }
  bd_text_add(w->text, any ? "\n  ]" : "]");
}

void bd_cluster_print(const bd_cluster *c, bd_text *text) {
  writer w = {.text = text, .indent = "  "};
  bd_text_add(text, "{\n");
  add_int(&w, "braid_cluster", 1);
  add_name(&w, "name", c->name);
  if (bd_cluster_is_mixed(c)) {
    add_kinds(&w, c);
    add_groups(&w, c);
    add_between(&w, c);
  } else {
    bd_node_group group = bd_cluster_uniform_group(c);
    bd_device_kind kind = bd_cluster_uniform_kind(c);
    add_group(&w, &group);
    add_kind(&w, &kind);
  }
  bd_text_add(text, "\n}\n");
}
