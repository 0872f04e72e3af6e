#include "planner/pipeline/skip.h"

bd_layer_place bd_pipeline_place(const bd_pipeline_problem *problem, const int *count,
                                 const int *entry, int layer) {
  int run = 0, before = 0;
  while (layer >= problem->runs[run].calls)
    layer -= problem->runs[run++].calls;
  for (int s = 0; s < problem->stages; s++) {
    int enters = entry[s * problem->run_count + run], first = 0, own = 0;
    for (int k = 0; enters >= 0 && k < problem->runs[run].candidate_count; k++) {
      int layers = count[bd_pipeline_index(problem, s, run, k)];
      own += layers;
      if (problem->runs[run].candidates[k].form == enters) first += layers;
    }
    if (layer < before + first) return (bd_layer_place){s, enters};
    if (layer < before + own)
      return (bd_layer_place){s, bd_pipeline_exit_form(problem, count, s, run, enters)};
    before += own;
  }
  return (bd_layer_place){problem->stages - 1, 0};
}

bool bd_pipeline_skip_is_there(const bd_pipeline_problem *problem, const bd_pipeline_skip *skip,
                               const signed char *stage_of, int placed, int stage) {
  int next = skip->from + 1;
  if (skip->next_too && next < placed && stage_of[next] == stage) return true;
  for (const bd_pipeline_skip *other = problem->skips; other < skip; other++)
    if (bd_skip_same_value(other, skip) && other->to < placed && stage_of[other->to] == stage)
      return true;
  return false;
}

// The slowest link on the way is that between the two stages.
static int hand_at(const bd_pipeline_problem *problem, const bd_pipeline_skip *skip,
                   bd_layer_place from, bd_layer_place to) {
  int slowest = bd_pipeline_hand_at(problem, from.stage, from.form, to.form);
  for (int s = from.stage + 1; s < to.stage; s++) {
    int at = bd_pipeline_hand_at(problem, s, from.form, to.form);
    if (bd_pipeline_sum(skip->receive[at]) > bd_pipeline_sum(skip->receive[slowest])) slowest = at;
  }
  return slowest;
}

bd_skip_cost bd_pipeline_skip_cost(const bd_pipeline_problem *problem, const bd_pipeline_skip *skip,
                                   bd_layer_place from, bd_layer_place to, bool there) {
  const double *handed = skip->handed_bytes;
  bool changes = from.form != to.form;
  double held = problem->sends_held ? bd_schedule_copies(from.stage, to.stage) : 0,
         both = changes ? handed[from.form] : 0;
  int in_flight =
      bd_schedule_in_flight(problem->schedule, to.stage, problem->stages, problem->micro_batches);
  bd_skip_cost out = {.maker = {0, skip->sum_seconds[from.form]}, .maker_bytes = handed[from.form]};
  if (from.stage == to.stage) {
    out.reader = skip->change[from.form * problem->form_count + to.form];
    if (changes) out.reader_bytes = in_flight * handed[to.form] + handed[from.form];
    return out;
  }
  int at = hand_at(problem, skip, from, to);
  out.maker.forward = there ? 0 : skip->send[at].forward;
  out.maker.backward += skip->send[at].backward;
  out.maker_bytes += handed[to.form] + both + (there ? 0 : held * handed[from.form]);
  out.reader = skip->receive[at];
  out.reader_bytes = in_flight * handed[to.form] + both + held * handed[to.form];
  if (!there) return out;
  out.reader.forward = 0;
  out.reader_bytes = held * handed[to.form];
  return out;
}

static void add_skip(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                     const bd_stage_links *links, int run, int result, int form_count,
                     const bd_sharding *forms, bd_pipeline_skip *out) {
  bd_cost_model cost = {scene->cluster, setting->mesh, setting->micro_batch};
  bd_pipeline_run tables;
  double *sum = BD_NEW_ARRAY(ctx->arena, double, form_count);
  bd_setting_hand_on(ctx, scene, setting, run, result, links, form_count, forms, &tables);
  // Two are read and one is written.
  for (int f = 0; f < form_count; f++)
    if (tables.handed_bytes[f] > 0) sum[f] = bd_cost_copy(&cost, 1.5 * tables.handed_bytes[f]);
  out->change = tables.change;
  out->send = tables.send;
  out->receive = tables.receive;
  out->handed_bytes = tables.handed_bytes;
  out->sum_seconds = sum;
}

static bool reads(const bd_op *call, bd_id value) {
  for (int k = 0; k < call->in_count; k++)
    if (call->in[k] == value) return true;
  return false;
}

static void list_runs(const bd_scene *scene, int *run_of) {
  for (int r = 0, call = 0; r < scene->runs->count; r++)
    for (int i = 0; i < scene->runs->runs[r].calls; i++)
      run_of[call++] = r;
}

// The forward calls of main, in order.
static const bd_op **list_calls(bd_ctx *ctx, const bd_scene *scene) {
  const bd_function *main = scene->train->main;
  const bd_op **calls = BD_NEW_ARRAY(ctx->arena, const bd_op *, scene->runs->calls);
  for (int i = 0, call = 0; i < main->op_count && call < scene->runs->calls; i++)
    if (bd_module_calls_forward(scene->train, &main->ops[i])) calls[call++] = &main->ops[i];
  return calls;
}

void bd_skips_find(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                   const bd_stage_links *links, int form_count, const bd_sharding *forms,
                   bd_pipeline_problem *problem) {
  int calls = scene->runs->calls, count = 0;
  const bd_op **call = list_calls(ctx, scene);
  int *run_of = BD_NEW_ARRAY(ctx->arena, int, calls);
  list_runs(scene, run_of);
  bd_pipeline_skip *skips = NULL;
  for (int from = 0; from < calls; from++)
    for (int result = 0; result < call[from]->out_count; result++)
      for (int to = from + 2; to < calls; to++) {
        bd_id value = call[from]->out[result];
        if (!reads(call[to], value)) continue;
        skips = bd_arena_grow(ctx->arena, skips, (size_t)count, (size_t)count + 1, sizeof *skips);
        skips[count] = (bd_pipeline_skip){
            .from = from, .to = to, .result = result, .next_too = reads(call[from + 1], value)};
        add_skip(ctx, scene, setting, links, run_of[from], result, form_count, forms,
                 &skips[count++]);
      }
  problem->skip_count = count;
  problem->skips = skips;
}
