// Where the values of a stage's passes are: addresses over the iterations of a loop.
#include "codegen/emit_pass.h"
#include <assert.h>

static int restore_count(const bd_emit_pass *pass, const bd_op *op) {
  const bd_function *callee = bd_emit_callee(pass, op);
  return callee && callee->role == BD_ROLE_BACKWARD ? callee->restore_count : 0;
}

static bd_place restored_place(const bd_emit_pass *pass, int op, int index) {
  const bd_layout *layout = &pass->emitter->layout;
  bd_id id = bd_layout_restored(pass->emitter->module, op, index);
  return id == BD_NO_ID ? layout->tapes[op] : layout->values[id];
}

int bd_emit_given_count(const bd_emit_pass *pass, int op) {
  return restore_count(pass, &pass->main->ops[op]) + pass->main->ops[op].in_count;
}

bd_place bd_emit_given_place(const bd_emit_pass *pass, int op, int index) {
  const bd_op *given = &pass->main->ops[op];
  int restored = restore_count(pass, given);
  return index < restored ? restored_place(pass, op, index)
                          : pass->emitter->layout.values[given->in[index - restored]];
}

bd_place bd_emit_result_place(const bd_emit_pass *pass, int op, int index) {
  return pass->emitter->layout.values[pass->main->ops[op].out[index]];
}

bd_place bd_emit_loss_gradient_place(const bd_emit_pass *pass) {
  bd_id id = bd_module_loss_gradient(pass->emitter->module);
  return id == BD_NO_ID ? (bd_place){.segment = BD_SEGMENT_NONE} : pass->emitter->layout.values[id];
}

static void add_slots(const bd_emit_pass *pass, const int64_t *slots, int count) {
  bool any = false;
  for (int i = 0; i < count; ++i)
    any |= slots[i] != 0;
  if (!any) return;
  bool compound = false;
  for (int i = 1; i < count; ++i)
    compound |= slots[i] != slots[0];
  bd_text_add(pass->text, compound ? " + slot * (" : " + slot * ");
  bd_emit_series(pass->emitter, pass->text, slots, count);
  if (compound) bd_text_add(pass->text, ")");
}

void bd_emit_places(const bd_emit_pass *pass, const bd_place *places, int count) {
  bd_emitter *e = pass->emitter;
  int64_t *offsets = BD_NEW_ARRAY(e->ctx->arena, int64_t, count);
  int64_t *slots = BD_NEW_ARRAY(e->ctx->arena, int64_t, count);
  for (int i = 0; i < count; ++i) {
    assert(places[i].segment == places[0].segment && places[i].segment != BD_SEGMENT_NONE);
    offsets[i] = e->layout.segment_start[places[i].segment] + places[i].offset_bytes;
    slots[i] = places[i].slot_bytes;
  }
  bd_text_add(pass->text, "arena + ");
  bd_emit_series(e, pass->text, offsets, count);
  add_slots(pass, slots, count);
}

void bd_emit_given(const bd_emit_pass *pass, bd_emit_looped op, int index) {
  bd_place *places = BD_NEW_ARRAY(pass->emitter->ctx->arena, bd_place, op.count);
  for (int i = 0; i < op.count; ++i)
    places[i] = bd_emit_given_place(pass, op.ops[i], index);
  bd_emit_places(pass, places, op.count);
}

void bd_emit_result(const bd_emit_pass *pass, bd_emit_looped op, int index) {
  bd_place *places = BD_NEW_ARRAY(pass->emitter->ctx->arena, bd_place, op.count);
  for (int i = 0; i < op.count; ++i)
    places[i] = bd_emit_result_place(pass, op.ops[i], index);
  bd_emit_places(pass, places, op.count);
}
