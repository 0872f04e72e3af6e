#include "planner/bound/filling.h"
#include "planner/step/bound.h"
#include <math.h>

enum {
  MESSAGE_ROUNDS = 2,  // of what messages take at the cuts that they leave room for
  MOST_CUTS = 1 << 15, // stages, from one layer to another
};

int bd_weighed_ahead(const bd_scene *scene, const bd_setting *setting, int stage) {
  int micro_batches = bd_scene_micro_batches(scene, setting->micro_batch);
  if (bd_scene_schedule(scene) == BD_SCHEDULE_GPIPE) return 0;
  return bd_schedule_in_flight(BD_SCHEDULE_1F1B, stage, setting->stages, micro_batches) - 1;
}

double bd_weighed_with_end(const bd_weighed *w, int run, double micro_batches) {
  double most = micro_batches * w->seconds[run];
  for (int i = 0; i < w->count && w->weights[i] <= micro_batches; i++)
    most = fmax(most, w->with_end[i][run] + (micro_batches - w->weights[i]) * w->seconds[run]);
  return most;
}

// A stage in the making.
typedef struct filling {
  int stage;
  double most;              // seconds of a micro-batch that paths leave it
  double seconds, backward; // of a micro-batch
  double moved;             // of these, messages
  // By two paths that come to the stage's own end, beside the sum of all stages.
  double even_end, late_end;
  double with_end[BD_WEIGHTS]; // of so many micro-batches and the step's end, layers alone
} filling;

// `after`: seconds of the stages after it.
static filling begin_stage(const bd_weighed *w, int stage, double after, const bd_step_limit *at) {
  int micro_batches = bd_scene_micro_batches(w->scene, w->setting->micro_batch);
  double ahead = bd_weighed_ahead(w->scene, w->setting, stage), moved = w->moves.of_stage[stage];
  double tie = stage == 0 || stage == w->setting->stages - 1 ? w->tie : 0;
  filling out = {.stage = stage, .seconds = moved, .moved = moved};
  out.most = bd_step_most_seconds(bd_scene_schedule(w->scene), stage, w->setting->stages,
                                  micro_batches, after, at->path);
  // Of the paths that this knows, the even one alone is longer by all that messages take more.
  double passes = micro_batches - 1 - ahead / 2;
  if (passes > 0) out.most = fmin(out.most, (at->path - at->more) / passes);
  out.even_end = passes * moved + tie;
  out.late_end = (micro_batches - 1 - ahead) * moved + tie;
  for (int i = 0; i < w->count; i++)
    out.with_end[i] = tie;
  return out;
}

static filling with_layer(const bd_weighed *w, int run, filling of) {
  int micro_batches = bd_scene_micro_batches(w->scene, w->setting->micro_batch);
  double ahead = bd_weighed_ahead(w->scene, w->setting, of.stage), seconds = w->seconds[run];
  double backward = ahead * w->backward[run];
  of.seconds += seconds;
  of.backward += w->backward[run];
  of.even_end += bd_weighed_with_end(w, run, micro_batches - ahead / 2) - seconds;
  of.late_end += bd_weighed_with_end(w, run, micro_batches - ahead) + backward - seconds;
  for (int i = 0; i < w->count; i++)
    of.with_end[i] += w->with_end[i][run];
  return of;
}

static filling with_message(const bd_weighed *w, double seconds, filling of) {
  int others = bd_scene_micro_batches(w->scene, w->setting->micro_batch) - 1;
  double ahead = bd_weighed_ahead(w->scene, w->setting, of.stage);
  of.seconds += seconds;
  of.moved += seconds;
  of.even_end += (others - ahead / 2) * seconds;
  of.late_end += (others - ahead) * seconds;
  return of;
}

// What the stage's own end takes at least, since its layers take no longer than paths leave it.
static double own_end(const bd_weighed *w, const filling *of) {
  double end = 0, most = of->most - of->moved;
  for (int i = 0; i < w->count && isfinite(most); i++)
    end = fmax(end, of->with_end[i] - w->weights[i] * most);
  return end;
}

// The stage that has the longest end, or shares a weight with another, need not be the one with the
// longest path.
static bool fits(const bd_weighed *w, const filling *of, const bd_step_limit *at) {
  double late = bd_step_backward_rest_seconds(
      bd_scene_schedule(w->scene), of->stage, w->setting->stages,
      bd_scene_micro_batches(w->scene, w->setting->micro_batch), of->seconds, of->backward);
  return of->seconds <= of->most && late <= at->path - at->more &&
         fmax(of->even_end, of->late_end) <= at->rest - at->more && own_end(w, of) <= at->ends;
}

// The last stages take as many layers as they can.
static bool can_fill(const bd_weighed *w, const bd_step_limit *at) {
  int run = w->scene->runs->count - 1, left = w->scene->runs->runs[run].calls;
  double after = 0;
  for (int s = w->setting->stages - 1; s >= 0; s--) {
    filling now = begin_stage(w, s, after, at), next;
    if (!fits(w, &now, at)) return false;
    while (next = with_layer(w, run, now), fits(w, &next, at)) {
      now = next;
      if (--left > 0) continue;
      if (run == 0) return true;
      left = w->scene->runs->runs[--run].calls;
    }
    after += now.seconds;
  }
  return false;
}

// Layers before `end` on a stage, from every one on with which it keeps to the limit: `begin`, per
// layer, becomes what messages take more when it is the first, `more` being what those after the
// stage do.
static void fill_back(const bd_weighed *w, int stage, int end, double after, double more,
                      const bd_step_limit *at, double *begin) {
  int calls = w->scene->runs->calls, run = w->scene->runs->count - 1, first = calls;
  filling now = begin_stage(w, stage, after, at);
  if (stage + 1 < w->setting->stages) {
    more += w->cut[stage * calls + end - 1].left;
    now = with_message(w, w->cut[stage * calls + end - 1].left, now);
  }
  for (int l = end - 1; l >= stage; l--) {
    while (first > l)
      first -= w->scene->runs->runs[run--].calls;
    now = with_layer(w, run + 1, now);
    if (!fits(w, &now, at)) return;
    if (stage > 0) {
      double right = w->cut[(stage - 1) * calls + l - 1].right;
      filling whole = with_message(w, right, now);
      if (fits(w, &whole, at)) begin[l] = fmin(begin[l], more + right);
    } else if (l == 0) {
      begin[0] = fmin(begin[0], more);
    }
  }
}

// What messages take more than the least of any cut at least, in all stages together; INFINITY:
// there is no cut.
static double least_more(const bd_weighed *w, const bd_step_limit *at) {
  int calls = w->scene->runs->calls;
  double sent = 0, *from = w->held[0], *to = w->held[1];
  for (int l = 0; l <= calls; l++)
    from[l] = l < calls ? INFINITY : 0;
  for (int s = w->setting->stages - 1; s >= 0; sent += w->moves.of_stage[s--]) {
    double layers = 0;
    for (int l = 0; l <= calls; l++)
      to[l] = INFINITY;
    for (int end = calls, run = w->scene->runs->count, first = calls; end > 0; end--) {
      if (isfinite(from[end])) fill_back(w, s, end, layers + sent, from[end], at, to);
      while (first >= end)
        first -= w->scene->runs->runs[--run].calls;
      layers += w->seconds[run];
    }
    double *held = from;
    from = to;
    to = held;
  }
  return from[0];
}

bool bd_weighed_can_cut(const bd_weighed *w, bd_step_limit at) {
  double before = -1;
  if (w->tie > at.ends) return false;
  if (!w->cut) return can_fill(w, &at);
  for (int round = 0; round < MESSAGE_ROUNDS && at.more > before; round++) {
    before = at.more;
    at.more = fmax(before, least_more(w, &at));
    if (at.more > at.path) return false;
  }
  return true;
}

static bool is_uneven(const bd_links *links, int calls) {
  for (int l = 1; l + 1 < calls; l++)
    if (links->there_bytes[l] != links->there_bytes[0] ||
        links->back_bytes[l] != links->back_bytes[0])
      return true;
  return false;
}

const bd_cut_moves *bd_weighed_cuts(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                                    const bd_setting_layers *layers) {
  int calls = scene->runs->calls, stages = setting->stages;
  if ((int64_t)stages * calls * calls > MOST_CUTS || !is_uneven(layers->links, calls)) return NULL;
  bd_cut_moves *out = bd_arena_array(ctx->arena, (size_t)stages * (size_t)calls, sizeof *out);
  for (int s = 0; s + 1 < stages; s++)
    for (int l = 0; l + 1 < calls; l++)
      out[s * calls + l] = bd_bound_cut_moves(scene, setting, layers, s, l);
  return out;
}
