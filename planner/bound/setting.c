// The layers of a setting: opened, or bounded without that.
#include "planner/bound/bound.h"

int bd_scene_calls_like(const bd_scene *scene, int run) {
  int calls = 0;
  for (int r = 0; r < scene->runs->count; r++)
    if (scene->runs->runs[r].like == run) calls += scene->runs->runs[r].calls;
  return calls;
}

int bd_scene_micro_batches(const bd_scene *scene, int64_t micro_batch) {
  return (int)(scene->request->global_batch / micro_batch);
}

bool bd_setting_is_fine(const bd_setting *setting) {
  return setting->mesh.axes > 2;
}

// Micro-batches of a step and those that fill and drain the pipeline.
static int passes_of(const bd_scene *scene, const bd_setting *setting) {
  return bd_scene_micro_batches(scene, setting->micro_batch) + setting->stages - 1;
}

static bool has_tied(const bd_run *run) {
  const bd_function *f = run->function;
  for (int p = 0; p < f->param_count; p++) {
    int uses = 0;
    for (int i = 0; f->is_weight[p] && i < f->op_count; i++)
      for (int o = 0; o < f->ops[i].in_count; o++)
        uses += f->ops[i].in[o] == f->params[p];
    bool tied = run->weight_uses[p].calls > 1 || uses > 1;
    if (tied && !run->weight_uses[p].whole) return true;
  }
  return false;
}

static bd_layer_request request_of(const bd_scene *scene, const bd_setting *setting, int run,
                                   int passes, const bd_setting_layers *layers) {
  const bd_plan_request *request = scene->request;
  return (bd_layer_request){
      .solver = request->solver,
      .train = scene->train,
      .cost = {scene->cluster, setting->mesh, setting->micro_batch},
      .function = scene->runs->runs[run].function,
      .weight_uses = scene->runs->runs[run].weight_uses,
      .form_count = layers->form_count,
      .forms = layers->forms,
      .tied_form = setting->tied_form,
      .stages = setting->stages,
      .passes = passes,
      .optimizer = request->optimizer,
      .masters = request->masters,
      .gradients = request->gradients,
      .zero = request->zero,
      .recompute = request->recompute,
      .aside = request->full,
      .constraints = request->constraints,
      .pin = scene->runs->runs[run].pin,
      .sequence = scene->sequence,
      .whole_queries =
          !bd_space_cuts_queries(&setting->mesh, request->global_batch, scene->sequence),
  };
}

bd_layer_request bd_setting_request(const bd_scene *scene, const bd_setting *setting, int run) {
  const bd_setting_layers none = {0};
  return request_of(scene, setting, run, passes_of(scene, setting), &none);
}

// Keeps the forms that constraints allow, the one that splits nothing among them.
static int allowed_forms(const bd_scene *scene, const bd_setting *setting, int count,
                         bd_sharding *forms) {
  int kept = 0;
  for (int f = 0; f < count; f++)
    if (bd_constraints_allow_form(scene->request->constraints, &setting->mesh, &forms[f]))
      forms[kept++] = forms[f];
  return kept;
}

// The forms and requests of a setting.
static void begin(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int passes,
                  bd_setting_layers *out) {
  int runs = scene->runs->count;
  *out = (bd_setting_layers){.form_count = 0};
  out->form_count =
      bd_space_forms(ctx, &setting->mesh, setting->micro_batch, scene->sequence, &out->forms);
  out->form_count = allowed_forms(scene, setting, out->form_count, out->forms);
  out->requests = BD_NEW_ARRAY(ctx->arena, bd_layer_request, runs);
  for (int r = 0; r < runs; r++)
    out->requests[r] = request_of(scene, setting, r, passes, out);
}

int bd_setting_tied_forms(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          bd_setting **out) {
  bd_sharding *tied;
  int count = bd_space_tied_forms(ctx, &setting->mesh, scene->runs->any_tied, &tied), allowed = 0;
  *out = BD_NEW_ARRAY(ctx->arena, bd_setting, count);
  for (int t = 0; t < count; t++) {
    bd_setting with = *setting;
    with.tied_form = tied[t];
    if (bd_constraints_allow_tied(scene->request->constraints, scene->request->zero, &setting->mesh,
                                  &tied[t]))
      (*out)[allowed++] = with;
  }
  return allowed;
}

// Where a run's layers are already: those of a run like it before it, or without tied weights those
// of `share_tied`; under the number `*out_run`. NULL: they are to be made.
static const bd_setting_layers *made_before(const bd_scene *scene, int run,
                                            const bd_setting_layers *own,
                                            const bd_setting_layers *share_tied, int *out_run) {
  *out_run = scene->runs->runs[run].like;
  if (*out_run < run) return own;
  return share_tied && !has_tied(&scene->runs->runs[run]) ? share_tied : NULL;
}

const bd_links *bd_setting_links_of(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                                    const bd_setting_layers *share_tied,
                                    const bd_setting_layers *own) {
  bd_cost_model cost = {scene->cluster, setting->mesh, setting->micro_batch};
  if (share_tied && share_tied->links) return share_tied->links;
  return bd_links_find(ctx, scene->train, scene->runs, &cost, own->form_count, own->forms);
}

bd_status bd_setting_open_among(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                                int passes, const bd_setting_layers *share_tied,
                                bd_setting_layers *out) {
  begin(ctx, scene, setting, passes, out);
  out->links = bd_setting_links_of(ctx, scene, setting, share_tied, out);
  out->layers = BD_NEW_ARRAY(ctx->arena, bd_layer *, scene->runs->count);
  for (int r = 0, of; r < scene->runs->count; r++) {
    const bd_setting_layers *made = made_before(scene, r, out, share_tied, &of);
    if (made)
      out->layers[r] = made->layers[of];
    else
      BD_TRY(bd_layer_open(ctx, &out->requests[r], share_tied ? share_tied->layers[r] : NULL,
                           &out->layers[r]));
  }
  return BD_OK;
}

bd_status bd_setting_open(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          const bd_setting_layers *share_tied, bd_setting_layers *out) {
  return bd_setting_open_among(ctx, scene, setting, passes_of(scene, setting), share_tied, out);
}

bd_status bd_setting_sketch(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                            const bd_setting_layers *share_tied, bd_setting_layers *out) {
  begin(ctx, scene, setting, passes_of(scene, setting), out);
  out->sketches = BD_NEW_ARRAY(ctx->arena, bd_layer_sketch *, scene->runs->count);
  for (int r = 0, of; r < scene->runs->count; r++) {
    const bd_setting_layers *made = made_before(scene, r, out, share_tied, &of);
    if (made)
      out->sketches[r] = made->sketches[of];
    else if (share_tied)
      bd_layer_sketch_open_as(ctx, &out->requests[r], share_tied->sketches[r], &out->sketches[r]);
    else
      BD_TRY(bd_layer_sketch_open(ctx, &out->requests[r], &out->sketches[r]));
  }
  return BD_OK;
}
