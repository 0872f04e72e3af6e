#include "planner/graph/setting.h"
#include "planner/graph/weights.h"
#include <math.h>

static bd_layers_criteria criteria_of(const bd_layers_setting *setting, double forward,
                                      double backward, double weight) {
  bd_layers_criteria c = {{forward + backward}};
  int m = setting->micro_batches, around = (m < setting->stages ? m : setting->stages) - 1;
  if (setting->schedule == BD_SCHEDULE_GPIPE) {
    c.at[1] = (m - 1) * forward;
    c.at[2] = (m - 1) * backward;
  }
  if (setting->schedule != BD_SCHEDULE_ZERO_BUBBLE) return c;
  double input = backward - weight;
  c.at[0] = forward + input;
  c.at[1] = (m - 1) * c.at[0] + (m - around) * weight;
  c.at[2] = c.at[1] + around * (weight - forward);
  c.at[3] = c.at[1] + around * (weight - input);
  return c;
}

bd_layers_criteria bd_layers_criteria_both(const bd_layers_setting *setting, double seconds) {
  return criteria_of(setting, seconds / 2, seconds / 2, 0);
}

void bd_layers_criteria_add(const bd_layers_setting *setting, bd_layers_criteria *sum,
                            const bd_layers_criteria *add) {
  for (int i = 0; i < setting->criteria; i++)
    sum->at[i] += add->at[i];
}

double bd_layers_fill(const bd_layers_setting *setting, const bd_layers_criteria *c) {
  return setting->schedule == BD_SCHEDULE_ZERO_BUBBLE ? c->at[0] : c->at[0] / setting->chunks;
}

double bd_layers_rest(const bd_layers_setting *setting, const bd_layers_criteria *c) {
  if (setting->schedule == BD_SCHEDULE_GPIPE) return c->at[1];
  if (setting->schedule == BD_SCHEDULE_ZERO_BUBBLE) return fmax(c->at[1], fmax(c->at[2], c->at[3]));
  return setting->micro_batches * c->at[0] - c->at[0] / setting->chunks;
}

double bd_layers_rest_second(const bd_layers_setting *setting, const bd_layers_criteria *c) {
  return setting->schedule == BD_SCHEDULE_GPIPE ? c->at[2] : 0;
}

// Whether `a` does in the place of `b` whatever the other layers do; of equals the first.
static bool replaces(const bd_layers_setting *setting, int layer, int a, int b) {
  const bd_layers_option *x = &setting->problem->layers[layer].options[a];
  const bd_layers_option *y = &setting->problem->layers[layer].options[b];
  const bd_layers_criteria *p = bd_layers_option_criteria(setting, layer, a);
  const bd_layers_criteria *q = bd_layers_option_criteria(setting, layer, b);
  bool equal = true;
  for (int i = 0; i < setting->criteria; i++) {
    if (p->at[i] > q->at[i]) return false;
    equal = equal && p->at[i] == q->at[i];
  }
  if (x->form != y->form || x->sync_seconds > y->sync_seconds || x->fixed_bytes > y->fixed_bytes ||
      x->micro_batch_bytes > y->micro_batch_bytes ||
      x->weight_input_bytes > y->weight_input_bytes || x->workspace_bytes > y->workspace_bytes)
    return false;
  equal = equal && x->sync_seconds == y->sync_seconds && x->fixed_bytes == y->fixed_bytes &&
          x->micro_batch_bytes == y->micro_batch_bytes &&
          x->weight_input_bytes == y->weight_input_bytes &&
          x->workspace_bytes == y->workspace_bytes;
  return !equal || a < b;
}

static bool fits_setting(const bd_layers_setting *setting, const bd_layers_option *option) {
  return !option->micro_batches || option->micro_batches == setting->micro_batches;
}

static bool is_replaced(const bd_layers_setting *setting, int layer, int option) {
  const bd_layers_layer *at = &setting->problem->layers[layer];
  for (int other = 0; other < at->option_count; other++)
    if (other != option && at->options[other].mode == at->options[option].mode &&
        fits_setting(setting, &at->options[other]) && replaces(setting, layer, other, option))
      return true;
  return false;
}

// Whether a stage may hold the option: alone, and with as little in flight as any stage has.
static bool fits_cap(const bd_layers_setting *setting, const bd_layers_option *option) {
  bd_schedule_hold least = setting->hold[0];
  for (int s = 1; s < setting->stages; s++) {
    if (setting->hold[s].tapes < least.tapes) least.tapes = setting->hold[s].tapes;
    if (setting->hold[s].weight_inputs < least.weight_inputs)
      least.weight_inputs = setting->hold[s].weight_inputs;
  }
  const bd_layers_problem *problem = setting->problem;
  return option->fixed_bytes + least.tapes * option->micro_batch_bytes +
             least.weight_inputs * option->weight_input_bytes + option->workspace_bytes <=
         problem->groups[problem->modes[option->mode].group].cap_bytes;
}

// Fills what is known of one layer; false when no option is for this setting.
static bool open_layer(bd_ctx *ctx, bd_layers_setting *setting, int layer) {
  const bd_layers_problem *problem = setting->problem;
  const bd_layers_layer *at = &problem->layers[layer];
  bd_layers_usable *usable = &setting->usable[layer * problem->mode_count];
  double fill = INFINITY, rest = INFINITY;
  for (int mode = 0; mode < problem->mode_count; mode++)
    usable[mode].option = BD_NEW_ARRAY(ctx->arena, int, at->option_count);
  for (int k = 0; k < at->option_count; k++) {
    const bd_layers_option *option = &at->options[k];
    setting->of_option[setting->first_option[layer] + k] = criteria_of(
        setting, option->forward_seconds, option->backward_seconds, option->weight_seconds);
  }
  for (int k = 0; k < at->option_count; k++) {
    const bd_layers_criteria *c = bd_layers_option_criteria(setting, layer, k);
    if (!fits_setting(setting, &at->options[k]) || !fits_cap(setting, &at->options[k]) ||
        is_replaced(setting, layer, k))
      continue;
    bd_layers_usable *of = &usable[at->options[k].mode];
    of->option[of->count++] = k;
    fill = fmin(fill, bd_layers_fill(setting, c));
    rest = fmin(rest, bd_layers_linear_rest(setting, c));
  }
  setting->fill_before[layer + 1] = setting->fill_before[layer] + fill;
  setting->rest_before[layer + 1] = setting->rest_before[layer] + rest;
  return isfinite(fill);
}

// A layer like the one before it shares what is known of that one.
static void copy_layer(bd_layers_setting *setting, int layer) {
  int modes = setting->problem->mode_count;
  for (int mode = 0; mode < modes; mode++)
    setting->usable[layer * modes + mode] = setting->usable[(layer - 1) * modes + mode];
  double *fill = &setting->fill_before[layer], *rest = &setting->rest_before[layer];
  fill[1] = fill[0] + (fill[0] - fill[-1]);
  rest[1] = rest[0] + (rest[0] - rest[-1]);
}

// False when a layer is fixed to a stage that there is not.
static bool open_ends(bd_layers_setting *setting) {
  const bd_layers_problem *problem = setting->problem;
  for (int s = 0; s < setting->stages; s++) {
    setting->least_end[s] = 0;
    setting->most_end[s] = problem->layer_count;
  }
  for (int i = 0; problem->stage && i < problem->layer_count; i++) {
    if (problem->stage[i] >= setting->stages) return false;
    for (int s = 0; problem->stage[i] >= 0 && s < setting->stages; s++) {
      if (s >= problem->stage[i]) setting->least_end[s] = i + 1;
      if (s < problem->stage[i] && setting->most_end[s] > i) setting->most_end[s] = i;
    }
  }
  return true;
}

void bd_layers_setting_open(bd_ctx *ctx, const bd_layers_problem *problem, bd_schedule schedule,
                            int stages, int chunks, int micro_batches, bd_layers_setting *out,
                            bool *out_possible) {
  int layers = problem->layer_count, options = 0;
  *out_possible = false;
  if (!bd_schedule_allows(schedule, stages, chunks, micro_batches)) return;
  if ((int64_t)stages * chunks > layers) return;
  *out = (bd_layers_setting){.problem = problem, .schedule = schedule, .stages = stages};
  out->chunks = chunks;
  if (!open_ends(out)) return;
  out->micro_batches = micro_batches;
  out->criteria = schedule == BD_SCHEDULE_ZERO_BUBBLE ? 4 : schedule == BD_SCHEDULE_GPIPE ? 3 : 1;
  out->usable =
      bd_arena_array(ctx->arena, (size_t)layers * (size_t)problem->mode_count, sizeof *out->usable);
  out->first_option = BD_NEW_ARRAY(ctx->arena, int, layers);
  out->fill_before = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
  out->rest_before = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
  for (int i = 0; i < layers; i++) {
    bool like = i && problem->layers[i].class == problem->layers[i - 1].class;
    out->first_option[i] = like ? out->first_option[i - 1] : options;
    if (!like) options += problem->layers[i].option_count;
  }
  out->of_option = BD_NEW_ARRAY(ctx->arena, bd_layers_criteria, options);
  for (int s = 0; s < stages; s++)
    out->hold[s] = bd_schedule_held(schedule, s, stages, chunks, micro_batches);
  for (int i = 0; i < layers; i++) {
    if (i && problem->layers[i].class == problem->layers[i - 1].class)
      copy_layer(out, i);
    else if (!open_layer(ctx, out, i))
      return;
  }
  bd_layers_weigh(ctx, out);
  out->tolerance = 1e-14 * out->fill_before[layers];
  *out_possible = true;
}

// The least that a layer adds to fill and to a mean of rest: over stages, and over what stages
// weigh.
static void joint_seconds(const bd_layers_setting *setting, int layer, double *out_mean,
                          double *out_share) {
  const bd_layers_problem *problem = setting->problem;
  double of_capacity = setting->capacity > 0 ? 1 / setting->capacity : 0;
  *out_mean = *out_share = INFINITY;
  for (int mode = 0; mode < problem->mode_count; mode++) {
    const bd_layers_usable *usable = bd_layers_usable_of(setting, layer, mode);
    for (int k = 0; k < usable->count; k++) {
      const bd_layers_criteria *c = bd_layers_option_criteria(setting, layer, usable->option[k]);
      double fill = bd_layers_fill(setting, c), rest = bd_layers_linear_rest(setting, c);
      *out_mean = fmin(*out_mean, fill + rest / setting->stages);
      *out_share = fmin(*out_share, fill + rest * setting->mode_weight[mode] * of_capacity);
    }
  }
}

double bd_layers_setting_bound(const bd_layers_setting *setting) {
  const bd_layers_problem *problem = setting->problem;
  double mean = 0, share = 0, of_mean = 0, of_share = 0;
  for (int i = 0; i < problem->layer_count; i++) {
    if (!i || problem->layers[i].class != problem->layers[i - 1].class)
      joint_seconds(setting, i, &of_mean, &of_share);
    mean += of_mean;
    share += of_share;
  }
  return fmax(mean, share);
}
