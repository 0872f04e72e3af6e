#include "tests/unit/planner/support_layers.h"
#include <math.h>
#include <string.h>

// The most chunk tapes that stage s holds: by running its order.
static void count_held(const trial *t, int s, int *out_tapes, int *out_inputs) {
  int forwards = t->m * t->v, p = t->p;
  *out_tapes = forwards;
  *out_inputs = 0;
  if (t->schedule == BD_SCHEDULE_1F1B) *out_tapes = p - s;
  if (t->schedule == BD_SCHEDULE_INTERLEAVED)
    *out_tapes = t->v == 1 ? p - s : 2 * (p - s - 1) + (t->v - 1) * p + 1;
  if (t->schedule == BD_SCHEDULE_ZERO_BUBBLE) {
    *out_tapes = p;
    *out_inputs = s + 1 < forwards ? s + 1 : forwards;
  }
  if (*out_tapes > forwards) *out_tapes = forwards;
}

static int64_t over_cap(const trial *t, int s) {
  const instance *in = t->in;
  int64_t fixed = 0, tape = 0, largest = 0, workspace = 0;
  int tapes, inputs;
  count_held(t, s, &tapes, &inputs);
  for (int c = 0; c < t->v; c++) {
    tape = 0;
    for (int l = 0; l < in->layers; l++) {
      const bd_layers_option *o = &in->layer[l].options[t->option[l]];
      if (t->part[l] != c * t->p + s) continue;
      if (l && t->part[l - 1] != t->part[l]) tape += tapes * layers_skip_bytes(in, l, t->mode[s]);
      fixed += o->fixed_bytes;
      tape += tapes * o->micro_batch_bytes + inputs * o->weight_input_bytes;
      if (o->workspace_bytes > workspace) workspace = o->workspace_bytes;
    }
    if (tape > largest) largest = tape;
  }
  return fixed + largest + workspace - in->group[in->mode[t->mode[s]].group].cap_bytes;
}

// Forward, input gradient, weight gradient, sync of stage s; false when forms cannot change.
static bool time_stage(const trial *t, int s, double out[4]) {
  const instance *in = t->in;
  memset(out, 0, 4 * sizeof *out);
  for (int l = 0; l < in->layers; l++) {
    const bd_layers_option *o = &in->layer[l].options[t->option[l]];
    bool mine = t->part[l] % t->p == s, crosses = l && t->part[l] != t->part[l - 1];
    double extra = 0;
    if (mine) {
      out[0] += o->forward_seconds;
      out[1] += o->backward_seconds - o->weight_seconds;
      out[2] += o->weight_seconds;
      out[3] += o->sync_seconds;
    }
    if (mine && l && !crosses && o->form != in->layer[l - 1].options[t->option[l - 1]].form) {
      if (isinf(in->change_seconds)) return false;
      extra += in->change_seconds;
    }
    if (mine && crosses) extra += layers_hand_seconds(in, l);
    if (crosses && t->part[l - 1] % t->p == s) extra += layers_hand_seconds(in, l);
    out[0] += extra / 2;
    out[1] += extra / 2;
  }
  return true;
}

static double step_of(const trial *t) {
  double at[4][4], sum = 0, longest = 0, sync = 0, forward = 0, backward = 0;
  for (int s = 0; s < t->p; s++) {
    if (!time_stage(t, s, at[s])) return INFINITY;
    sync = fmax(sync, at[s][3]);
    sum += at[s][0] + at[s][1] + (t->schedule == BD_SCHEDULE_ZERO_BUBBLE ? 0 : at[s][2]);
  }
  for (int s = 0; s < t->p; s++) {
    double f = at[s][0], b = at[s][1], w = at[s][2];
    forward = fmax(forward, f);
    backward = fmax(backward, b + w);
    int k = t->m < t->p ? t->m : t->p;
    double seconds = (sum - f - b - w) / t->v + t->m * (f + b + w);
    if (t->schedule == BD_SCHEDULE_ZERO_BUBBLE)
      seconds =
          sum - f - b + t->m * (f + b) + (t->m - k + 1) * w + (k - 1) * fmax(0, w - fmin(f, b));
    longest = fmax(longest, seconds);
  }
  if (t->schedule == BD_SCHEDULE_GPIPE) longest = sum + (t->m - 1) * (forward + backward);
  return longest + sync;
}

static void try_layer(trial *t, int l) {
  const instance *in = t->in;
  if (l == in->layers) {
    if (t->part[l - 1] != t->p * t->v - 1) return;
    int64_t lacking = 0;
    for (int s = 0; s < t->p; s++) {
      int64_t over = over_cap(t, s);
      if (over > lacking) lacking = over;
    }
    double seconds = step_of(t);
    if (isinf(seconds)) return;
    if (lacking < t->lacking) t->lacking = lacking;
    if (!lacking) t->best = fmin(t->best, seconds);
    return;
  }
  for (int part = l ? t->part[l - 1] : 0; part <= (l ? t->part[l - 1] + 1 : 0); part++)
    for (int k = 0; part < t->p * t->v && k < in->layer[l].option_count; k++) {
      const bd_layers_option *o = &in->layer[l].options[k];
      if (o->mode != t->mode[part % t->p]) continue;
      if (in->problem.stage && in->stage[l] >= 0 && in->stage[l] != part % t->p) continue;
      if (o->micro_batches && o->micro_batches != t->m) continue;
      t->part[l] = part;
      t->option[l] = k;
      try_layer(t, l + 1);
    }
}

void layers_try_modes(trial *t, int s) {
  const instance *in = t->in;
  if (s == t->p) {
    try_layer(t, 0);
    return;
  }
  for (int n = 0; n < in->modes; n++) {
    int used = 0;
    t->mode[s] = n;
    for (int i = 0; i <= s; i++)
      if (in->mode[t->mode[i]].group == in->mode[n].group) used += in->mode[t->mode[i]].devices;
    if (used <= in->group[in->mode[n].group].count) layers_try_modes(t, s + 1);
  }
}

trial layers_enumerate(const instance *in) {
  trial t = {.in = in, .best = INFINITY, .lacking = INT64_MAX};
  for (t.schedule = 0; t.schedule < BD_SCHEDULE_COUNT; t.schedule++)
    for (int m = 0; m < in->problem.micro_batch_count; m++)
      for (t.p = 1; t.p <= in->problem.max_stages; t.p++)
        for (t.v = 1; t.v <= 3 && !in->forbidden_stages[t.p]; t.v++) {
          t.m = in->micro_batches[m];
          bool listed = t.schedule != BD_SCHEDULE_INTERLEAVED && t.v == 1;
          for (int i = 0; t.schedule == BD_SCHEDULE_INTERLEAVED && i < in->problem.chunk_count; i++)
            listed = listed || in->chunks[i] == t.v;
          if (!listed || !(in->problem.schedules >> t.schedule & 1)) continue;
          if (t.v > 1 && (t.m % t.p || t.p == 1)) continue;
          layers_try_modes(&t, 0);
        }
  return t;
}
