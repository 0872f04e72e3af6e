#include "tests/unit/planner/support_layers.h"
#include "tests/unit/random.h"
#include <math.h>
#include <string.h>

static double random_seconds(double base) {
  return base * random_below(4000) / 1000.0;
}

double layers_hand_seconds(const instance *in, int layer) {
  double seconds = 0;
  for (int i = 0; i < in->links; i++)
    if (in->from[i] < layer && in->to[i] >= layer)
      seconds += 2 * (in->latency + (double)in->bytes[i] / in->bytes_per_second);
  return seconds;
}

int64_t layers_skip_bytes(const instance *in, int layer, int mode) {
  int64_t bytes = 0, devices = in->mode[mode].devices;
  for (int i = 0; i < in->links; i++)
    if (in->from[i] < layer && in->to[i] >= layer && in->to[i] > in->from[i] + 1)
      bytes += (in->bytes[i] + devices - 1) / devices;
  return bytes;
}

static void make_cuts(instance *in) {
  int F = in->forms;
  for (int n = 0; n < in->modes; n++)
    for (int i = 0; i < F * F; i++)
      in->change[n * F * F + i] = i % (F + 1) ? in->change_seconds : 0;
  for (int l = 0; l < in->layers; l++) {
    for (int i = 0; i < in->modes * in->modes * F * F; i++)
      in->hand[l][i] = layers_hand_seconds(in, l);
    for (int n = 0; n < in->modes; n++)
      in->held[l][n] = layers_skip_bytes(in, l, n);
    in->cut[l] = (bd_layers_cut){in->change, in->hand[l], in->hand[l], in->held[l]};
  }
}

static void make_options(instance *in, int layer, double seconds, int64_t bytes) {
  bool equal = layer && random_below(2) && in->links == in->layers - 1;
  int count = 0;
  for (int i = 0; i < MOST_OPTIONS; i++) {
    if (i >= 2 * in->modes || (i % 2 && random_below(3)) || !random_below(12)) continue;
    int k = count++;
    bd_layers_option *o = &in->option[layer][k];
    *o = (bd_layers_option){.mode = i / 2, .form = (int)random_below((unsigned)in->forms)};
    if (!random_below(16)) o->micro_batches = in->micro_batches[0];
    o->forward_seconds = random_seconds(seconds);
    o->backward_seconds = random_seconds(2 * seconds);
    o->weight_seconds = o->backward_seconds * random_below(4) / 4;
    o->sync_seconds = random_seconds(seconds);
    o->fixed_bytes = bytes * random_below(100) / 100;
    o->micro_batch_bytes = bytes * random_below(50) / 100;
    o->weight_input_bytes = bytes * random_below(30) / 100;
    o->workspace_bytes = bytes * random_below(100) / 100;
  }
  in->layer[layer] = (bd_layers_layer){layer, count, in->option[layer]};
  if (equal) in->layer[layer] = in->layer[layer - 1];
}

static void make_links(instance *in, int64_t bytes) {
  for (int l = 0; l + 1 < in->layers; l++) {
    in->from[in->links] = l;
    in->to[in->links] = l + 1;
    in->bytes[in->links++] = bytes;
  }
  for (int skips = random_below(2) ? (int)random_below(LINKS + 1) : 0; skips > 0; skips--) {
    if (in->layers < 3) return;
    int from = (int)random_below((unsigned)in->layers - 2);
    in->from[in->links] = from;
    in->to[in->links] = from + 2 + (int)random_below((unsigned)(in->layers - from - 2));
    in->bytes[in->links++] = bytes * random_below(200) / 100;
  }
}

// Now and then a layer is fixed to a stage, or a number of stages is forbidden.
static void make_pins(instance *in) {
  for (int l = 0; l < in->layers; l++)
    in->stage[l] = random_below(3) ? -1 : (int)random_below(3);
  if (!random_below(6)) in->problem.stage = in->stage;
  if (random_below(8)) return;
  in->forbidden_stages[1 + random_below(4)] = true;
  in->problem.forbidden_stages = in->forbidden_stages;
}

void layers_make_instance(instance *in) {
  static const double seconds_of[] = {1e-5, 1e-2, 3};
  static const int64_t bytes_of[] = {100, 1 << 20, (int64_t)1 << 33};
  double seconds = seconds_of[random_below(3)];
  int64_t bytes = bytes_of[random_below(3)];
  memset(in, 0, sizeof *in);
  in->layers = random_below(10) ? 3 + (int)random_below(MOST_LAYERS - 2) : 1 + (int)random_below(2);
  in->groups = 1 + (int)random_below(3);
  in->forms = 1 + (int)random_below(MOST_FORMS);
  for (int g = 0; g < in->groups; g++)
    in->group[g] =
        (bd_layers_group){"g", 2 + (int)random_below(4), bytes * (100 + random_below(900)) / 100};
  in->modes = 1 + (int)random_below(MOST_MODES);
  for (int n = 0; n < in->modes; n++) {
    int g = (int)random_below((unsigned)in->groups);
    in->mode[n] =
        (bd_layers_mode){g, 1 + (int)random_below((unsigned)(in->group[g].count + 1) / 2)};
  }
  in->latency = random_below(2) ? 0 : seconds / 50;
  in->bytes_per_second = (double)bytes / seconds * (1 + random_below(100)) / 2;
  in->change_seconds = random_below(4) ? random_seconds(seconds / 3) : INFINITY;
  in->micro_batches[0] = 1 + (int)random_below(6);
  in->micro_batches[1] = in->micro_batches[0] + 1 + (int)random_below(4);
  in->chunks[0] = 2;
  in->chunks[1] = 3;
  make_links(in, bytes / 10);
  for (int l = 0; l < in->layers; l++)
    make_options(in, l, seconds, bytes);
  make_cuts(in);
  in->problem = (bd_layers_problem){.layer_count = in->layers,
                                    .layers = in->layer,
                                    .cuts = in->cut,
                                    .group_count = in->groups,
                                    .groups = in->group,
                                    .mode_count = in->modes,
                                    .modes = in->mode,
                                    .form_count = in->forms,
                                    .schedules = 1 + random_below(15),
                                    .micro_batch_count = 1 + (int)random_below(2),
                                    .micro_batches = in->micro_batches,
                                    .chunk_count = 1 + (int)random_below(2),
                                    .chunks = in->chunks,
                                    .max_stages = 1 + (int)random_below(4)};
  make_pins(in);
}
