// What passes from layer to layer: changes of form within a stage, messages between two.
#include "planner/bound/bound.h"
#include <math.h>

static bool is_activation(const bd_value *value) {
  return bd_dtype_is_float(value->type.dtype) && value->type.rank > 0;
}

// Bytes on a rank of what a function hands on: one of its results, or with `result` -1 all.
static double handed_bytes(const bd_function *f, int result, const bd_setting *setting,
                           const bd_sharding *form) {
  double bytes = 0;
  for (int i = 0; i < f->result_count; i++) {
    const bd_value *value = &f->values[f->results[i]];
    if (!is_activation(value) || (result >= 0 && i != result)) continue;
    bd_sharding at = bd_sharding_for_type(form, &setting->mesh, &value->type);
    bytes += (double)bd_local_elements(&setting->mesh, &at, &value->type, setting->micro_batch) *
             (double)bd_dtype_bytes(value->type.dtype);
  }
  return bytes;
}

// Of the smallest result of a function; 0: it hands on nothing.
static double least_result_bytes(const bd_function *f, const bd_setting *setting,
                                 const bd_sharding *form) {
  double least = INFINITY;
  for (int i = 0; i < f->result_count; i++)
    if (is_activation(&f->values[f->results[i]]))
      least = fmin(least, handed_bytes(f, i, setting, form));
  return isfinite(least) ? least : 0;
}

// A message between neighbours: what the sender and the receiver spend on it.
typedef struct handing {
  double send, receive;
} handing;

// From a stage to the next.
static handing hand_over(const bd_scene *scene, const bd_setting *setting, int stage,
                         double bytes) {
  bd_cost_model cost = {scene->cluster, setting->mesh, setting->micro_batch};
  if (bytes <= 0) return (handing){0, 0};
  return (handing){bd_cost_copy(&cost, bytes), bd_cost_receive(&cost, stage, stage + 1, bytes)};
}

// Of one message between two stages: any result that a layer hands on, in any of these forms; 0:
// some layer hands on nothing.
static double least_handed_bytes(const bd_scene *scene, const bd_setting *setting, int form_count,
                                 const bd_sharding *forms) {
  double least = INFINITY;
  for (int r = 0; r < scene->runs->count; r++)
    for (int f = 0; f < form_count; f++) {
      if (r + 1 == scene->runs->count && scene->runs->runs[r].calls == 1) continue;
      least = fmin(least, least_result_bytes(scene->runs->runs[r].function, setting, &forms[f]));
    }
  return isfinite(least) ? least : 0;
}

bd_moves bd_bound_moves(const bd_scene *scene, const bd_setting *setting,
                        const bd_setting_layers *layers) {
  bd_moves out = {.sum = 0};
  bd_sharding alike = bd_sharding_replicated();
  if (setting->stages == 1) return out;
  double bytes = least_handed_bytes(scene, setting, layers->form_count, layers->forms);
  double whole = least_handed_bytes(scene, setting, 1, &alike);
  bool on = scene->runs->hands_on, back = on && scene->runs->hands_back;
  if (back) out.whole = INFINITY;
  for (int s = 0; s + 1 < setting->stages; s++) {
    handing over = hand_over(scene, setting, s, bytes);
    double left = on * over.send + back * over.receive,
           right = on * over.receive + back * over.send;
    out.of_stage[s] += left;
    out.of_stage[s + 1] += right;
    out.sum += left + right;
    out.whole = fmin(out.whole, hand_over(scene, setting, s, whole).receive);
  }
  return out;
}

bd_cut_moves bd_bound_cut_moves(const bd_scene *scene, const bd_setting *setting,
                                const bd_setting_layers *layers, int stage, int layer) {
  double least = least_handed_bytes(scene, setting, layers->form_count, layers->forms);
  bool on = scene->runs->hands_on, back = on && scene->runs->hands_back;
  handing over = hand_over(scene, setting, stage, least),
          there = hand_over(scene, setting, stage, layers->links->there_bytes[layer]),
          home = hand_over(scene, setting, stage, layers->links->back_bytes[layer]);
  double left = there.send + home.receive - on * over.send - back * over.receive,
         right = there.receive + home.send - on * over.receive - back * over.send;
  return (bd_cut_moves){fmax(left, 0), fmax(right, 0)};
}

// Bringing what is handed on from one form to another.
static double conversion_seconds(const bd_scene *scene, const bd_setting *setting,
                                 const bd_function *f, int result, const bd_sharding *from,
                                 const bd_sharding *to) {
  bd_cost_model cost = {scene->cluster, setting->mesh, setting->micro_batch};
  double seconds = 0;
  for (int i = 0; i < f->result_count; i++) {
    const bd_value *value = &f->values[f->results[i]];
    if (!is_activation(value) || (result >= 0 && i != result)) continue;
    bd_sharding before = bd_sharding_for_type(from, &setting->mesh, &value->type),
                after = bd_sharding_for_type(to, &setting->mesh, &value->type);
    seconds += bd_cost_reshard(&cost, &value->type, &before, &after);
  }
  return seconds;
}

static bool same_link(bd_link a, bd_link b) {
  return a.latency_seconds == b.latency_seconds && a.bytes_per_second == b.bytes_per_second &&
         a.half_rate_bytes == b.half_rate_bytes;
}

bd_stage_links bd_setting_links(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting) {
  bd_cost_model cost = {scene->cluster, setting->mesh, setting->micro_batch};
  bd_stage_links out = {0};
  int *of = BD_NEW_ARRAY(ctx->arena, int, setting->stages);
  int *stage = BD_NEW_ARRAY(ctx->arena, int, setting->stages);
  for (int s = 0; s + 1 < setting->stages; s++) {
    bd_link link = bd_cost_stage_link(&cost, s, s + 1);
    while (of[s] < out.count &&
           !same_link(link, bd_cost_stage_link(&cost, stage[of[s]], stage[of[s]] + 1)))
      of[s]++;
    if (of[s] == out.count) stage[out.count++] = s;
  }
  if (setting->stages == 1) out.count = 1;
  out.of = of;
  out.stage = stage;
  return out;
}

static void change_forms(const bd_scene *scene, const bd_setting *setting, const bd_function *f,
                         int result, int form_count, const bd_sharding *forms, bd_both_ways *out) {
  for (int from = 0; from < form_count; from++)
    for (int to = 0; to < form_count; to++)
      out[from * form_count + to] =
          (bd_both_ways){conversion_seconds(scene, setting, f, result, &forms[from], &forms[to]),
                         conversion_seconds(scene, setting, f, result, &forms[to], &forms[from])};
}

void bd_setting_hand_on(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int run,
                        int result, const bd_stage_links *links, int form_count,
                        const bd_sharding *forms, bd_pipeline_run *out) {
  const bd_function *f = scene->runs->runs[run].function;
  int cells = form_count * form_count;
  bd_both_ways *change = BD_NEW_ARRAY(ctx->arena, bd_both_ways, cells);
  bd_both_ways *send = BD_NEW_ARRAY(ctx->arena, bd_both_ways, links->count * cells);
  bd_both_ways *receive = BD_NEW_ARRAY(ctx->arena, bd_both_ways, links->count * cells);
  double *handed = BD_NEW_ARRAY(ctx->arena, double, form_count);
  for (int form = 0; form < form_count; form++)
    handed[form] = handed_bytes(f, result, setting, &forms[form]);
  change_forms(scene, setting, f, result, form_count, forms, change);
  for (int i = 0; i < links->count * cells; i++) {
    int stage = links->stage[i / cells], from = i % cells / form_count, to = i % form_count;
    handing value = hand_over(scene, setting, stage, handed[from]);
    handing gradient = hand_over(scene, setting, stage, handed[to]);
    send[i] = (bd_both_ways){value.send, gradient.receive + change[i % cells].backward};
    receive[i] = (bd_both_ways){value.receive + change[i % cells].forward, gradient.send};
  }
  out->handed_bytes = handed;
  out->change = change;
  out->send = send;
  out->receive = receive;
}
