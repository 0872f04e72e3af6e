#include "tests/unit/planner/support_layer.h"
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "planner/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const bd_mesh meshes[] = {{1, {1}}, {1, {2}}, {2, {2, 2}}, {3, {2, 1, 2}}};
enum { MESHES = sizeof meshes / sizeof *meshes, MICRO_BATCH = 4 };

bd_module *layer_train(bd_ctx *ctx, const char *model) {
  bd_model_options options = {0};
  if (strncmp(model, "gpt2", 4) == 0 || strncmp(model, "llama", 5) == 0)
    options = (bd_model_options){.sequence = 8, .vocabulary = 64};
  bd_module *graph = NULL, *train = NULL;
  bd_status status = bd_model_load(ctx, model, &options, &graph);
  if (status == BD_OK) status = bd_pass_autodiff(ctx, graph, &train);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return train;
}

static bd_layer_request request_of(const bd_module *train, const bd_cluster *cluster,
                                   const bd_mesh *mesh, const bd_run *run, int recompute) {
  return (bd_layer_request){.train = train,
                            .cost = {cluster, *mesh, MICRO_BATCH},
                            .function = run->function,
                            .weight_uses = run->weight_uses,
                            .passes = 2,
                            .optimizer = "adamw",
                            .zero = -1,
                            .recompute = recompute};
}

static void visit_runs(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                       const bd_mesh *mesh, int recompute, layer_visit visit) {
  bd_model_runs runs = bd_model_runs_find(ctx, train, NULL);
  bd_sharding *forms, *tied;
  int form_count = bd_space_forms(ctx, mesh, MICRO_BATCH, 8, &forms);
  int tied_count = bd_space_tied_forms(ctx, mesh, runs.any_tied, &tied);
  for (int r = 0; r < runs.count; r++)
    for (int t = 0; t < tied_count; t++) {
      bd_layer_request request = request_of(train, cluster, mesh, &runs.runs[r], recompute);
      request.form_count = form_count;
      request.forms = forms;
      request.tied_form = tied[t];
      visit(ctx, &request);
    }
}

static void start_at_once(bd_cluster *cluster, int link_rate) {
  cluster->kernel_seconds = 1e-9;
  cluster->intra = (bd_link){.bytes_per_second = 1e3 * link_rate};
  cluster->node.switch_sum = (bd_link){0};
  cluster->flops.f32 = 2e12;
  cluster->work = (bd_work_rates){.product_beside = 0.8};
}

void layer_visit_model(const char *model, const char *preset, int recompute, int link_rate,
                       layer_visit visit) {
  for (int m = 0; m < MESHES; m++) {
    bd_ctx *ctx = bd_ctx_create();
    bd_module *train = layer_train(ctx, model);
    bd_cluster cluster;
    assert_int_equal(bd_cluster_load(ctx, preset, &cluster), BD_OK);
    train->cuda = link_rate > 0;
    if (link_rate) start_at_once(&cluster, link_rate);
    visit_runs(ctx, train, &cluster, &meshes[m], recompute, visit);
    bd_ctx_destroy(ctx);
  }
}

void layer_visit_fp8(const char *model, const char *preset, int recompute, layer_visit visit) {
  for (int m = 0; m < MESHES; m++) {
    bd_ctx *ctx = bd_ctx_create();
    bd_module *train = layer_train(ctx, model);
    bd_cluster cluster;
    assert_int_equal(bd_pass_run_list(ctx, "precision,fp8", NULL, stderr, train, &train), BD_OK);
    assert_int_equal(bd_cluster_load(ctx, preset, &cluster), BD_OK);
    train->cuda = true;
    start_at_once(&cluster, IN_PARTS);
    cluster.flops.bf16 = 4e12;
    cluster.flops.f8 = 8e12;
    visit_runs(ctx, train, &cluster, &meshes[m], recompute, visit);
    bd_ctx_destroy(ctx);
  }
}
