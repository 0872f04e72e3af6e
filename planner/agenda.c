#include "planner/agenda.h"
#include "planner/meshes.h"
#include <math.h>

enum {
  DIVE_PART = 2,     // of so many settings bounded one more part before one is tried out of turn,
  DIVE_LEAST = 6,    // but not fewer than these
  DIVE_MOST = 96,    // nor more than these
  FINE_TOGETHER = 2, // settings of fine meshes in a batch, though one is a part of another
};
#define WHOLE_FACTOR 1.1   // wholes are bounded before parts whose bound is lower by this factor
#define SOLVED_FACTOR 1.01 // ... and of settings that are solved next
#define MUCH 0.985         // settings may have much faster plans below this part of the best
#define FINE_FACTOR 1.3    // in the order of turns, the bounds of fine meshes are this much higher

static void add_item(bd_agenda *a, bd_item added) {
  if (a->item_count == a->item_capacity) {
    int wanted = a->item_capacity ? 2 * a->item_capacity : 256;
    a->items = bd_arena_grow(a->ctx->arena, a->items, (size_t)a->item_count, (size_t)wanted,
                             sizeof *a->items);
    a->item_capacity = wanted;
  }
  a->items[a->item_count++] = added;
}

static void add_stages(bd_agenda *a, const bd_scene_work *work, int stages) {
  const bd_plan_request *request = a->scene->request;
  bd_mesh *meshes;
  int devices = bd_cluster_devices(a->scene->cluster) / stages;
  int count = bd_meshes_of_stage(a->ctx, a->scene, devices, &meshes);
  for (int64_t micro = 1; micro <= request->global_batch; micro++) {
    if (request->global_batch % micro) continue;
    if (request->micro_batch && micro != request->micro_batch) continue;
    double seconds = count ? bd_bound_work(a->ctx, work, stages, micro) : 0;
    for (int m = 0; m < count; m++) {
      if (!bd_constraints_allow_micro_batch(request->constraints, &meshes[m], micro)) continue;
      bd_setting setting = {stages, meshes[m], micro, bd_sharding_replicated()};
      add_item(a, (bd_item){{setting, .seconds = seconds}, BD_BOUND_WORK, -1, false});
      a->settings++;
    }
  }
}

bd_status bd_agenda_open(bd_ctx *ctx, const bd_scene *scene, bool lean, bd_agenda *a) {
  const bd_plan_request *request = scene->request;
  int devices = bd_cluster_devices(scene->cluster), layers = scene->runs->calls;
  bd_scene_work *work;
  *a = (bd_agenda){.ctx = ctx, .scene = scene, .best_seconds = INFINITY};
  // A plan that is only near the best is of no use where the leanest is wanted; of few layers it
  // takes nearly as long as the best.
  a->tries = !lean && !bd_model_has_few_layers(scene->runs);
  BD_TRY(bd_scene_read_work(ctx, scene, &work));
  for (int stages = 1; stages <= devices && stages <= layers && stages <= BD_MAX_STAGES; stages++)
    if (devices % stages == 0 && (!request->stages || stages == request->stages) &&
        bd_constraints_allow_stages(request->constraints, stages))
      add_stages(a, work, stages);
  return BD_OK;
}

// But for the micro-batch and the tied form.
static bool is_alike_otherwise(const bd_setting *a, const bd_setting *b) {
  return a->stages == b->stages && bd_mesh_same(&a->mesh, &b->mesh);
}

bool bd_setting_same(const bd_setting *a, const bd_setting *b) {
  return a->micro_batch == b->micro_batch && is_alike_otherwise(a, b);
}

// Whether a setting has parts of another's micro-batch and is alike otherwise.
static bool is_part(const bd_setting *part, const bd_setting *whole) {
  return is_alike_otherwise(part, whole) && part->micro_batch < whole->micro_batch &&
         whole->micro_batch % part->micro_batch == 0;
}

static bool is_unopened(const bd_item *of) {
  return of->kind < BD_BOUND_LAYERS;
}

// Cheaper ones of nearly the same bound come before fine meshes, and what they find is waited for.
static bool is_fine(const bd_item *of) {
  return bd_setting_is_fine(&of->of.setting);
}

// Whether the batch at hand bounds a whole, which bounds this part of it as well. Of fine meshes,
// which come last, a few may be in a batch all the same: one after another their layers would keep
// one thread busy and no other.
static bool awaits_whole(const bd_agenda *a, const bd_item *part) {
  int fine = 0;
  bool found = false;
  for (int i = 0; is_unopened(part) && i < a->settings; i++) {
    const bd_item *other = &a->items[i];
    if (other->batched < 0) continue;
    fine += is_fine(other);
    found = found || is_part(&part->of.setting, &other->of.setting);
  }
  return found && !(is_fine(part) && fine < FINE_TOGETHER);
}

bool bd_agenda_tries_next(const bd_agenda *a, const bd_item *item) {
  bool bounded = item->kind == BD_BOUND_LAYERS || item->kind == BD_BOUND_ROOM;
  return bounded && a->tries && !item->tried && isfinite(item->of.seconds) &&
         bd_agenda_may_gain_much(a, item);
}

bool bd_agenda_solves_next(const bd_agenda *a, const bd_item *item) {
  if (item->kind != BD_BOUND_ROOM) return item->kind == BD_BOUND_TRIED;
  return !bd_agenda_tries_next(a, item);
}

// What is solved next waits until others of nearly the same bound were tried.
static double order_of(const bd_agenda *a, const bd_item *of) {
  double order = is_fine(of) ? of->of.seconds * FINE_FACTOR : of->of.seconds;
  return bd_agenda_solves_next(a, of) ? order * SOLVED_FACTOR : order;
}

// Nor is anything solved before it is its turn among all.
static bool awaits_cheaper(const bd_agenda *a, const bd_item *of) {
  bool solved = bd_agenda_solves_next(a, of);
  for (int i = 0; (is_fine(of) || solved) && i < a->item_count; i++) {
    const bd_item *other = &a->items[i];
    if (other->batched < 0) continue;
    if ((is_fine(of) && !is_fine(other)) || (solved && !bd_agenda_solves_next(a, other)))
      return true;
  }
  return false;
}

static bool is_waiting(const bd_item *of) {
  return of->kind != BD_BOUND_DONE && of->batched < 0;
}

static bool is_bounded(const bd_item *of) {
  return is_waiting(of) && !is_unopened(of);
}

// Whether a plan of it may be found soon.
static bool is_untried(const bd_item *of) {
  return is_bounded(of) && of->kind < BD_BOUND_TRIED && !of->tried;
}

// Whether there is a plan as good as any that is wanted of what was tried.
static bool is_good_enough(const bd_agenda *a, const bd_item *tried) {
  double slow = a->scene->request->slow_seconds;
  return slow > 0 && isfinite(a->best_seconds) && tried->of.seconds >= slow;
}

// Whether the item may have a plan that is better than the best.
static bool is_open(const bd_agenda *a, const bd_item *of) {
  return is_waiting(of) && of->of.seconds < a->best_seconds &&
         !(of->tried && is_good_enough(a, of));
}

// Of open items that wait for nothing the first by their order, the earlier one of equals; -1:
// there is none. `untried`: only those whose layers are bounded and that were not tried.
static int next_item(const bd_agenda *a, bool untried) {
  int next = -1;
  for (int i = 0; i < a->item_count; i++)
    if (is_open(a, &a->items[i]) && (!untried || is_untried(&a->items[i])) &&
        (next < 0 || order_of(a, &a->items[i]) < order_of(a, &a->items[next])) &&
        !awaits_whole(a, &a->items[i]) && !awaits_cheaper(a, &a->items[i]))
      next = i;
  return next;
}

// In place of a part, the largest whole of it whose bound is little more: it has to be bounded as
// well, and may spare the part that.
static int whole_first(const bd_agenda *a, int part) {
  int whole = part;
  if (part < 0 || !is_unopened(&a->items[part])) return part;
  double most = a->items[part].of.seconds * WHOLE_FACTOR;
  for (int i = 0; i < a->settings; i++)
    if (is_unopened(&a->items[i]) && is_open(a, &a->items[i]) && a->items[i].of.seconds <= most &&
        is_part(&a->items[part].of.setting, &a->items[i].of.setting))
      whole = i; // settings of as many stages are in the order of their micro-batches
  return whole;
}

// Whether a setting looks like what people choose: the near axis of the mesh fills a node, and the
// far one splits the micro-batch down to a sample.
static bool is_usual(const bd_agenda *a, const bd_setting *setting) {
  int devices = bd_mesh_devices(&setting->mesh), node = a->scene->cluster->devices_per_node;
  int near = setting->mesh.size[setting->mesh.axes - 1];
  if (setting->mesh.axes > 2 || near != (devices < node ? devices : node)) return false;
  return setting->micro_batch == devices / near;
}

bool bd_agenda_may_gain_much(const bd_agenda *a, const bd_item *item) {
  return item->of.seconds <= a->best_seconds * MUCH;
}

// The least bound first would bound many settings before it solved one. So the usual ones come
// first, and now and then, the best of those that are bounded is tried, while it may gain much:
// there is a good plan early.
int bd_agenda_turn(bd_agenda *a) {
  while (a->usual < a->settings) {
    int next = a->usual++;
    if (is_open(a, &a->items[next]) && is_usual(a, &a->items[next].of.setting)) return next;
  }
  if (a->bounded >= a->next_dive) {
    int dive = next_item(a, true), more = a->bounded / DIVE_PART;
    if (more < DIVE_LEAST) more = DIVE_LEAST;
    if (dive >= 0 && !bd_agenda_may_gain_much(a, &a->items[dive])) dive = -1;
    if (dive < 0 || a->items[dive].kind == BD_BOUND_ROOM ||
        bd_agenda_tries_next(a, &a->items[dive]))
      a->next_dive = a->bounded + 1 + (more < DIVE_MOST ? more : DIVE_MOST);
    if (dive >= 0) return dive;
  }
  return whole_first(a, next_item(a, false));
}

int bd_agenda_leanest(const bd_agenda *a) {
  int next = -1;
  for (int i = 0; i < a->item_count; i++)
    if (is_bounded(&a->items[i]) && (next < 0 || a->items[i].of.bytes < a->items[next].of.bytes))
      next = i;
  return next;
}

// Whether an item is attempted together with another: it differs in the tied form alone and may
// still have a plan that is wanted.
static bool goes_with(const bd_agenda *a, const bd_item *of, const bd_item *other,
                      int64_t most_bytes) {
  if (other == of) return true;
  if (!is_waiting(other) || other->kind != of->kind || other->tried != of->tried ||
      !bd_setting_same(&of->of.setting, &other->of.setting))
    return false;
  if (isinf(of->of.seconds)) return !most_bytes || other->of.bytes < (double)most_bytes;
  return other->of.seconds < a->best_seconds;
}

int bd_agenda_batch(bd_agenda *a, int item, int attempt, int64_t most_bytes,
                    const bd_bounded **out_tied) {
  const bd_item *of = &a->items[item];
  int room = 0, count = 0;
  for (int i = 0; i < a->item_count; i++)
    room += goes_with(a, of, &a->items[i], most_bytes);
  bd_bounded *tied = BD_NEW_ARRAY(a->ctx->arena, bd_bounded, room);
  for (int i = 0; i < a->item_count; i++) {
    if (!goes_with(a, of, &a->items[i], most_bytes)) continue;
    int at = count++;
    for (; at > 0 && tied[at - 1].seconds > a->items[i].of.seconds; at--)
      tied[at] = tied[at - 1];
    tied[at] = a->items[i].of;
    a->items[i].batched = attempt;
  }
  *out_tied = tied;
  return count;
}

// What the layers of a micro-batch take bounds those of its parts, which then may not have to be
// bounded themselves.
static void bound_parts(bd_agenda *a, const bd_attempt *found) {
  int best = 0;
  for (int i = 1; i < found->bounded_count; i++)
    if (found->bounded[i].free_seconds < found->bounded[best].free_seconds) best = i;
  for (int i = 0; i < a->settings && found->bounded_count; i++) {
    bd_bounded *of = &a->items[i].of;
    if (is_waiting(&a->items[i]) && is_part(&of->setting, &found->setting))
      of->seconds = fmax(of->seconds,
                         bd_bound_part(a->scene, &found->bounded[best], of->setting.micro_batch));
  }
}

// Whether the attempt bounds a setting for all tied forms at once.
static bool is_for_all(const bd_attempt *found) {
  return found->kind == BD_ATTEMPT_APART || found->kind == BD_ATTEMPT_SKETCH;
}

static void take_for_all(bd_item *of, const bd_attempt *found) {
  of->of.seconds = fmax(of->of.seconds, found->bounded[0].seconds);
  of->of.price = found->bounded[0].price;
  of->kind = found->kind == BD_ATTEMPT_APART ? BD_BOUND_APART : BD_BOUND_SKETCH;
  of->batched = -1;
}

static void take_tried(bd_item *of) {
  of->tried = true;
  if (of->kind != BD_BOUND_LAYERS) of->kind = BD_BOUND_TRIED;
  of->batched = -1;
}

void bd_agenda_take(bd_agenda *a, const bd_attempt *found, int attempt, bool left_out) {
  double least = 0;
  bool tried = false;
  for (int i = 0; i < a->item_count; i++) {
    bd_item *from = &a->items[i];
    if (from->batched != attempt) continue;
    if (is_for_all(found) && !left_out) {
      take_for_all(from, found);
      bound_parts(a, found);
      return;
    }
    if (found->kind == BD_ATTEMPT_LAYERS) least = from->of.seconds;
    if (found->kind == BD_ATTEMPT_TRY && !left_out) {
      take_tried(from);
      continue;
    }
    tried = from->tried;
    // What an item has become carries its bound on.
    if (found->kind != BD_ATTEMPT_SOLVE && !left_out) from->of.seconds = INFINITY;
    from->batched = -1;
    from->kind = BD_BOUND_DONE;
  }
  if (left_out) return;
  if (found->kind == BD_ATTEMPT_LAYERS) {
    a->bounded++;
    bound_parts(a, found);
  }
  for (int i = 0; i < found->bounded_count; i++) {
    bd_bounded b = found->bounded[i];
    b.seconds = fmax(b.seconds, least);
    bd_bound_kind kind = !b.tight ? BD_BOUND_LAYERS : tried ? BD_BOUND_TRIED : BD_BOUND_ROOM;
    add_item(a, (bd_item){b, kind, -1, tried});
  }
}

// The last of the same setting and tied form: it has the highest bound.
static bool is_last_of_form(const bd_agenda *a, int item) {
  const bd_setting *setting = &a->items[item].of.setting;
  for (int i = item + 1; i < a->item_count; i++) {
    const bd_setting *other = &a->items[i].of.setting;
    if (bd_setting_same(setting, other) &&
        bd_sharding_equal(&setting->tied_form, &other->tied_form))
      return false;
  }
  return true;
}

void bd_agenda_take_bytes(bd_agenda *a, const bd_agenda *before) {
  double most = (double)a->scene->layers_cap_bytes;
  for (int i = before->settings; i < before->item_count; i++) {
    const bd_setting *setting = &before->items[i].of.setting;
    bd_bounded of = {.setting = *setting, .bytes = before->items[i].of.bytes};
    for (int k = 0; k < a->settings; k++) {
      const bd_setting *own = &a->items[k].of.setting;
      if (!bd_setting_same(setting, own)) continue;
      a->items[k].kind = BD_BOUND_DONE;
      of.seconds = a->items[k].of.seconds;
    }
    if (of.bytes <= most && is_last_of_form(before, i))
      add_item(a, (bd_item){of, BD_BOUND_LAYERS, -1, false});
  }
}

double bd_agenda_bound(const bd_agenda *a) {
  double least = a->best_seconds;
  for (int i = 0; i < a->item_count; i++)
    least = fmin(least, a->items[i].of.seconds);
  return least;
}
