// The pipeline search: every degree, mesh and micro-batch, each bounded by the op table, then by
// its layer problems, then within its memory, before it is solved; the least bound first, until
// none can beat the incumbent. Settings are attempted in batches over threads; which ones a batch
// holds depends on what was found before it and on nothing else, so that equal inputs give equal
// plans.
#include "ir/base/clock.h"
#include "ir/base/workers.h"
#include "planner/attempt.h"
#include "planner/planner.h"
#include "planner/solver.h"
#include "planner/told/alternatives.h"
#include "planner/told/refuse.h"
#include <math.h>
#include <string.h>

enum {
  FINER_DEVICES = 64,
  DIVE_FACTOR = 3, // more settings bounded before one is solved out of turn again,
  DIVE_MOST = 96,  // but not more than these
  // A batch ends when it weighs this much; settings that are bounded weigh 1.
  BATCH_WEIGHT = 16,
  EARLY_WEIGHT = 6, // before there is a plan, which later attempts are cut off at
  ROOM_WEIGHT = 3,
  SOLVE_WEIGHT = 6,
  ANY_TRIES = 4,   // settings solved where any plan will do
  STEP_FACTOR = 8, // longer or shorter steps towards leaner plans
  NEAR_PART = 16,  // plans over the cap by less than this part of it may fit after all
};

#define WHOLE_FACTOR 1.1 // wholes are bounded before parts whose bound is lower by this factor
#define FINE_FACTOR 1.3  // in the order of turns, the bounds of fine meshes are this much higher

// What an item has been bounded by; each is dearer than the one before.
typedef enum bound_kind { BOUND_WORK, BOUND_LAYERS, BOUND_ROOM, BOUND_DONE } bound_kind;

// A setting and what no plan of it can beat. By its work alone it stands for all tied forms.
typedef struct item {
  bd_bounded of;
  bound_kind kind;
  int batched; // as an attempt of the batch at hand; -1: it is not
} item;

// Why a search ended before its space was searched.
typedef enum cut { NOT_CUT, CUT_BY_TIME, CUT_BY_USER } cut;

typedef struct search {
  bd_ctx *ctx;
  bd_scene scene;
  bd_model_runs runs;
  bd_workers *workers;
  double deadline;
  cut cut;
  int item_count, item_capacity;
  item *items;
  int attempt_count; // of the batch at hand
  bd_attempt attempts[BATCH_WEIGHT];
  bool left_out[BATCH_WEIGHT]; // since the search is over
  bd_plan best;
  bool found;
  bool lean;       // any plan that fits will do, the leanest of those that come together
  bd_plan leanest; // of all that do not fit
  int64_t leanest_bytes;
  int settings, bounded, solved;
  int usual, next_dive; // where the look for usual settings stands; settings bounded by then
  bd_alternatives alternatives;
} search;

static void add_item(search *s, item added) {
  if (s->item_count == s->item_capacity) {
    int wanted = s->item_capacity ? 2 * s->item_capacity : 256;
    s->items = bd_arena_grow(s->ctx->arena, s->items, (size_t)s->item_count, (size_t)wanted,
                             sizeof *s->items);
    s->item_capacity = wanted;
  }
  s->items[s->item_count++] = added;
}

// Whether two meshes differ only in the order of axes whose rings run over equal links: whatever
// one can do the other can as well.
static bool is_alike(const bd_cluster *cluster, const bd_mesh *a, const bd_mesh *b) {
  bd_cost_model model_a = {cluster, *a, 1}, model_b = {cluster, *b, 1};
  unsigned taken = 0;
  for (int i = 0; i < a->axes; i++) {
    bd_link link = bd_cost_link(&model_a, i);
    int twin = 0;
    for (; twin < b->axes; twin++) {
      bd_link other = bd_cost_link(&model_b, twin);
      if (!(taken >> twin & 1u) && a->size[i] == b->size[twin] &&
          link.latency_seconds == other.latency_seconds &&
          link.bytes_per_second == other.bytes_per_second)
        break;
    }
    if (twin == b->axes) return false;
    taken |= 1u << twin;
  }
  return a->axes == b->axes;
}

// Three axes are tried on clusters where that leaves the space small. A pinned mesh may have axes
// that the space does not.
static int stage_meshes(search *s, int devices, bd_mesh **out_meshes) {
  const bd_plan_request *request = s->scene.request;
  const bd_cluster *cluster = s->scene.cluster;
  bd_mesh *all = *out_meshes = BD_NEW(s->ctx->arena, bd_mesh);
  *all = request->mesh;
  if (request->mesh.axes) return bd_mesh_devices(all) == devices;
  if (bd_constraints_have_degrees(request->constraints))
    return bd_constraints_mesh(request->constraints, devices, all);
  bool finer = bd_cluster_devices(cluster) <= FINER_DEVICES;
  int kept = 0;
  int count = bd_space_meshes(s->ctx, devices, finer ? cluster->devices_per_node : 0, &all);
  for (int m = 0; m < count; m++) {
    bool again = false;
    // Constraints may name axes.
    for (int other = 0; !request->constraints && other < kept && !again; other++)
      again = is_alike(cluster, &all[m], &all[other]);
    if (!again) all[kept++] = all[m];
  }
  *out_meshes = all;
  return kept;
}

static bd_status add_stages(search *s, int stages) {
  const bd_plan_request *request = s->scene.request;
  bd_mesh *meshes;
  int count = stage_meshes(s, bd_cluster_devices(s->scene.cluster) / stages, &meshes);
  for (int64_t micro = 1; micro <= request->global_batch; micro++) {
    if (request->global_batch % micro) continue;
    if (request->micro_batch && micro != request->micro_batch) continue;
    double seconds;
    if (count) BD_TRY(bd_bound_work(s->ctx, &s->scene, stages, micro, &seconds));
    for (int m = 0; m < count; m++) {
      if (!bd_constraints_allow_micro_batch(request->constraints, &meshes[m], micro)) continue;
      bd_setting setting = {stages, meshes[m], micro, bd_sharding_replicated()};
      add_item(s, (item){{setting, .seconds = seconds}, BOUND_WORK, -1});
      s->settings++;
    }
  }
  return BD_OK;
}

static bd_status add_all(search *s) {
  int devices = bd_cluster_devices(s->scene.cluster), layers = 0;
  for (int r = 0; r < s->runs.count; r++)
    layers += s->runs.runs[r].calls;
  for (int stages = 1; stages <= devices && stages <= layers && stages <= BD_MAX_STAGES; stages++)
    if (devices % stages == 0 &&
        (!s->scene.request->stages || stages == s->scene.request->stages) &&
        bd_constraints_allow_stages(s->scene.request->constraints, stages))
      BD_TRY(add_stages(s, stages));
  return BD_OK;
}

static bool is_bounded(const item *of) {
  return of->kind == BOUND_LAYERS || of->kind == BOUND_ROOM;
}

// But for the micro-batch and the tied form.
static bool is_alike_otherwise(const bd_setting *a, const bd_setting *b) {
  return a->stages == b->stages && bd_mesh_same(&a->mesh, &b->mesh);
}

// Whether a setting has parts of another's micro-batch and is alike otherwise.
static bool is_part(const bd_setting *part, const bd_setting *whole) {
  return is_alike_otherwise(part, whole) && part->micro_batch < whole->micro_batch &&
         whole->micro_batch % part->micro_batch == 0;
}

// Whether the batch at hand bounds the layers of a whole, which bounds this part of it as well.
static bool awaits_whole(const search *s, const item *part) {
  if (part->kind != BOUND_WORK) return false;
  for (int i = 0; i < s->attempt_count; i++)
    if (s->attempts[i].kind == BD_ATTEMPT_LAYERS &&
        is_part(&part->of.setting, &s->attempts[i].setting))
      return true;
  return false;
}

// Meshes of three axes are dear to bound and seldom much better: they wait for plans of others.
static double order_of(const item *of) {
  return of->of.setting.mesh.axes > 2 ? of->of.seconds * FINE_FACTOR : of->of.seconds;
}

// Whether the search may need the item: it may have a plan that is better than the best.
static bool is_open(const search *s, const item *of) {
  return of->kind != BOUND_DONE && isfinite(of->of.seconds) &&
         (!s->found || of->of.seconds < s->best.step_seconds);
}

// Of open items the one of the least bound, nearly, and the earlier one of equals; -1: there is
// none. `bounded`: of those whose layers are.
static int next_item(const search *s, bool bounded) {
  int next = -1;
  for (int i = 0; i < s->item_count; i++)
    if (is_open(s, &s->items[i]) && (!bounded || is_bounded(&s->items[i])) &&
        (next < 0 || order_of(&s->items[i]) < order_of(&s->items[next])) &&
        !awaits_whole(s, &s->items[i]))
      next = i;
  return next;
}

// In place of a part, the largest whole of it whose bound is little more: it has to be bounded as
// well, and may spare the part that.
static int whole_first(const search *s, int part) {
  int whole = part;
  if (part < 0 || s->items[part].kind != BOUND_WORK) return part;
  double most = s->items[part].of.seconds * WHOLE_FACTOR;
  for (int i = 0; i < s->item_count; i++)
    if (s->items[i].kind == BOUND_WORK && is_open(s, &s->items[i]) &&
        s->items[i].of.seconds <= most &&
        is_part(&s->items[whole].of.setting, &s->items[i].of.setting))
      whole = i;
  return whole;
}

// Whether a setting looks like what people choose: the near axis of the mesh fills a node, and the
// far one splits the batch down to a sample or two.
static bool is_usual(const search *s, const bd_setting *setting) {
  int devices = bd_mesh_devices(&setting->mesh), node = s->scene.cluster->devices_per_node;
  int near = setting->mesh.size[setting->mesh.axes - 1];
  if (setting->mesh.axes > 2 || near != (devices < node ? devices : node)) return false;
  int64_t samples = setting->micro_batch / (devices / near);
  return setting->micro_batch % (devices / near) == 0 && samples >= 1 && samples <= 2;
}

// The least bound first would bound many settings before it solved one. So the usual ones come
// first, and now and then, the best of those that are bounded has its turn: there is a plan early.
static int turn(search *s) {
  while (s->usual < s->settings) {
    int next = s->usual++;
    if (is_open(s, &s->items[next]) && is_usual(s, &s->items[next].of.setting)) return next;
  }
  if (s->bounded >= s->next_dive) {
    int dive = next_item(s, true), more = s->bounded * DIVE_FACTOR;
    if (dive < 0 || s->items[dive].kind == BOUND_ROOM)
      s->next_dive = s->bounded + 1 + (more < DIVE_MOST ? more : DIVE_MOST);
    if (dive >= 0) return dive;
  }
  return whole_first(s, next_item(s, false));
}

// What no plan of the space beats, searched or not.
static double space_bound(const search *s) {
  double least = s->found ? s->best.step_seconds : INFINITY;
  for (int i = 0; i < s->item_count; i++)
    least = fmin(least, s->items[i].of.seconds);
  return least;
}

static void tell_progress(const search *s) {
  const bd_plan_request *request = s->scene.request;
  if (!request->progress) return;
  bd_plan_progress now = {.settings = s->settings,
                          .bounded = s->bounded,
                          .solved = s->solved,
                          .step_seconds = s->found ? s->best.step_seconds : INFINITY,
                          .bound_seconds = space_bound(s)};
  request->progress(request->progress_user, &now);
}

// Why the search must end now: at once when the user says so, at the time limit when it has
// something to show.
static cut cut_of(const search *s) {
  const volatile sig_atomic_t *stop = s->scene.request->stop;
  if (stop && *stop) return CUT_BY_USER;
  return bd_clock_seconds() > s->deadline && (s->found || s->leanest_bytes) ? CUT_BY_TIME : NOT_CUT;
}

static bool is_over(search *s) {
  s->cut = cut_of(s);
  return s->cut != NOT_CUT;
}

static bd_status run_attempt(bd_ctx *ctx, void *arg, int index) {
  search *s = arg;
  s->left_out[index] = cut_of(s) != NOT_CUT;
  return s->left_out[index] ? BD_OK : bd_attempt_run(ctx, &s->attempts[index]);
}

static bool is_better(const search *s, const bd_plan *plan) {
  return s->lean ? bd_attempt_plan_bytes(plan) < bd_attempt_plan_bytes(&s->best)
                 : plan->step_seconds < s->best.step_seconds;
}

static void take_plans(search *s, const bd_attempt *a) {
  if (a->lacks) {
    bd_alternatives_note_plan(s->ctx, &s->alternatives, &a->leanest,
                              a->leanest_bytes - s->scene.cap_bytes);
    if (!s->leanest_bytes || a->leanest_bytes < s->leanest_bytes) {
      s->leanest = bd_plan_copy(s->ctx, &a->leanest);
      s->leanest_bytes = a->leanest_bytes;
    }
  }
  if (a->fits) {
    bd_alternatives_note_plan(s->ctx, &s->alternatives, &a->fastest, 0);
    if (!s->found || is_better(s, &a->fastest)) {
      s->best = bd_plan_copy(s->ctx, &a->fastest);
      s->found = true;
    }
  }
}

// What the layers of a micro-batch take bounds those of its parts, which then may not have to be
// bounded themselves.
static void bound_parts(search *s, const bd_attempt *a) {
  int best = 0;
  for (int i = 1; i < a->bounded_count; i++)
    if (a->bounded[i].free_seconds < a->bounded[best].free_seconds) best = i;
  for (int i = 0; i < s->item_count && a->bounded_count; i++) {
    bd_bounded *of = &s->items[i].of;
    if (s->items[i].kind != BOUND_WORK || !is_alike_otherwise(&a->setting, &of->setting) ||
        a->setting.micro_batch % of->setting.micro_batch)
      continue;
    of->seconds =
        fmax(of->seconds, bd_bound_part(&s->scene, &a->bounded[best], of->setting.micro_batch));
  }
}

static void take_attempt(bd_ctx *ctx, void *arg, int index) {
  (void)ctx;
  search *s = arg;
  const bd_attempt *a = &s->attempts[index];
  double least = 0;
  for (int i = 0; i < s->item_count; i++) {
    item *from = &s->items[i];
    if (from->batched != index) continue;
    from->batched = -1;
    if (a->kind == BD_ATTEMPT_LAYERS) least = from->of.seconds;
    // What an item has become carries its bound on.
    if (a->kind != BD_ATTEMPT_SOLVE && !s->left_out[index]) from->of.seconds = INFINITY;
  }
  if (s->left_out[index]) return; // bounds stand
  s->bounded += a->kind == BD_ATTEMPT_LAYERS;
  s->solved += a->solved;
  take_plans(s, a);
  if (a->kind == BD_ATTEMPT_LAYERS) bound_parts(s, a);
  for (int i = 0; i < a->bounded_count; i++) {
    bd_bounded b = a->bounded[i];
    b.seconds = fmax(b.seconds, least);
    add_item(s, (item){b, b.tight ? BOUND_ROOM : BOUND_LAYERS, -1});
  }
}

// Whether an item is attempted together with another: it differs in the tied form alone and may
// still have a plan that is wanted.
static bool goes_with(const search *s, const item *of, const item *other) {
  if (other == of) return true;
  if (other->kind != of->kind || other->of.setting.micro_batch != of->of.setting.micro_batch ||
      !is_alike_otherwise(&of->of.setting, &other->of.setting))
    return false;
  if (isinf(of->of.seconds)) return !s->leanest_bytes || other->of.bytes < (double)s->leanest_bytes;
  return isfinite(other->of.seconds) && (!s->found || other->of.seconds < s->best.step_seconds);
}

// The item and those that go with it, the least bound first.
static void gather_tied(search *s, const item *of, bd_attempt *a) {
  int count = 0;
  for (int i = 0; i < s->item_count; i++)
    count += goes_with(s, of, &s->items[i]);
  bd_bounded *tied = BD_NEW_ARRAY(s->ctx->arena, bd_bounded, count);
  for (int i = 0; i < s->item_count; i++) {
    if (!goes_with(s, of, &s->items[i])) continue;
    int at = a->tied_count++;
    for (; at > 0 && tied[at - 1].seconds > s->items[i].of.seconds; at--)
      tied[at] = tied[at - 1];
    tied[at] = s->items[i].of;
    s->items[i].batched = s->attempt_count;
  }
  for (int i = 0; i < s->item_count; i++)
    if (s->items[i].batched == s->attempt_count) s->items[i].kind = BOUND_DONE;
  a->tied = tied;
}

// Returns what it weighs.
static int add_attempt(search *s, int index) {
  static const struct {
    bd_attempt_kind kind;
    int weight;
  } next[] = {[BOUND_WORK] = {BD_ATTEMPT_LAYERS, 1},
              [BOUND_LAYERS] = {BD_ATTEMPT_ROOM, ROOM_WEIGHT},
              [BOUND_ROOM] = {BD_ATTEMPT_SOLVE, SOLVE_WEIGHT}};
  item *from = &s->items[index];
  int weight = next[from->kind].weight;
  bd_attempt *a = &s->attempts[s->attempt_count];
  *a = (bd_attempt){.scene = &s->scene,
                    .setting = from->of.setting,
                    .cutoff = s->found ? s->best.step_seconds : INFINITY,
                    .kind = next[from->kind].kind,
                    .lean = s->lean};
  gather_tied(s, from, a);
  s->attempt_count++;
  return weight;
}

static bd_status run_batch(search *s) {
  bd_work work = {s->attempt_count, run_attempt, take_attempt, s};
  BD_TRY(bd_workers_run(s->ctx, s->workers, &work));
  s->attempt_count = 0;
  tell_progress(s);
  return BD_OK;
}

static bd_status search_fastest(search *s) {
  while (!is_over(s) && !(s->lean && s->found)) {
    int most = s->found ? BATCH_WEIGHT : EARLY_WEIGHT;
    for (int weight = 0; weight < most;) {
      int next = turn(s);
      if (next < 0) break;
      weight += add_attempt(s, next);
    }
    if (!s->attempt_count) break;
    BD_TRY(run_batch(s));
  }
  return BD_OK;
}

// The bounded item of the least bytes, or -1.
static int leanest_item(const search *s) {
  int next = -1;
  for (int i = 0; i < s->item_count; i++)
    if (is_bounded(&s->items[i]) && (next < 0 || s->items[i].of.bytes < s->items[next].of.bytes))
      next = i;
  if (next >= 0 && s->leanest_bytes && s->items[next].of.bytes >= (double)s->leanest_bytes)
    return -1;
  return next;
}

// When nothing fits, settings that cannot fit are looked at as well, the leanest first.
static bd_status search_leanest(search *s) {
  while (!s->found && !is_over(s)) {
    for (int weight = 0; weight < BATCH_WEIGHT;) {
      int next = leanest_item(s);
      if (next < 0) break;
      weight += add_attempt(s, next);
    }
    if (!s->attempt_count) break;
    BD_TRY(run_batch(s));
  }
  return BD_OK;
}

// The same search under another cap.
static bd_status search_within(search *s, int64_t cap_bytes, bool lean, search *again) {
  int64_t less = s->scene.cap_bytes - cap_bytes;
  *again = (search){.ctx = s->ctx,
                    .runs = s->runs,
                    .scene = s->scene,
                    .workers = s->workers,
                    .deadline = s->deadline,
                    .lean = lean};
  again->scene.runs = &again->runs;
  again->scene.cap_bytes -= less;
  again->scene.layers_cap_bytes -= less;
  BD_TRY(add_all(again));
  BD_TRY(search_fastest(again));
  s->cut = again->cut;
  return BD_OK;
}

// A leaner plan than the leanest one, by so many bytes at least. One that fits after all is looked
// for once more, to be fast.
static bd_status search_below(search *s, int64_t less, bool *out_found) {
  search *lean = BD_NEW(s->ctx->arena, search), *fast = BD_NEW(s->ctx->arena, search);
  int64_t cap = s->leanest_bytes - less;
  *out_found = false;
  if (cap <= 0) return BD_OK;
  BD_TRY(search_within(s, cap, true, lean));
  if (!lean->found) return BD_OK;
  *out_found = true;
  s->leanest = lean->best;
  s->leanest_bytes = bd_attempt_plan_bytes(&lean->best);
  if (s->leanest_bytes > s->scene.cap_bytes) return BD_OK;
  s->best = lean->best;
  s->found = true;
  if (s->cut) return BD_OK;
  BD_TRY(search_within(s, cap, false, fast));
  if (fast->found && fast->best.step_seconds < s->best.step_seconds &&
      bd_attempt_plan_bytes(&fast->best) <= s->scene.cap_bytes)
    s->best = fast->best;
  return BD_OK;
}

// Whether anything holds less than the leanest plan: leaner ones are looked for in longer steps as
// long as there are any, and in shorter ones, down to a byte, until there is none. So what a
// refusal asks for is exact as far as this search can tell. A rough search only makes sure that
// nothing fits.
static bd_status confirm_leanest(search *s) {
  bool found = true, near = s->leanest_bytes - s->scene.cap_bytes <= s->scene.cap_bytes / NEAR_PART;
  if (s->found || !s->leanest_bytes) return BD_OK;
  if (s->scene.request->rough) return near ? search_below(s, 1, &found) : BD_OK;
  for (int64_t step = 1; !s->found && !s->cut && (found || step > 1);) {
    if (!found) step /= STEP_FACTOR;
    BD_TRY(search_below(s, step, &found));
    if (found) step *= STEP_FACTOR;
  }
  return BD_OK;
}

static const char *ending(const search *s) {
  static const char *const words[] = {"whole space searched", "stopped by the time limit",
                                      "stopped by an interrupt"};
  return words[s->cut];
}

// Whether any plan fits: all settings are bounded, and the leanest few solved.
static bd_status search_any(search *s) {
  for (int i = 0; i < s->settings && !is_over(s);) {
    for (int n = 0; n < BATCH_WEIGHT && i < s->settings; n++)
      add_attempt(s, i++);
    BD_TRY(run_batch(s));
  }
  while (s->solved < ANY_TRIES && !s->found && !is_over(s)) {
    int next = leanest_item(s);
    if (next < 0) break;
    add_attempt(s, next);
    BD_TRY(run_batch(s));
  }
  return BD_OK;
}

static bd_status search_all(search *s) {
  BD_TRY(add_all(s));
  if (s->scene.request->any) return search_any(s);
  BD_TRY(search_fastest(s));
  BD_TRY(search_leanest(s));
  return confirm_leanest(s);
}

// What the plan in hand came to.
static void report(search *s, bd_search_outcome *out) {
  *out = (bd_search_outcome){.found = s->found,
                             .cut = s->cut != NOT_CUT,
                             .interrupted = s->cut == CUT_BY_USER,
                             .cap_bytes = s->scene.cap_bytes};
  out->plan = s->found ? s->best : s->leanest;
  if (!s->found) {
    out->lacking_bytes = s->leanest_bytes ? s->leanest_bytes - s->scene.cap_bytes : 0;
    return;
  }
  bd_plan *plan = &out->plan;
  plan->bound_seconds = space_bound(s);
  plan->gap = plan->bound_seconds > 0 ? plan->step_seconds / plan->bound_seconds - 1 : INFINITY;
  plan->search =
      bd_intern_f(s->ctx, "%s: of %d settings %d bounded by their layers, %d pipelines solved",
                  ending(s), s->settings, s->bounded, s->solved);
  for (int i = 0; i < s->item_count; i++)
    bd_alternatives_note_bound(s->ctx, &s->alternatives, s->items[i].of.setting.stages,
                               &s->items[i].of.setting.mesh, s->items[i].of.seconds);
  bd_alternatives_list(s->ctx, &s->alternatives, plan);
}

bd_status bd_plan_look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                       const bd_plan_request *request, bd_search_outcome *out) {
  bd_module targeted = *train;
  BD_TRY(bd_cluster_check_precision(ctx, cluster, request->precision));
  targeted.cuda = strcmp(request->target, "cuda") == 0;
  search *s = BD_NEW(ctx->arena, search);
  *s = (search){.ctx = ctx, .runs = bd_model_runs_find(ctx, &targeted, request->constraints)};
  int64_t cap = cluster->memory_bytes - cluster->reserved_bytes;
  if (request->cap_bytes && request->cap_bytes < cap) cap = request->cap_bytes;
  s->scene = (bd_scene){&targeted,
                        cluster,
                        request,
                        &s->runs,
                        request->sequence,
                        cap,
                        cap - (targeted.cuda ? BD_LIBRARY_BYTES : 0)};
  s->deadline = bd_clock_seconds() + request->limit_seconds;
  bd_owned held;
  s->workers = bd_workers_start(ctx, &held, request->threads, bd_solver_leave_thread);
  bd_status status = search_all(s);
  bd_workers_stop(ctx, s->workers, &held);
  if (status == BD_OK) report(s, out);
  return status;
}

// Searches that were cut short tell how far they came.
static void tell_cut(bd_ctx *ctx, const bd_plan *plan) {
  bd_warn(ctx, BD_NOWHERE,
          "the search was %.*s: the plan takes %.4g s a step, and none takes less than %.4g s (a "
          "gap of %.1f %%)",
          (int)strcspn(plan->search, ":"), plan->search, plan->step_seconds, plan->bound_seconds,
          100 * plan->gap);
}

bd_status bd_plan_search(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                         const bd_plan_request *request, bd_plan *out_plan) {
  bd_search_outcome outcome;
  BD_TRY(bd_plan_look(ctx, train, cluster, request, &outcome));
  if (!outcome.found && outcome.interrupted)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                   "the search was interrupted before it found a plan; nothing is written");
  if (!outcome.found) return bd_plan_refuse(ctx, train, cluster, request, &outcome);
  *out_plan = outcome.plan;
  if (outcome.cut) tell_cut(ctx, out_plan);
  return BD_OK;
}
