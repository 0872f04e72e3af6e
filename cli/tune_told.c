#include "cli/explain.h"
#include "cli/tune.h"

enum { MOST_TOLD = 3 }; // differences of a trial, in the table

// "2 of 4x2, 8": stages, the mesh of each, and the micro-batch.
static void add_setting(bd_ctx *ctx, const bd_plan *plan, bd_text *text) {
  const char *stages = bd_intern_f(ctx, "%d of %s", plan->stages, bd_mesh_words(ctx, &plan->mesh));
  bd_text_addf(text, "%-16s%11lld", stages, (long long)plan->micro_batch);
}

static void add_seconds(bd_ctx *ctx, double seconds, bd_text *text) {
  bd_text words = bd_text_init(ctx->arena);
  bd_explain_add_seconds(&words, seconds);
  bd_text_addf(text, "%11s", words.data);
}

// "unlike 1: schedule (gpipe -> 1f1b)": a trial that would look like another one.
static void add_unlike(const bd_measurement *m, bd_text *text) {
  if (m->twin < 0) return;
  bd_text_addf(text, "     unlike %d", m->twin + 1);
  if (m->unlike_count == 0) bd_text_add(text, " in what strategies are called alone");
  for (int i = 0; i < m->unlike_count && i < MOST_TOLD; i++) {
    bd_text_add(text, i ? "; " : ": ");
    bd_explain_add_name(text, m->unlike[i].name);
    bd_text_add(text, " (");
    bd_explain_add_name(text, m->unlike[i].a);
    bd_text_add(text, " -> ");
    bd_explain_add_name(text, m->unlike[i].b);
    bd_text_add(text, ")");
  }
  if (m->unlike_count > MOST_TOLD) bd_text_addf(text, "; %d more", m->unlike_count - MOST_TOLD);
  bd_text_add(text, "\n");
}

void bd_tune_page(const bd_tuning *t, bd_text *text) {
  bd_text_addf(text, "  #  %-24s%-16s%11s%11s%11s\n", "choice", "stages of mesh", "micro-batch",
               "predicted", "measured");
  for (int i = 0; i < t->measured_count; i++) {
    const bd_measurement *m = &t->measured[i];
    bd_text_addf(text, "%3d  %-24s", i + 1, m->pins);
    add_setting(t->ctx, &m->plan, text);
    add_seconds(t->ctx, m->predicted_seconds, text);
    if (m->failure)
      bd_text_addf(text, "     failed, %s\n", m->failure);
    else
      add_seconds(t->ctx, m->seconds, text);
    if (!m->failure) bd_text_add(text, i == t->best ? "  kept\n" : "\n");
    add_unlike(m, text);
  }
}

static void add_unlike_json(const bd_measurement *m, bd_text *text) {
  bd_text_addf(text, ", \"unlike\": {\"trial\": %d, \"choices\": [", m->twin);
  for (int i = 0; i < m->unlike_count; i++) {
    bd_text_add(text, i ? ", " : "");
    bd_choice_row_json(&m->unlike[i], text);
  }
  bd_text_add(text, "]}");
}

void bd_tune_json(const bd_tuning *t, bd_text *text) {
  bd_text_addf(text, "{\n  \"braid_tuning\": 1,\n  \"steps\": %lld,\n  \"kept\": %d,\n",
               (long long)t->training.steps, t->best);
  bd_text_add(text, "  \"trials\": [");
  for (int i = 0; i < t->measured_count; i++) {
    const bd_measurement *m = &t->measured[i];
    bd_text_add(text, i ? ",\n    {\"choice\": " : "\n    {\"choice\": ");
    bd_text_add_json_string(text, m->pins);
    bd_text_addf(text, ", \"stages\": %d, \"mesh\": [", m->plan.stages);
    for (int axis = 0; axis < m->plan.mesh.axes; axis++)
      bd_text_addf(text, "%s%d", axis ? ", " : "", m->plan.mesh.size[axis]);
    bd_text_addf(text, "], \"micro_batch\": %lld, ", (long long)m->plan.micro_batch);
    bd_text_add_json_member(text, "predicted_seconds", m->predicted_seconds);
    bd_text_add(text, ", ");
    bd_text_add_json_member(text, "measured_seconds", m->seconds);
    if (m->failure) {
      bd_text_add(text, ", \"failure\": ");
      bd_text_add_json_string(text, m->failure);
    }
    if (m->twin >= 0) add_unlike_json(m, text);
    bd_text_add(text, "}");
  }
  bd_text_add(text, "\n  ]\n}\n");
}
