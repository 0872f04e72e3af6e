#include "tests/unit/planner/support_pipeline.h"
#include "tests/unit/random.h"

// The first numbers of neighbouring trials are much alike.
void begin_trial(uint64_t seed, int trial) {
  random_begin(seed + 31u * (uint64_t)trial);
  for (int i = 0; i < 4; i++)
    random_below(2);
}

static double random_seconds(double base) {
  return base * (1 + random_below(4000) / 1000.0);
}
static int64_t random_bytes(int64_t base) {
  return bd_align(base + base * random_below(400) / 100);
}

// A candidate of a layer between a microsecond and tens of milliseconds, kibibytes and gibibytes.
static bd_layer_candidate random_candidate(double seconds, int64_t bytes) {
  bd_layer_candidate c = {0};
  c.forward_seconds = random_seconds(seconds);
  c.backward_seconds = random_seconds(2 * seconds);
  for (int zero = 0; zero < 2; zero++)
    c.sync_seconds[zero] = random_seconds(seconds / 2);
  c.tape_bytes = random_bytes(bytes);
  c.boundary_bytes = random_bytes(bytes / 8);
  c.weight_bytes = c.gradient_bytes = random_bytes(bytes);
  c.optimizer_bytes[0] = 2 * c.weight_bytes;
  c.optimizer_bytes[1] = bd_align(c.weight_bytes / (1 + random_below(3)));
  c.passing_bytes = random_bytes(bytes / 8);
  c.workspace_bytes = random_bytes(bytes / 2);
  return c;
}

static const bd_both_ways *random_table(bd_ctx *ctx, int forms, double least, double seconds) {
  bd_both_ways *table = BD_NEW_ARRAY(ctx->arena, bd_both_ways, forms * forms);
  for (int i = 0; i < forms * forms; i++) {
    double all = least + (i % (forms + 1) ? random_seconds(seconds) : 0);
    table[i].forward = all * random_below(1000) / 1000;
    table[i].backward = all - table[i].forward;
  }
  return table;
}

static const double *random_handed(bd_ctx *ctx, int forms, int64_t bytes) {
  double *table = BD_NEW_ARRAY(ctx->arena, double, forms);
  for (int f = 0; f < forms; f++)
    table[f] = (double)random_bytes(bytes / 8);
  return table;
}

static const bd_pipeline_shared *random_shared(bd_ctx *ctx, const bd_pipeline_problem *p,
                                               int64_t bytes) {
  bd_pipeline_shared *shared = BD_NEW_ARRAY(ctx->arena, bd_pipeline_shared, MOST_SHARED);
  for (int w = 0; w < p->shared_count; w++) {
    bool *used = BD_NEW_ARRAY(ctx->arena, bool, p->run_count);
    for (int r = 0; r < p->run_count; r++)
      used[r] = random_below(2);
    shared[w] = (bd_pipeline_shared){(double)random_bytes(bytes), used};
  }
  return shared;
}

bd_pipeline_problem random_pipeline(bd_ctx *ctx) {
  static const double scale_seconds[] = {1e-6, 5e-5, 2e-3, 1e-2};
  static const int64_t scale_bytes[] = {4096, 1 << 20, 200 << 20};
  double seconds = scale_seconds[random_below(4)];
  int64_t bytes = scale_bytes[random_below(3)];
  bd_pipeline_problem p = {.stages = 1 + (int)random_below(MOST_STAGES),
                           .run_count = 1 + (int)random_below(MOST_RUNS),
                           .form_count = 1 + (int)random_below(2)};
  double send = random_below(3) ? seconds / 10 : 0, change = seconds / (1 + random_below(20));
  bd_pipeline_run *runs = BD_NEW_ARRAY(ctx->arena, bd_pipeline_run, p.run_count);
  for (int r = 0; r < p.run_count; r++) {
    runs[r] = (bd_pipeline_run){.calls = 1 + (int)random_below(4),
                                .candidate_count = 1 + (int)random_below(MOST_CANDIDATES),
                                .change = random_table(ctx, p.form_count, 0, change),
                                .send = random_table(ctx, p.form_count, send, change),
                                .receive = random_table(ctx, p.form_count, send, change),
                                .handed_bytes = random_handed(ctx, p.form_count, bytes)};
    bd_layer_candidate *list =
        BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, runs[r].candidate_count);
    for (int k = 0; k < runs[r].candidate_count; k++) {
      list[k] = random_candidate(seconds, bytes);
      list[k].form = (int)random_below((unsigned)p.form_count);
    }
    runs[r].candidates = list;
  }
  p.runs = runs;
  p.shared_count = (int)random_below(MOST_SHARED + 1);
  p.shared = random_shared(ctx, &p, bytes);
  p.micro_batches = 1 + (int)random_below(16);
  p.schedule = random_below(2) ? BD_SCHEDULE_1F1B : BD_SCHEDULE_GPIPE;
  p.zero = (int)random_below(2);
  p.cap_bytes = INT64_MAX / 4;
  p.sends_held = random_below(2);
  return p;
}
