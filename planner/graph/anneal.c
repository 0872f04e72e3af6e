#include "planner/graph/anneal.h"
#include "planner/graph/plan.h"
#include <math.h>

#define HOT 0.02    // of the step: how much worse a move may be, to begin with
#define COLD 0.0005 // and in the end
#define OVER 4.0    // steps that a cap counts which is exceeded by itself

typedef struct stage_sum {
  bd_layers_criteria criteria;
  double sync;
  double over; // bytes beyond the cap, of the cap
} stage_sum;

typedef struct annealing {
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  bd_layers_plan plan;
  int parts;
  int *first;            // per part, and one more
  stage_sum *sum, *kept; // per stage; kept: before the move
  uint64_t random;
} annealing;

// Knuth's linear congruential generator; below `count`.
static int random_below(annealing *a, int count) {
  a->random = a->random * 6364136223846793005u + 1442695040888963407u;
  return (int)((a->random >> 33) % (uint64_t)count);
}

static double random_unit(annealing *a) {
  return (random_below(a, 1 << 30) + 0.5) / (1 << 30);
}

static const bd_layers_option *option_of(const annealing *a, int layer) {
  return &a->problem->layers[layer].options[a->plan.option[layer]];
}

static void add_seconds(const annealing *a, stage_sum *sum, double seconds) {
  if (!isfinite(seconds)) {
    sum->criteria.at[0] = INFINITY;
    return;
  }
  bd_layers_criteria both = bd_layers_criteria_both(a->setting, seconds);
  bd_layers_criteria_add(a->setting, &sum->criteria, &both);
}

// Seconds for the boundary before a layer of the stage that sends, or that receives.
static double hand_seconds(const annealing *a, const double *hand, int layer, int part) {
  int S = a->setting->stages;
  int from = a->plan.mode[(part - 1) % S], to = a->plan.mode[part % S];
  return hand[bd_layers_hand_at(a->problem, from, option_of(a, layer - 1)->form, to,
                                option_of(a, layer)->form)];
}

// The layers of a part; returns what it holds for its micro-batches.
static int64_t add_part(const annealing *a, int part, stage_sum *sum, int64_t *fixed,
                        int64_t *workspace) {
  int stage = part % a->setting->stages, mode = a->plan.mode[stage];
  int first = a->first[part], end = a->first[part + 1];
  int64_t tape =
      first ? a->setting->hold[stage].tapes * a->problem->cuts[first].held_bytes[mode] : 0;
  if (first) add_seconds(a, sum, hand_seconds(a, a->problem->cuts[first].receive, first, part));
  if (part + 1 < a->parts)
    add_seconds(a, sum, hand_seconds(a, a->problem->cuts[end].send, end, part + 1));
  for (int i = first; i < end; i++) {
    const bd_layers_option *o = option_of(a, i);
    bd_layers_criteria_add(a->setting, &sum->criteria,
                           bd_layers_option_criteria(a->setting, i, a->plan.option[i]));
    sum->sync += o->sync_seconds;
    *fixed = bd_layers_add_bytes(*fixed, o->fixed_bytes);
    tape = bd_layers_add_bytes(tape, bd_layers_option_held(a->setting, stage, o));
    if (o->workspace_bytes > *workspace) *workspace = o->workspace_bytes;
    if (i == first) continue;
    double change =
        a->problem->cuts[i]
            .change[bd_layers_change_at(a->problem, mode, option_of(a, i - 1)->form, o->form)];
    if (change != 0) add_seconds(a, sum, change);
  }
  return tape;
}

static void sum_stage(annealing *a, int stage) {
  stage_sum sum = {.sync = 0};
  int64_t fixed = 0, workspace = 0, largest = 0;
  for (int part = stage; part < a->parts; part += a->setting->stages) {
    int64_t tape = add_part(a, part, &sum, &fixed, &workspace);
    if (tape > largest) largest = tape;
  }
  int64_t cap = bd_layers_mode_cap(a->problem, a->plan.mode[stage]);
  int64_t held = bd_layers_add_bytes(bd_layers_add_bytes(fixed, largest), workspace);
  int64_t over = held - cap;
  sum.over = over > 0 ? (double)over / (double)(cap > 0 ? cap : 1) : 0;
  a->sum[stage] = sum;
}

// The step, and what stages are over their caps by.
static double step_seconds(const annealing *a, double *out_over) {
  double fill = 0, rest = 0, second = 0, sync = 0;
  *out_over = 0;
  for (int s = 0; s < a->setting->stages; s++) {
    const stage_sum *at = &a->sum[s];
    if (!isfinite(at->criteria.at[0])) return INFINITY;
    fill += bd_layers_fill(a->setting, &at->criteria);
    rest = fmax(rest, bd_layers_rest(a->setting, &at->criteria));
    second = fmax(second, bd_layers_rest_second(a->setting, &at->criteria));
    sync = fmax(sync, at->sync);
    *out_over += at->over;
  }
  return fill + rest + second + sync;
}

// A move of one layer: to another part, or to another option.
typedef struct move {
  int layer, part, option; // as they were
} move;

static const bd_layers_usable *usable_of(const annealing *a, int layer, int part) {
  int mode = a->plan.mode[part % a->setting->stages];
  return bd_layers_usable_of(a->setting, layer, mode);
}

static void put(annealing *a, int layer, int part) {
  int before = a->plan.part[layer];
  if (part > before) a->first[part] = layer;
  if (part < before) a->first[before] = layer + 1;
  a->plan.part[layer] = part;
}

// A layer next to a boundary goes to the other side; false: that cannot be.
static bool shift(annealing *a, move *out) {
  if (a->parts == 1) return false;
  int part = 1 + random_below(a, a->parts - 1), left = random_below(a, 2);
  // To the left goes the first layer of the part, to the right the last one before it.
  int layer = left ? a->first[part] : a->first[part] - 1, to = left ? part - 1 : part;
  const bd_layers_usable *usable = usable_of(a, layer, to);
  const int *pin = a->problem->stage;
  *out = (move){layer, a->plan.part[layer], a->plan.option[layer]};
  if (a->first[out->part + 1] - a->first[out->part] == 1 || !usable->count) return false;
  if (pin && pin[layer] >= 0 && pin[layer] != to % a->setting->stages) return false;
  bool same = a->plan.mode[to % a->setting->stages] == a->plan.mode[out->part % a->setting->stages];
  if (!same || random_below(a, 2))
    a->plan.option[layer] = usable->option[random_below(a, usable->count)];
  put(a, layer, to);
  return true;
}

static bool change(annealing *a, move *out) {
  int layer = random_below(a, a->problem->layer_count);
  const bd_layers_usable *usable = usable_of(a, layer, a->plan.part[layer]);
  *out = (move){layer, a->plan.part[layer], a->plan.option[layer]};
  a->plan.option[layer] = usable->option[random_below(a, usable->count)];
  return a->plan.option[layer] != out->option;
}

// Stages of the parts around a layer, each once.
static int stages_near(const annealing *a, int part, int out[3]) {
  int count = 0, S = a->setting->stages;
  for (int p = part - 1; p <= part + 1; p++) {
    bool seen = p < 0 || p >= a->parts;
    for (int i = 0; i < count; i++)
      seen = seen || out[i] == p % S;
    if (!seen) out[count++] = p % S;
  }
  return count;
}

static void open(bd_ctx *ctx, annealing *a, const bd_layers_plan *start) {
  int layers = a->problem->layer_count, stages = a->setting->stages;
  a->parts = stages * a->setting->chunks;
  a->first = BD_NEW_ARRAY(ctx->arena, int, a->parts + 1);
  a->sum = BD_NEW_ARRAY(ctx->arena, stage_sum, stages);
  a->kept = BD_NEW_ARRAY(ctx->arena, stage_sum, stages);
  a->plan = bd_layers_plan_new(ctx, a->setting);
  bd_layers_plan_copy(start, layers, &a->plan);
  for (int i = layers - 1; i >= 0; i--)
    a->first[a->plan.part[i]] = i;
  a->first[a->parts] = layers;
  for (int s = 0; s < stages; s++)
    sum_stage(a, s);
}

void bd_layers_anneal(bd_ctx *ctx, const bd_layers_setting *setting, const bd_layers_effort *effort,
                      const bd_layers_plan *start, int moves, int seed, double cutoff,
                      bd_layers_plan *out_best, bool *out_found) {
  annealing a = {.setting = setting, .problem = setting->problem, .random = (uint64_t)seed};
  double over;
  open(ctx, &a, start);
  double now = step_seconds(&a, &over), scale = now;
  now += OVER * scale * over;
  *out_found = false;
  int64_t work = 1 + setting->stages + a.problem->layer_count / setting->stages;
  for (int i = 0; i < moves && isfinite(now); i++) {
    if (!bd_layers_spend(effort->meter, work, effort->most_work)) return;
    double heat = scale * HOT * pow(COLD / HOT, (double)i / moves);
    move undo;
    int near[3], count;
    if (!(random_below(&a, 2) ? shift(&a, &undo) : change(&a, &undo))) continue;
    count = stages_near(&a, undo.part, near);
    for (int k = 0; k < count; k++) {
      a.kept[near[k]] = a.sum[near[k]];
      sum_stage(&a, near[k]);
    }
    double seconds = step_seconds(&a, &over), value = seconds + OVER * scale * over;
    if (value <= now || random_unit(&a) < exp((now - value) / heat)) {
      now = value;
      if (over > 0 || seconds >= cutoff) continue;
      cutoff = seconds;
      *out_found = true;
      bd_layers_plan_copy(&a.plan, a.problem->layer_count, out_best);
      continue;
    }
    a.plan.option[undo.layer] = undo.option;
    put(&a, undo.layer, undo.part);
    for (int k = 0; k < count; k++)
      a.sum[near[k]] = a.kept[near[k]];
  }
}
