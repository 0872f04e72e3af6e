#include "planner/candidates.h"
#include "planner/full/space.h"
#include "planner/full/weight.h"
#include <math.h>
#include <string.h>

enum {
  FEW_PASSES = 16, // of which the end of a step is a large part
  LIGHT_ENDS = 4,  // ... as if it had so many times as many
};

// One mode with the candidates of every run.
typedef struct priced_mode {
  bool done;
  bd_scene scene;
  bd_setting setting;
  bd_setting_layers layers;
  int form_count;
  bd_sharding *forms; // those of candidates, and last the one on every rank alike
  int *count;         // per run
  bd_layer_candidate **candidates;
} priced_mode;

typedef struct posing {
  bd_ctx *ctx;
  const bd_full_space *space;
  int64_t micro_batch;
  bd_deadline deadline;
  priced_mode modes[BD_FULL_MAX_MODES];
  int forms;                          // of any mode
  double **change, **send, **receive; // per run; see bd_layers_cut
} posing;

static double seconds_of(const bd_layer_candidate *c, const posing *p) {
  double passes = (double)p->space->request->global_batch / (double)p->micro_batch;
  return c->forward_seconds + c->backward_seconds + c->sync_seconds[1] / passes;
}

static int64_t bytes_of(const bd_layer_candidate *c) {
  return c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[1] + c->tape_bytes;
}

// The forms that are kept: of every run that of its fastest candidate, and the leanest of the run
// with the most calls. Few forms keep the layer graph small.
static void choose_forms(const posing *p, const priced_mode *mode, bool *out_kept) {
  int longest = 0, leanest = -1;
  for (int r = 0; r < p->space->runs.count; r++) {
    int fastest = -1;
    for (int k = 0; k < mode->count[r]; k++)
      if (fastest < 0 ||
          seconds_of(&mode->candidates[r][k], p) < seconds_of(&mode->candidates[r][fastest], p))
        fastest = k;
    if (fastest >= 0) out_kept[mode->candidates[r][fastest].form] = true;
    if (p->space->runs.runs[r].calls > p->space->runs.runs[longest].calls) longest = r;
  }
  longest = p->space->runs.runs[longest].like;
  for (int k = 0; k < mode->count[longest]; k++)
    if (leanest < 0 ||
        bytes_of(&mode->candidates[longest][k]) < bytes_of(&mode->candidates[longest][leanest]))
      leanest = k;
  if (leanest >= 0) out_kept[mode->candidates[longest][leanest].form] = true;
}

static int number_form(priced_mode *mode, const bd_sharding *form) {
  for (int f = 0; f < mode->form_count; f++)
    if (bd_sharding_equal(&mode->forms[f], form)) return f;
  mode->forms[mode->form_count] = *form;
  return mode->form_count++;
}

// The candidates that remain, of runs that others are not like.
static void keep_forms(const posing *p, priced_mode *mode, const bool *kept) {
  for (int r = 0; r < p->space->runs.count; r++) {
    int count = 0;
    for (int k = 0; k < mode->count[r]; k++) {
      bd_layer_candidate candidate = mode->candidates[r][k];
      if (!kept[candidate.form]) continue;
      candidate.form = number_form(mode, &mode->layers.forms[candidate.form]);
      mode->candidates[r][count++] = candidate;
    }
    mode->count[r] = count;
  }
}

// Adds the first candidates of all runs, with the end of a step divided among so many passes.
static bd_status add_candidates(bd_ctx *ctx, const posing *p, int passes, priced_mode *out) {
  const bd_full_space *space = p->space;
  BD_TRY(bd_setting_open_among(ctx, &out->scene, &out->setting, passes, NULL, &out->layers));
  for (int r = 0; r < space->runs.count; r++) {
    bd_layer_candidate *list;
    int count, before = out->count[r];
    if (space->runs.runs[r].like < r) continue;
    BD_TRY(bd_layer_candidates(ctx, out->layers.layers[r], space->stages, 0, &list, &count));
    if (count == 0) continue;
    out->candidates[r] = bd_arena_grow(ctx->arena, out->candidates[r], (size_t)before,
                                       (size_t)(before + count), sizeof *list);
    memcpy(&out->candidates[r][before], list, (size_t)count * sizeof *list);
    out->count[r] += count;
  }
  return BD_OK;
}

// Of stages that wait for another's end, whose own counts for little; and where nothing is run
// again, which costs of options make look cheaper than it is.
static bd_status add_narrower(bd_ctx *ctx, const posing *p, int passes, priced_mode *out) {
  const bd_plan_request *request = p->space->request;
  bd_plan_request saving = *request;
  if (passes <= FEW_PASSES) BD_TRY(add_candidates(ctx, p, LIGHT_ENDS * passes, out));
  if (request->recompute >= 0) return BD_OK;
  saving.recompute = 0;
  out->scene.request = &saving;
  BD_TRY(add_candidates(ctx, p, passes, out));
  out->scene.request = request;
  return BD_OK;
}

static bd_status price_mode(bd_ctx *ctx, const posing *p, const bd_full_mode *mode,
                            priced_mode *out) {
  const bd_full_space *space = p->space;
  out->scene = bd_full_scene(space, mode->group);
  out->setting = (bd_setting){.stages = space->stages,
                              .mesh = mode->priced,
                              .micro_batch = p->micro_batch,
                              .tied_form = bd_sharding_replicated()};
  int runs = space->runs.count;
  int passes = bd_scene_micro_batches(&out->scene, p->micro_batch) + space->stages - 1;
  out->count = BD_NEW_ARRAY(ctx->arena, int, runs);
  out->candidates = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate *, runs);
  out->done = true;
  if (!bd_constraints_allow_micro_batch(space->request->constraints, &mode->priced, p->micro_batch))
    return BD_OK;
  BD_TRY(add_candidates(ctx, p, passes, out));
  if (space->more) BD_TRY(add_narrower(ctx, p, passes, out));
  out->forms = BD_NEW_ARRAY(ctx->arena, bd_sharding, out->layers.form_count);
  bool *kept = BD_NEW_ARRAY(ctx->arena, bool, out->layers.form_count);
  choose_forms(p, out, kept);
  keep_forms(p, out, kept);
  return BD_OK;
}

static bd_status price_task(bd_ctx *ctx, void *arg, int index) {
  posing *p = arg;
  if (bd_deadline_passed(p->deadline)) return BD_OK;
  return price_mode(ctx, p, &p->space->modes[index], &p->modes[index]);
}

static bd_layer_candidate *copy_candidates(bd_ctx *ctx, int count, const bd_layer_candidate *from) {
  bd_layer_candidate *out = bd_arena_copy(ctx->arena, from, count, sizeof *out);
  for (int k = 0; k < count; k++) {
    out[k].strategy = bd_strategy_copy(ctx, &from[k].strategy);
    out[k].option = NULL;
  }
  return out;
}

// What of a mode outlives its task: candidates, those of all runs now, and their forms.
static void take_mode(bd_ctx *ctx, void *arg, int index) {
  posing *p = arg;
  priced_mode *mode = &p->modes[index];
  if (!mode->done) return;
  int runs = p->space->runs.count, *count = BD_NEW_ARRAY(ctx->arena, int, runs);
  bd_layer_candidate **candidates = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate *, runs);
  for (int r = 0; r < runs; r++) {
    const bd_run *run = &p->space->runs.runs[r];
    count[r] = mode->count[run->like];
    candidates[r] = run->like < r ? bd_candidates_named_after(ctx, count[r], candidates[run->like],
                                                              run->function)
                                  : copy_candidates(ctx, count[r], mode->candidates[r]);
  }
  // Room for one more, which hand-overs to other meshes use.
  bd_sharding *forms = BD_NEW_ARRAY(ctx->arena, bd_sharding, mode->form_count + 1);
  if (mode->form_count) memcpy(forms, mode->forms, sizeof *forms * (size_t)mode->form_count);
  forms[mode->form_count] = bd_sharding_replicated();
  mode->count = count;
  mode->candidates = candidates;
  mode->forms = forms;
  if (mode->form_count > p->forms) p->forms = mode->form_count;
}

// Tables of a run among a mode's forms and the one on every rank alike, when what is sent goes to
// group `other`.
static void hand_on(const posing *p, int n, int other, int run, bd_pipeline_run *out) {
  const bd_full_space *space = p->space;
  const priced_mode *mode = &p->modes[n];
  bd_scene scene = mode->scene;
  const bd_full_group *group = &space->groups[space->modes[n].group];
  int devices = bd_mesh_devices(&space->modes[n].mesh);
  // Enough stages for the last two to be on two nodes, where there are several.
  bd_setting setting = mode->setting;
  setting.stages =
      devices < group->node && group->node < group->count ? group->node / devices + 1 : 2;
  bd_cluster cluster =
      bd_full_pair_cluster(space->cluster, group, &space->groups[other], devices, setting.stages);
  int stage = setting.stages - 2;
  bd_stage_links farthest = {.count = 1, .stage = &stage};
  scene.cluster = &cluster;
  bd_setting_hand_on(p->ctx, &scene, &setting, run, -1, &farthest, mode->form_count + 1,
                     mode->forms, out);
}

// One mode: what it costs to stay on it, and to hand on to it or any other mode. Between meshes an
// activation passes on every rank alike.
static void fill_tables(const posing *p, int n, int run) {
  const bd_full_space *space = p->space;
  int F = p->forms, modes = space->mode_count, own = p->modes[n].form_count, width = own + 1;
  bd_pipeline_run table;
  for (int other = 0; other < space->group_count; other++) {
    hand_on(p, n, other, run, &table);
    for (int f = 0; f < own; f++) {
      for (int m = 0; m < modes; m++) {
        if (space->modes[m].group != other) continue;
        for (int g = 0; g < F; g++) {
          int there = ((n * modes + m) * F + f) * F + g, back = ((m * modes + n) * F + g) * F + f;
          bool same = m == n;
          if (g >= p->modes[m].form_count) continue;
          p->send[run][there] = bd_pipeline_sum(table.send[f * width + (same ? g : own)]);
          p->receive[run][back] = bd_pipeline_sum(table.receive[(same ? g : own) * width + f]);
        }
      }
      for (int g = 0; g < own && other == space->modes[n].group; g++)
        p->change[run][(n * F + f) * F + g] = bd_pipeline_sum(table.change[f * width + g]);
    }
  }
}

static double *unreachable(bd_ctx *ctx, int count) {
  double *out = BD_NEW_ARRAY(ctx->arena, double, count);
  for (int i = 0; i < count; i++)
    out[i] = INFINITY;
  return out;
}

static void make_tables(posing *p) {
  const bd_full_space *space = p->space;
  int runs = space->runs.count, modes = space->mode_count, cells = p->forms * p->forms;
  p->change = BD_NEW_ARRAY(p->ctx->arena, double *, runs);
  p->send = BD_NEW_ARRAY(p->ctx->arena, double *, runs);
  p->receive = BD_NEW_ARRAY(p->ctx->arena, double *, runs);
  for (int r = 0; r < runs; r++) {
    p->change[r] = unreachable(p->ctx, modes * cells);
    p->send[r] = unreachable(p->ctx, modes * modes * cells);
    p->receive[r] = unreachable(p->ctx, modes * modes * cells);
    for (int n = 0; n < modes; n++)
      fill_tables(p, n, r);
  }
}

// Bytes of values that calls before `layer` make and calls after it read, but for what the call
// before hands to it.
static int64_t skip_bytes(const posing *p, int layer, int *out_values) {
  const bd_function *main = p->space->train->main;
  int64_t bytes = 0;
  int call = 0, *made_by = BD_NEW_ARRAY(p->ctx->arena, int, main->value_count);
  bool *seen = BD_NEW_ARRAY(p->ctx->arena, bool, main->value_count);
  *out_values = 0;
  memset(made_by, -1, sizeof *made_by * (size_t)main->value_count);
  for (int i = 0; i < main->op_count && call < p->space->layer_count; i++) {
    const bd_op *op = &main->ops[i];
    if (op->kind != BD_OP_CALL) continue;
    for (int k = 0; k < op->in_count; k++) {
      int from = made_by[op->in[k]];
      const bd_value *value = &main->values[op->in[k]];
      if (from < 0 || from >= layer || call < layer || call == from + 1 || seen[op->in[k]])
        continue;
      seen[op->in[k]] = true;
      *out_values += 1;
      bytes += bd_type_elements(&value->type, p->micro_batch) * bd_dtype_bytes(value->type.dtype);
    }
    for (int k = 0; k < op->out_count; k++)
      made_by[op->out[k]] = call;
    call++;
  }
  return bytes;
}

// What skips add to the cut before a layer: to every hand-over, there and back, and to what the
// stage that is entered holds; each device passes on its share.
static bd_layers_cut add_skips(const posing *p, const bd_layers_cut *plain, int64_t bytes,
                               int values) {
  const bd_full_space *space = p->space;
  int modes = space->mode_count, cells = p->forms * p->forms;
  double *send = BD_NEW_ARRAY(p->ctx->arena, double, modes *modes *cells);
  double *receive = BD_NEW_ARRAY(p->ctx->arena, double, modes *modes *cells);
  int64_t *held = BD_NEW_ARRAY(p->ctx->arena, int64_t, modes);
  for (int a = 0; a < modes; a++) {
    int own = bd_mesh_devices(&space->modes[a].mesh);
    held[a] = (bytes + own - 1) / own;
    for (int b = 0; b < modes; b++) {
      int other = bd_mesh_devices(&space->modes[b].mesh), width = own < other ? own : other;
      bd_cluster cluster =
          bd_full_pair_cluster(space->cluster, &space->groups[space->modes[a].group],
                               &space->groups[space->modes[b].group], own, 2);
      const bd_link *link = cluster.nodes > 1 ? &cluster.inter : &cluster.intra;
      double seconds =
          2 * (values * link->latency_seconds + (double)bytes / width / link->bytes_per_second);
      for (int i = (a * modes + b) * cells; i < (a * modes + b + 1) * cells; i++) {
        send[i] = plain->send[i] + seconds;
        receive[i] = plain->receive[i] + seconds;
      }
    }
  }
  return (bd_layers_cut){plain->change, send, receive, held};
}

static void make_cuts(posing *p, bd_layers_layer *layers, bd_full_problem *out) {
  const bd_full_space *space = p->space;
  int count = space->layer_count;
  bd_layers_cut *cuts = BD_NEW_ARRAY(p->ctx->arena, bd_layers_cut, count);
  const int64_t *nothing = BD_NEW_ARRAY(p->ctx->arena, int64_t, space->mode_count);
  int64_t before = -1;
  for (int l = 1; l < count; l++) {
    int run = space->run_of_layer[l - 1], values;
    int64_t bytes = skip_bytes(p, l, &values);
    out->skips = out->skips || values > 0;
    cuts[l] = (bd_layers_cut){p->change[run], p->send[run], p->receive[run], nothing};
    bool inner = l > 1 && space->run_of_layer[l] == run && space->run_of_layer[l - 2] == run;
    // Equal layers with unequal cuts between them are of two classes.
    if (inner && bytes != before)
      for (int i = l; i < count && space->run_of_layer[i] == run; i++)
        layers[i].class = count + l;
    if (inner && bytes == before)
      cuts[l] = cuts[l - 1];
    else if (values)
      cuts[l] = add_skips(p, &cuts[l], bytes, values);
    before = bytes;
  }
  out->layers.cuts = cuts;
}

static int total_candidates(const posing *p, int run) {
  int total = 0;
  for (int n = 0; n < p->space->mode_count; n++)
    total += p->modes[n].count[run];
  return total;
}

static bd_status make_options(posing *p, int run, bd_full_problem *out, int *index, int *modes,
                              bd_layers_layer *layer) {
  const bd_full_space *space = p->space;
  bd_layers_option *options =
      BD_NEW_ARRAY(p->ctx->arena, bd_layers_option, total_candidates(p, run));
  bd_pass_flops flops = {0};
  int zero = bd_constraints_split_states(space->request->constraints, space->request->zero);
  BD_TRY(bd_add_pass_flops(p->ctx, space->train, space->runs.runs[run].function, p->micro_batch,
                           &flops));
  *layer = (bd_layers_layer){.class = run, .options = options};
  for (int n = 0; n < space->mode_count; n++)
    for (int k = 0; k < p->modes[n].count[run]; k++) {
      const bd_layer_candidate *c = &p->modes[n].candidates[run][k];
      out->candidate[*index] = c;
      modes[*index] = n;
      options[layer->option_count++] = (bd_layers_option){
          .index = (*index)++,
          .mode = n,
          .form = c->form,
          .forward_seconds = c->forward_seconds,
          .backward_seconds = c->backward_seconds,
          .weight_seconds = bd_weight_pass_seconds(&flops, c->forward_seconds, c->backward_seconds),
          .sync_seconds = c->sync_seconds[zero],
          .fixed_bytes =
              c->weight_bytes + c->gradient_bytes + c->passing_bytes + c->optimizer_bytes[zero],
          .micro_batch_bytes = c->tape_bytes + c->boundary_bytes,
          .weight_input_bytes = c->tape_bytes,
          .workspace_bytes = c->workspace_bytes};
    }
  return BD_OK;
}

static bd_status make_layers(posing *p, bd_full_problem *out, bool *out_possible) {
  const bd_full_space *space = p->space;
  int total = 0, index = 0, runs = space->runs.count;
  for (int r = 0; r < runs; r++) {
    if (!total_candidates(p, r)) return BD_OK;
    total += total_candidates(p, r);
  }
  int *modes = BD_NEW_ARRAY(p->ctx->arena, int, total);
  bd_layers_layer *of_run = BD_NEW_ARRAY(p->ctx->arena, bd_layers_layer, runs);
  bd_layers_layer *layers = BD_NEW_ARRAY(p->ctx->arena, bd_layers_layer, space->layer_count);
  out->candidate = BD_NEW_ARRAY(p->ctx->arena, const bd_layer_candidate *, total);
  out->candidate_mode = modes;
  for (int r = 0; r < runs; r++)
    BD_TRY(make_options(p, r, out, &index, modes, &of_run[r]));
  for (int l = 0; l < space->layer_count; l++)
    layers[l] = of_run[space->run_of_layer[l]];
  make_cuts(p, layers, out);
  out->layers.layers = layers;
  *out_possible = true;
  return BD_OK;
}

static void make_devices(const posing *p, bd_layers_problem *out) {
  const bd_full_space *space = p->space;
  bd_layers_group *groups = BD_NEW_ARRAY(p->ctx->arena, bd_layers_group, space->group_count);
  bd_layers_mode *modes = BD_NEW_ARRAY(p->ctx->arena, bd_layers_mode, space->mode_count);
  int64_t library = bd_memory_library_bytes(space->train);
  for (int g = 0; g < space->group_count; g++)
    groups[g] = (bd_layers_group){space->groups[g].cluster.name, space->groups[g].count,
                                  space->groups[g].cap_bytes - library};
  for (int n = 0; n < space->mode_count; n++)
    modes[n] = (bd_layers_mode){space->modes[n].group, bd_mesh_devices(&space->modes[n].mesh)};
  out->group_count = space->group_count;
  out->groups = groups;
  out->mode_count = space->mode_count;
  out->modes = modes;
}

// What constraints say of numbers of stages, and of the stages of layers.
static void fix_stages(bd_ctx *ctx, const bd_full_space *space, bd_layers_problem *out) {
  const bd_constraints *c = space->request->constraints;
  bool *forbidden = BD_NEW_ARRAY(ctx->arena, bool, BD_LAYERS_MAX_STAGES + 1);
  int *stage = BD_NEW_ARRAY(ctx->arena, int, space->layer_count);
  bool any = false;
  for (int stages = 1; stages <= BD_LAYERS_MAX_STAGES; stages++)
    forbidden[stages] = !bd_constraints_allow_stages(c, stages);
  for (int l = 0; l < space->layer_count; l++)
    stage[l] = -1;
  for (int i = 0; c && i < c->layer_count; i++)
    for (int l = 0; l < c->layers[i].count && c->layers[i].stage >= 0; l++) {
      stage[c->layers[i].first + l] = c->layers[i].stage;
      any = true;
    }
  out->forbidden_stages = forbidden;
  out->stage = any ? stage : NULL;
}

bd_status bd_full_pose(bd_ctx *ctx, bd_workers *workers, const bd_full_space *space,
                       int64_t micro_batch, bd_deadline deadline, bd_full_problem *out,
                       bool *out_possible) {
  posing p = {.ctx = ctx, .space = space, .micro_batch = micro_batch, .forms = 1};
  p.deadline = deadline;
  *out_possible = false;
  *out = (bd_full_problem){.micro_batch = micro_batch};
  bd_work work = {space->mode_count, price_task, take_mode, &p};
  BD_TRY(bd_workers_run(ctx, workers, &work));
  for (int n = 0; n < space->mode_count; n++)
    if (!p.modes[n].done) return BD_OK;
  make_tables(&p);
  int *micro_batches = BD_NEW(ctx->arena, int);
  *micro_batches = (int)(space->request->global_batch / micro_batch);
  int schedule = space->request->schedule;
  out->layers = (bd_layers_problem){.layer_count = space->layer_count,
                                    .form_count = p.forms,
                                    .schedules = schedule < 0 ? (1u << BD_SCHEDULE_COUNT) - 1
                                                              : 1u << schedule,
                                    .micro_batch_count = 1,
                                    .micro_batches = micro_batches,
                                    .chunk_count = BD_FULL_CHUNKS,
                                    .chunks = bd_full_chunks,
                                    .max_stages = BD_FULL_MAX_STAGES};
  fix_stages(ctx, space, &out->layers);
  if (space->request->stages)
    out->layers.min_stages = out->layers.max_stages = space->request->stages;
  make_devices(&p, &out->layers);
  return make_layers(&p, out, out_possible);
}
