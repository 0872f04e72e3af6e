#include "cli/stop.h"
#include "cli/tune.h"
#include "planner/assemble.h"
#include "planner/told/blame.h"
#include "planner/told/refuse.h"
#include <math.h>
#include <string.h>

enum { ROUGH_SHARE = 4 }; // of the time of a search
#define PARTS_WORD ",parts"
#define SLOW 2.0 // times as long as the plan of the open choice: not worth a closer look

static void look_for_stop(void *user, const bd_plan_progress *progress) {
  bd_tuning *t = user;
  (void)progress;
  if (bd_stop_came()) t->told_to_stop = 1;
}

// Stops are held while braid tunes; searches look for them now and then. Choices inherit that.
static void heed_stops(bd_tuning *t, bd_plan_request *request) {
  request->progress = look_for_stop;
  request->progress_user = t;
  request->stop = &t->told_to_stop;
}

// The plan of an outcome that lives in an arena of its own, kept.
static void keep_plan(bd_tuning *t, bd_choice *choice, const bd_plan *plan) {
  bd_text text = bd_text_init(t->ctx->arena);
  choice->plan = bd_plan_copy(t->ctx, plan);
  choice->plan.alternative_count = 0;
  choice->plan.alternatives = NULL;
  bd_plan_print_program(&choice->plan, t->train, &text);
  choice->program = bd_intern(t->ctx, text.data, text.length);
  choice->seconds = choice->plan.step_seconds;
}

bd_cluster bd_tune_rates(const bd_tuning *t, bool parts) {
  bd_cluster out = t->cluster;
  if (parts) out.work.product_beside = BD_TUNE_PRODUCT_BESIDE;
  return out;
}

static bd_status search(bd_tuning *t, bd_choice *choice, bool rough) {
  bd_ctx *ctx = t->ctx;
  bd_cluster cluster = bd_tune_rates(t, choice->parts);
  bd_plan_request request = choice->request;
  bd_search_outcome outcome;
  bd_owned held;
  bd_arena *own = bd_ctx_open_arena(ctx, &held), *outer = ctx->arena;
  if (rough) {
    request.rough = true;
    request.slow_seconds = SLOW * t->choices[0].seconds;
    request.limit_seconds /= ROUGH_SHARE;
  }
  ctx->arena = own;
  bd_status status = bd_plan_look(ctx, t->train, &cluster, &request, &outcome);
  ctx->arena = outer;
  choice->found = status == BD_OK && outcome.found;
  if (choice->found) keep_plan(t, choice, &outcome.plan);
  bd_ctx_close_arena(ctx, &held);
  choice->rates = rough ? -1 : t->rates;
  return status;
}

static bd_choice *add(bd_tuning *t, const bd_choice *of, const char *pins) {
  bd_choice *out = &t->choices[t->choice_count++];
  *out = *of;
  out->request.constraints = &out->constraints;
  out->pins = pins;
  out->open = out->found = false;
  return out;
}

// Whether there is room for one more, of which none has these pins.
static bool is_new(const bd_tuning *t, const char *pins) {
  for (int i = 0; i < t->choice_count; i++)
    if (t->choices[i].pins == pins) return false;
  return t->choice_count < BD_MOST_CHOICES_TUNED;
}

static bool agrees(int64_t pinned, int64_t value) {
  return !pinned || pinned == value;
}

static bd_status add_degrees(bd_tuning *t, int stages, int data, int tensor) {
  const bd_choice *open = &t->choices[0];
  const int *given = open->constraints.degree;
  if (!agrees(open->request.stages, stages) || !agrees(given[BD_CUT_SAMPLES], data) ||
      !agrees(given[BD_CUT_FEATURES], tensor))
    return BD_OK;
  const char *pins = bd_intern_f(t->ctx, "dp=%d,tp=%d,pp=%d", data, tensor, stages);
  if (!is_new(t, pins)) return BD_OK;
  bd_choice *choice = add(t, open, pins);
  choice->request.stages = stages;
  choice->constraints.degree[BD_CUT_SAMPLES] = data;
  choice->constraints.degree[BD_CUT_FEATURES] = tensor;
  if (!bd_pins_impossible(t->ctx, t->train, &t->cluster, &choice->request))
    return search(t, choice, true);
  t->choice_count--;
  return BD_OK;
}

// Where meshes or layers are pinned, degrees are, too.
static bool has_degrees(const bd_choice *open) {
  const bd_constraints *c = &open->constraints;
  return !open->request.mesh.axes && !c->strategy_count && !c->layer_count &&
         c->degree[BD_CUT_TOKENS] <= 1;
}

bd_status bd_tune_stopped(bd_ctx *ctx, int stopped_by) {
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "tuning was stopped by %s; nothing is written",
                 bd_stop_word(stopped_by));
}

bd_status bd_tune_list_choices(bd_tuning *t) {
  bd_choice *open = &t->choices[t->choice_count++];
  int devices = bd_cluster_devices(&t->cluster);
  bd_search_outcome outcome;
  *open = (bd_choice){
      .pins = "open", .request = t->job->request, .constraints = t->job->constraints, .open = true};
  open->request.constraints = &open->constraints; // which stay where they are
  heed_stops(t, &open->request);
  BD_TRY(bd_plan_look(t->ctx, t->train, &t->cluster, &open->request, &outcome));
  if (bd_stop_came()) return bd_tune_stopped(t->ctx, bd_stop_came());
  if (!outcome.found)
    return bd_plan_refuse(t->ctx, t->train, &t->cluster, &open->request, &outcome);
  open->found = true;
  keep_plan(t, open, &outcome.plan);
  for (int stages = 1; stages <= devices && has_degrees(open); stages++)
    for (int data = devices; data >= 1 && devices % stages == 0; data--)
      if (devices / stages % data == 0) {
        BD_TRY(add_degrees(t, stages, data, devices / stages / data));
        if (bd_stop_came()) return bd_tune_stopped(t->ctx, bd_stop_came());
      }
  return BD_OK;
}

static bool agrees_micro_batch(const bd_tuning *t, const bd_plan *plan, int64_t micro_batch) {
  return !t->job->request.micro_batch && micro_batch >= 1 && plan->global_batch % micro_batch == 0;
}

// The stages and the mesh of a plan of the open choice are its pins.
static bd_choice *add_alike(bd_tuning *t, const bd_choice *of, const char *pins) {
  bd_choice *choice = add(t, of, pins);
  choice->request.stages = of->plan.stages;
  choice->request.micro_batch = of->plan.micro_batch;
  if (of->open) choice->request.mesh = of->plan.mesh;
  return choice;
}

static bd_status add_micro_batch(bd_tuning *t, const bd_choice *of, int64_t micro_batch) {
  const char *at = strstr(of->pins, ",mb=");
  if (!at) at = strstr(of->pins, PARTS_WORD);
  int length = at ? (int)(at - of->pins) : (int)strlen(of->pins);
  const char *pins = bd_intern_f(t->ctx, "%.*s,mb=%lld%s", length, of->pins, (long long)micro_batch,
                                 of->parts ? PARTS_WORD : "");
  if (!agrees_micro_batch(t, &of->plan, micro_batch) || !is_new(t, pins)) return BD_OK;
  bd_choice *choice = add_alike(t, of, pins);
  choice->request.micro_batch = micro_batch;
  return search(t, choice, true);
}

static bd_status add_parts(bd_tuning *t, const bd_choice *of) {
  const char *pins = bd_intern_f(t->ctx, "%s%s", of->pins, PARTS_WORD);
  bool told = t->cluster.work.product_beside > 0 || !t->cluster.gpu;
  if (told || of->parts || !is_new(t, pins)) return BD_OK;
  bd_choice *choice = add_alike(t, of, pins);
  choice->parts = true;
  return search(t, choice, true);
}

bd_status bd_tune_add_neighbours(bd_tuning *t, const bd_measurement *measured) {
  int of = 0;
  while (of < t->choice_count && t->choices[of].program != measured->program)
    of++;
  if (of == t->choice_count) return BD_OK;
  int64_t micro_batch = measured->plan.micro_batch;
  if (micro_batch % 2 == 0) BD_TRY(add_micro_batch(t, &t->choices[of], micro_batch / 2));
  BD_TRY(add_micro_batch(t, &t->choices[of], 2 * micro_batch));
  return add_parts(t, &t->choices[of]);
}

static bd_status tell(bd_tuning *t, const bd_plan *plan, bool parts, double *out_seconds) {
  bd_ctx *ctx = t->ctx;
  bd_cluster cluster = bd_tune_rates(t, parts);
  bd_plan again = *plan;
  bd_owned held;
  bd_arena *own = bd_ctx_open_arena(ctx, &held), *outer = ctx->arena;
  ctx->arena = own;
  bd_status status = bd_plan_predict(ctx, t->train, &cluster, &again);
  ctx->arena = outer;
  if (status == BD_OK) *out_seconds = again.step_seconds;
  bd_ctx_close_arena(ctx, &held);
  return status;
}

bd_status bd_tune_tell_again(bd_tuning *t) {
  for (int i = 0; i < t->measured_count; i++)
    BD_TRY(tell(t, &t->measured[i].plan, t->measured[i].parts, &t->measured[i].told_seconds));
  BD_TRY(search(t, &t->choices[0], false));
  for (int i = 1; i < t->choice_count; i++)
    if (t->choices[i].found)
      BD_TRY(tell(t, &t->choices[i].plan, t->choices[i].parts, &t->choices[i].seconds));
  return bd_stop_came() ? bd_tune_stopped(t->ctx, bd_stop_came()) : BD_OK;
}

static bool was_tried(const bd_tuning *t, const bd_choice *choice) {
  for (int i = 0; i < t->measured_count; i++)
    if (t->measured[i].program == choice->program) return true;
  return false;
}

bd_status bd_tune_pick(bd_tuning *t, int *out) {
  for (;;) {
    *out = -1;
    for (int i = 0; i < t->choice_count; i++)
      if (t->choices[i].found && !was_tried(t, &t->choices[i]) &&
          (*out < 0 || t->choices[i].seconds < t->choices[*out].seconds))
        *out = i;
    if (*out < 0 || t->choices[*out].rates == t->rates) return BD_OK;
    BD_TRY(search(t, &t->choices[*out], false));
    if (bd_stop_came()) return bd_tune_stopped(t->ctx, bd_stop_came());
  }
}
