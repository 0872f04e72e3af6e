#include "cli/difference.h"
#include "cli/difference_layers.h"
#include <string.h>

void bd_difference_add(bd_difference *out, const char *name, const char *a, const char *b) {
  if (strcmp(a, b) == 0) return;
  if (out->choice_count == BD_MOST_CHOICES)
    out->untold_count++;
  else
    out->choices[out->choice_count++] = (bd_choice_row){name, a, b};
}

static void add_number(bd_ctx *ctx, bd_difference *out, const char *name, int64_t a, int64_t b) {
  bd_difference_add(out, name, bd_intern_f(ctx, "%lld", (long long)a),
                    bd_intern_f(ctx, "%lld", (long long)b));
}

static const char *mesh_words(bd_ctx *ctx, const bd_mesh *mesh) {
  return mesh->axes ? bd_mesh_words(ctx, mesh) : "1";
}

// Each stage of ZeRO with what it splits; weights are told of only where both plans count them.
static const char *zero_words(bd_ctx *ctx, const bd_plan *plan, bool with_weights) {
  const bd_plan_details *details = plan->details;
  const char *words = "", *axes = "";
  for (int a = 0; a < plan->mesh.axes; a++)
    if (plan->zero_axes >> a & 1u && bd_explain_has_ranks(plan, a))
      axes = bd_intern_f(ctx, "%s%s%d", axes, *axes ? ", " : "", a);
  if (*axes)
    words = bd_intern_f(ctx, strchr(axes, ',') ? "1 over axes %s" : "1 over axis %s", axes);
  if (with_weights && details->gradient_parts)
    words = bd_intern_f(ctx, "%s%s2 for %d of %d weights", words, *words ? "; " : "",
                        details->gradient_parts, details->weights);
  if (with_weights && details->gathered)
    words = bd_intern_f(ctx, "%s%s3 for %d of %d weights", words, *words ? "; " : "",
                        details->gathered, details->weights);
  return *words ? words : "0";
}

// Where each stage stands; of plans whose stages are alike and follow one another, the mesh and the
// number of stages say it.
static void compare_stages(bd_ctx *ctx, bd_difference *out) {
  const bd_plan *plans[] = {&out->a->plan, &out->b->plan};
  bool told = false;
  for (int i = 0; i < 2; i++)
    told = told || plans[i]->stage_mesh || plans[i]->stage_device;
  for (int s = 0; told && s < plans[0]->stages && s < plans[1]->stages; s++) {
    const char *words[2];
    for (int i = 0; i < 2; i++) {
      const bd_mesh *mesh = bd_plan_mesh(plans[i], s);
      int first = bd_plan_first_device(plans[i], s), count = bd_mesh_devices(mesh);
      words[i] = bd_intern_f(ctx, count > 1 ? "mesh %s, devices %d-%d" : "mesh %s, device %d",
                             mesh_words(ctx, mesh), first, first + count - 1);
    }
    bd_difference_add(out, bd_intern_f(ctx, "stage %d", s), words[0], words[1]);
  }
}

static const char *library_words(const bd_plan *plan) {
  return plan->one_head ? "one head" : "as many heads as pay";
}

static void compare_heads(bd_ctx *ctx, bd_difference *out) {
  const bd_plan *a = &out->a->plan, *b = &out->b->plan;
  bd_degrees da = bd_explain_degrees(a, out->a->strategies);
  bd_degrees db = bd_explain_degrees(b, out->b->strategies);
  bool with_weights = a->details && b->details;
  bd_difference_add(out, "model", a->model, b->model);
  bd_difference_add(out, "cluster", a->cluster ? a->cluster : "", b->cluster ? b->cluster : "");
  bd_difference_add(out, "target", a->target, b->target);
  bd_difference_add(out, "optimizer", a->optimizer, b->optimizer);
  bd_difference_add(out, "precision", bd_dtype_name(a->precision), bd_dtype_name(b->precision));
  bd_difference_add(out, "masters", bd_masters_name(a->masters), bd_masters_name(b->masters));
  bd_difference_add(out, "gradients", bd_gradients_name(a->gradients),
                    bd_gradients_name(b->gradients));
  add_number(ctx, out, "global batch", a->global_batch, b->global_batch);
  add_number(ctx, out, "sequence", a->sequence, b->sequence);
  add_number(ctx, out, "ranks", bd_plan_ranks(a), bd_plan_ranks(b));
  add_number(ctx, out, "threads per rank", a->threads_per_rank, b->threads_per_rank);
  add_number(ctx, out, "stages", a->stages, b->stages);
  add_number(ctx, out, "chunks per stage", bd_plan_chunks(a), bd_plan_chunks(b));
  bd_difference_add(out, "mesh", mesh_words(ctx, &a->mesh), mesh_words(ctx, &b->mesh));
  compare_stages(ctx, out);
  add_number(ctx, out, "data parallel", da.data, db.data);
  add_number(ctx, out, "tensor parallel", da.tensor, db.tensor);
  add_number(ctx, out, "sequence parallel", da.sequence, db.sequence);
  add_number(ctx, out, "micro-batch", a->micro_batch, b->micro_batch);
  bd_difference_add(out, "schedule", bd_schedule_name(a->schedule), bd_schedule_name(b->schedule));
  bd_difference_add(out, "ZeRO", zero_words(ctx, a, with_weights),
                    zero_words(ctx, b, with_weights));
  if (strcmp(a->target, b->target) == 0)
    bd_difference_add(out, "library segment", library_words(a), library_words(b));
}

static void compare_seconds(bd_ctx *ctx, bd_difference *out) {
  bd_time_part a[BD_MAX_TIME_PARTS], b[BD_MAX_TIME_PARTS];
  int a_count = bd_explain_time_parts(&out->a->plan, a);
  int b_count = bd_explain_time_parts(&out->b->plan, b);
  out->seconds = BD_NEW_ARRAY(ctx->arena, bd_seconds_row, a_count + b_count + 1);
  out->seconds[out->seconds_count++] =
      (bd_seconds_row){"step", -1, out->a->plan.step_seconds, out->b->plan.step_seconds};
  for (int i = 0; i < a_count; i++)
    out->seconds[out->seconds_count++] = (bd_seconds_row){a[i].name, a[i].axis, a[i].seconds, 0};
  for (int i = 0; i < b_count; i++) {
    int at = 1;
    while (at < out->seconds_count &&
           (strcmp(out->seconds[at].name, b[i].name) != 0 || out->seconds[at].axis != b[i].axis))
      at++;
    if (at == out->seconds_count)
      out->seconds[out->seconds_count++] = (bd_seconds_row){b[i].name, b[i].axis, 0, 0};
    out->seconds[at].b = b[i].seconds;
  }
}

static const bd_memory *fullest(const bd_plan *plan) {
  const bd_memory *most = &plan->predicted[0].memory;
  for (int s = 1; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > most->total_bytes)
      most = &plan->predicted[s].memory;
  return most;
}

static void compare_bytes(bd_ctx *ctx, bd_difference *out) {
  const bd_memory *a = fullest(&out->a->plan), *b = fullest(&out->b->plan);
  out->bytes = BD_NEW_ARRAY(ctx->arena, bd_bytes_row, BD_SEGMENT_COUNT + 1);
  out->bytes[out->bytes_count++] = (bd_bytes_row){"arena", a->total_bytes, b->total_bytes};
  for (int s = 1; s < BD_SEGMENT_COUNT; s++)
    if (a->bytes[s] || b->bytes[s])
      out->bytes[out->bytes_count++] =
          (bd_bytes_row){bd_segment_name((bd_segment)s), a->bytes[s], b->bytes[s]};
}

bd_difference bd_difference_find(bd_ctx *ctx, const bd_told_plan *a, const bd_told_plan *b) {
  bd_difference out = {.a = a, .b = b};
  out.choices = BD_NEW_ARRAY(ctx->arena, bd_choice_row, BD_MOST_CHOICES + 1);
  compare_heads(ctx, &out);
  bd_difference_layers(ctx, &out);
  if (out.untold_count)
    out.choices[out.choice_count++] =
        (bd_choice_row){"others", bd_intern_f(ctx, "%d more differ", out.untold_count), ""};
  compare_seconds(ctx, &out);
  compare_bytes(ctx, &out);
  return out;
}
