#include "cli/tune.h"
#include <string.h>

// Whether the table of trials says the same of both.
static bool look_alike(const bd_measurement *a, const bd_measurement *b) {
  return strcmp(a->pins, b->pins) == 0 && a->plan.stages == b->plan.stages &&
         bd_mesh_same(&a->plan.mesh, &b->plan.mesh) && a->plan.micro_batch == b->plan.micro_batch;
}

// A plan as its file would tell it.
static bd_status tell(bd_ctx *ctx, const bd_module *train, const bd_plan *plan, bd_told_plan *out) {
  bd_plan noted = *plan;
  bd_text text = bd_text_init(ctx->arena);
  BD_TRY(bd_plan_note(ctx, train, &noted));
  bd_plan_print(&noted, train, &text);
  return bd_told_parse(ctx, "trial", text.data, text.length, out);
}

static bd_status compare(bd_tuning *t, const bd_measurement *with, bd_arena *kept,
                         bd_measurement *m) {
  bd_told_plan a, b;
  BD_TRY(tell(t->ctx, t->train, &with->plan, &a));
  BD_TRY(tell(t->ctx, t->train, &m->plan, &b));
  bd_difference found = bd_difference_find(t->ctx, &a, &b);
  m->unlike = BD_NEW_ARRAY(kept, bd_choice_row, found.choice_count);
  m->unlike_count = found.choice_count;
  for (int i = 0; i < found.choice_count; i++)
    m->unlike[i] = (bd_choice_row){bd_intern_z(t->ctx, found.choices[i].name),
                                   bd_intern_z(t->ctx, found.choices[i].a),
                                   bd_intern_z(t->ctx, found.choices[i].b)};
  return BD_OK;
}

bd_status bd_tune_find_unlike(bd_tuning *t, bd_measurement *m) {
  bd_ctx *ctx = t->ctx;
  m->twin = t->measured_count - 1;
  while (m->twin >= 0 && !look_alike(&t->measured[m->twin], m))
    m->twin--;
  if (m->twin < 0) return BD_OK;
  bd_owned held;
  bd_arena *own = bd_ctx_open_arena(ctx, &held), *outer = ctx->arena;
  ctx->arena = own;
  bd_status status = compare(t, &t->measured[m->twin], outer, m);
  ctx->arena = outer;
  bd_ctx_close_arena(ctx, &held);
  return status;
}
