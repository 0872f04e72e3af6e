// Whose turn it is in a search, by numbers alone.
#include "frontend/frontend.h"
#include "planner/agenda.h"
#include "planner/constraints/constraints.h"
#include "planner/meshes.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ITEMS = 4 };

typedef struct agenda_case {
  bd_ctx *ctx;
  bd_cluster cluster;
  bd_plan_request request;
  bd_scene scene;
  bd_item items[ITEMS];
  bd_agenda agenda;
} agenda_case;

static bd_item item_of(int axes, int64_t micro_batch, double seconds) {
  bd_setting setting = {1, {axes, {8, 1, 1}}, micro_batch, bd_sharding_replicated()};
  return (bd_item){{setting, .seconds = seconds}, BD_BOUND_WORK, -1, false};
}

// Settings bounded by their work, of which none is taken for being usual.
static void open_case(agenda_case *c, int count) {
  c->ctx = bd_ctx_create();
  c->request = (bd_plan_request){.global_batch = 16, .schedule = -1};
  c->cluster = (bd_cluster){.devices_per_node = 8, .nodes = 1};
  c->scene = (bd_scene){.cluster = &c->cluster, .request = &c->request};
  c->agenda = (bd_agenda){.ctx = c->ctx,
                          .scene = &c->scene,
                          .item_count = count,
                          .item_capacity = ITEMS,
                          .items = c->items,
                          .settings = count,
                          .best_seconds = INFINITY,
                          .usual = count,
                          .next_dive = 1};
}

static int batch_of(agenda_case *c, int item, int attempt) {
  const bd_bounded *tied;
  return bd_agenda_batch(&c->agenda, item, attempt, 0, &tied);
}

// A setting bounded by its layers to so many seconds.
static bd_attempt bounded_to(const agenda_case *c, int item, bd_bounded *own, double seconds) {
  *own = c->items[item].of;
  own->seconds = own->free_seconds = seconds;
  return (bd_attempt){
      .kind = BD_ATTEMPT_LAYERS, .setting = own->setting, .bounded_count = 1, .bounded = own};
}

// What coarser meshes of the same batch find is waited for; ops apart only raise the bound.
static void test_apart_and_fine(void **unused) {
  (void)unused;
  agenda_case c = {.items = {item_of(1, 16, 3), item_of(3, 16, 1), item_of(1, 8, 2.5)}};
  bd_bounded own;
  open_case(&c, 3);
  assert_int_equal(bd_agenda_turn(&c.agenda), 1);
  assert_int_equal(batch_of(&c, 0, 0), 1);
  assert_int_equal(bd_agenda_turn(&c.agenda), -1);
  bd_attempt found = bounded_to(&c, 0, &own, 4);
  found.kind = BD_ATTEMPT_APART;
  bd_agenda_take(&c.agenda, &found, 0, false);
  assert_int_equal(c.agenda.item_count, 3);
  assert_int_equal(c.agenda.bounded, 0);
  assert_true(c.items[0].of.seconds == 4 && c.items[0].kind == BD_BOUND_APART);
  assert_true(c.items[1].of.seconds == 1);
  // Two parts of a micro-batch that takes 4 s, one after the other.
  assert_true(fabs(c.items[2].of.seconds - 4) < 1e-12);
  assert_int_equal(bd_agenda_turn(&c.agenda), 1);
  bd_ctx_destroy(c.ctx);
}

// Sketches raise the bound for all tied forms at once and leave the layers to be bounded; where
// they tell nothing, what was known stays.
static void test_sketches(void **unused) {
  (void)unused;
  agenda_case c = {.items = {item_of(1, 16, 3), item_of(1, 8, 2.5)}};
  bd_bounded own;
  open_case(&c, 2);
  assert_int_equal(batch_of(&c, 0, 0), 1);
  bd_attempt found = bounded_to(&c, 0, &own, 0);
  found.kind = BD_ATTEMPT_SKETCH;
  bd_agenda_take(&c.agenda, &found, 0, false);
  assert_true(c.items[0].of.seconds == 3 && c.items[0].kind == BD_BOUND_SKETCH);
  assert_true(c.items[1].of.seconds == 2.5 && c.items[1].kind == BD_BOUND_WORK);
  assert_int_equal(batch_of(&c, 0, 0), 1);
  found = bounded_to(&c, 0, &own, 4);
  found.kind = BD_ATTEMPT_SKETCH;
  bd_agenda_take(&c.agenda, &found, 0, false);
  assert_true(c.items[0].of.seconds == 4 && fabs(c.items[1].of.seconds - 4) < 1e-12);
  assert_int_equal(c.agenda.item_count, 2);
  assert_int_equal(c.agenda.bounded, 0);
  bd_ctx_destroy(c.ctx);
}

static void test_least_bound_first(void **unused) {
  (void)unused;
  agenda_case c = {.items = {item_of(1, 16, 3), item_of(2, 16, 2), item_of(3, 16, 1.8)}};
  open_case(&c, 3);
  // Three axes wait for two of nearly the same bound.
  assert_int_equal(bd_agenda_turn(&c.agenda), 1);
  assert_int_equal(batch_of(&c, 1, 0), 1);
  assert_int_equal(bd_agenda_turn(&c.agenda), 0);
  // What cannot beat the plan in hand has no turn.
  c.agenda.best_seconds = 3;
  assert_int_equal(bd_agenda_turn(&c.agenda), -1);
  bd_ctx_destroy(c.ctx);
}

// What is solved next comes behind others whose bounds are within a percent.
static void test_solved_in_order(void **unused) {
  (void)unused;
  agenda_case c = {.items = {item_of(1, 16, 1.98), item_of(2, 16, 1.99)}};
  open_case(&c, 2);
  c.agenda.tries = true;
  c.agenda.best_seconds = 2.01;
  c.agenda.next_dive = 100;
  c.items[0].kind = BD_BOUND_ROOM;
  assert_int_equal(bd_agenda_turn(&c.agenda), 1);
  c.items[1].of.seconds = 2.005;
  assert_int_equal(bd_agenda_turn(&c.agenda), 0);
  bd_ctx_destroy(c.ctx);
}

// Of many layers what may gain much is tried, unless any plan will do.
static void test_tries(void **unused) {
  (void)unused;
  agenda_case c = {.items = {item_of(1, 16, 1)}};
  bd_model_runs runs = {.calls = 100};
  bd_agenda agenda;
  open_case(&c, 1);
  c.scene.runs = &runs;
  assert_int_equal(bd_agenda_open(c.ctx, &c.scene, false, &agenda), BD_OK);
  assert_true(agenda.tries);
  assert_int_equal(bd_agenda_open(c.ctx, &c.scene, true, &agenda), BD_OK);
  assert_false(agenda.tries);
  runs.calls = 3;
  assert_int_equal(bd_agenda_open(c.ctx, &c.scene, false, &agenda), BD_OK);
  assert_false(agenda.tries);
  bd_ctx_destroy(c.ctx);
}

// What is tried before it is bounded within its memory is bounded after that, and not tried again.
static void test_tried_once(void **unused) {
  (void)unused;
  agenda_case c = {.items = {item_of(1, 16, 1)}};
  bd_attempt found = {.kind = BD_ATTEMPT_TRY};
  open_case(&c, 1);
  c.agenda.tries = true;
  c.agenda.best_seconds = 2;
  c.items[0].kind = BD_BOUND_LAYERS;
  assert_true(bd_agenda_tries_next(&c.agenda, &c.items[0]));
  assert_int_equal(batch_of(&c, 0, 0), 1);
  bd_agenda_take(&c.agenda, &found, 0, false);
  assert_true(c.items[0].tried && c.items[0].kind == BD_BOUND_LAYERS);
  assert_false(bd_agenda_tries_next(&c.agenda, &c.items[0]));
  assert_false(bd_agenda_solves_next(&c.agenda, &c.items[0]));
  assert_int_equal(batch_of(&c, 0, 0), 1);
  bd_bounded own = c.items[0].of;
  own.tight = true;
  found = (bd_attempt){
      .kind = BD_ATTEMPT_ROOM, .setting = own.setting, .bounded_count = 1, .bounded = &own};
  bd_agenda_take(&c.agenda, &found, 0, false);
  assert_int_equal(c.agenda.item_count, 2);
  assert_true(c.items[1].tried && c.items[1].kind == BD_BOUND_TRIED);
  assert_true(bd_agenda_solves_next(&c.agenda, &c.items[1]));
  bd_ctx_destroy(c.ctx);
}

// What may gain little is solved, and that waits for what a batch of others finds; what may gain
// much is tried, which does not.
static void test_solved_last(void **unused) {
  (void)unused;
  agenda_case c = {.items = {item_of(1, 16, 1), item_of(2, 16, 1.99), item_of(1, 8, 1.995)}};
  open_case(&c, 3);
  c.agenda.tries = true;
  c.agenda.best_seconds = 2;
  c.items[1].kind = BD_BOUND_ROOM;
  assert_true(bd_agenda_solves_next(&c.agenda, &c.items[1]));
  assert_false(bd_agenda_solves_next(&c.agenda, &c.items[0]));
  assert_int_equal(batch_of(&c, 0, 0), 1);
  c.items[2].kind = BD_BOUND_DONE;
  assert_int_equal(bd_agenda_turn(&c.agenda), -1);
  c.items[1].of.seconds = 1.5;
  assert_false(bd_agenda_solves_next(&c.agenda, &c.items[1]));
  assert_int_equal(bd_agenda_turn(&c.agenda), 1);
  bd_ctx_destroy(c.ctx);
}

static void test_whole_before_parts(void **unused) {
  (void)unused;
  agenda_case c = {
      .items = {item_of(1, 2, 1), item_of(1, 4, 1.02), item_of(1, 8, 1.05), item_of(1, 16, 1.2)}};
  open_case(&c, 4);
  // The largest whole within a tenth, and no part of it in the same batch.
  assert_int_equal(bd_agenda_turn(&c.agenda), 2);
  assert_int_equal(batch_of(&c, 2, 0), 1);
  assert_int_equal(bd_agenda_turn(&c.agenda), 3);
  assert_int_equal(batch_of(&c, 3, 1), 1);
  assert_int_equal(bd_agenda_turn(&c.agenda), -1);
  // The whole of 8 takes 1 s a micro-batch, of which there are 2: so do its parts at least.
  bd_bounded own;
  bd_attempt found = bounded_to(&c, 2, &own, 1);
  own.seconds = 2;
  bd_agenda_take(&c.agenda, &found, 0, false);
  assert_int_equal(c.agenda.bounded, 1);
  assert_true(fabs(c.agenda.items[0].of.seconds - 2) < 1e-12);
  assert_true(fabs(c.agenda.items[1].of.seconds - 2) < 1e-12);
  assert_true(fabs(c.agenda.items[3].of.seconds - 1.2) < 1e-12);
  bd_ctx_destroy(c.ctx);
}

static void test_bounds_stand(void **unused) {
  (void)unused;
  agenda_case c = {.items = {item_of(1, 16, 2), item_of(2, 16, 3)}};
  open_case(&c, 2);
  assert_true(bd_agenda_bound(&c.agenda) == 2);
  // Of an attempt that was not run.
  bd_bounded own;
  bd_attempt found = bounded_to(&c, 0, &own, 1);
  batch_of(&c, 0, 0);
  bd_agenda_take(&c.agenda, &found, 0, true);
  assert_true(bd_agenda_bound(&c.agenda) == 2 && c.agenda.bounded == 0);
  assert_int_equal(bd_agenda_turn(&c.agenda), 1);
  // Of one that found a lower bound.
  found = bounded_to(&c, 1, &own, 1);
  batch_of(&c, 1, 0);
  bd_agenda_take(&c.agenda, &found, 0, false);
  assert_int_equal(c.agenda.item_count, 3);
  assert_true(c.agenda.items[2].of.seconds == 3 && c.agenda.items[2].kind == BD_BOUND_LAYERS);
  // Of the plan in hand.
  c.agenda.best_seconds = 1;
  assert_true(bd_agenda_bound(&c.agenda) == 1);
  bd_ctx_destroy(c.ctx);
}

// A dimension that two axes split is split by the first of them first, so that 2x4 and 4x2 are not
// the same, though all devices are in one node.
static void test_meshes(void **unused) {
  (void)unused;
  static const bd_mesh wanted[] = {{1, {8}}, {2, {2, 4}}, {2, {4, 2}}, {3, {2, 2, 2}}};
  agenda_case c = {.items = {item_of(1, 16, 1)}};
  open_case(&c, 1);
  bd_mesh *meshes;
  assert_int_equal(bd_meshes_of_stage(c.ctx, &c.scene, 8, &meshes), 4);
  for (int i = 0; i < 4; i++)
    assert_true(bd_mesh_same(&meshes[i], &wanted[i]));
  c.request.mesh = (bd_mesh){2, {4, 2}};
  assert_int_equal(bd_meshes_of_stage(c.ctx, &c.scene, 8, &meshes), 1);
  assert_true(bd_mesh_same(&meshes[0], &wanted[2]));
  bd_ctx_destroy(c.ctx);
}

// Two query heads of each of two key-value heads want two axes where ranks of one are more than
// these heads; other models want none.
static void test_meshes_of_nested_loops(void **unused) {
  (void)unused;
  static const char *const models[] = {"llama-tiny", "gpt2-tiny"};
  static const bd_mesh nested = {3, {2, 2, 2}};
  bd_constraints pinned = {.degree = {[BD_CUT_SAMPLES] = 2, [BD_CUT_FEATURES] = 4}};
  agenda_case c = {.items = {item_of(1, 16, 1)}};
  bd_mesh *meshes;
  bd_module *graph;
  open_case(&c, 1);
  for (int m = 0; m < 2; m++) {
    assert_int_equal(bd_model_load(c.ctx, models[m], &(bd_model_options){0}, &graph), BD_OK);
    c.scene.train = graph;
    c.request.constraints = &pinned;
    c.cluster.nodes = 1;
    assert_int_equal(bd_meshes_of_stage(c.ctx, &c.scene, 8, &meshes), 2 - m);
    assert_true(bd_mesh_same(&meshes[0], &(bd_mesh){2, {2, 4}}));
    assert_true(m || bd_mesh_same(&meshes[1], &nested));
    assert_int_equal(bd_constraints_axis_cuts(&pinned, &nested, 0),
                     bd_constraints_kind_cuts(BD_CUT_SAMPLES));
    for (int axis = 1; axis < 3; axis++)
      assert_int_equal(bd_constraints_axis_cuts(&pinned, &nested, axis),
                       bd_constraints_kind_cuts(BD_CUT_FEATURES));
    c.request.constraints = NULL;
    assert_int_equal(bd_meshes_of_stage(c.ctx, &c.scene, 8, &meshes), 4);
    c.cluster.nodes = 16;
    assert_int_equal(bd_meshes_of_stage(c.ctx, &c.scene, 8, &meshes), 4 - m);
    assert_true(m || bd_mesh_same(&meshes[3], &nested));
  }
  bd_ctx_destroy(c.ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_least_bound_first), cmocka_unit_test(test_apart_and_fine),
      cmocka_unit_test(test_sketches),          cmocka_unit_test(test_solved_last),
      cmocka_unit_test(test_solved_in_order),   cmocka_unit_test(test_tries),
      cmocka_unit_test(test_tried_once),        cmocka_unit_test(test_whole_before_parts),
      cmocka_unit_test(test_bounds_stand),      cmocka_unit_test(test_meshes),
      cmocka_unit_test(test_meshes_of_nested_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
