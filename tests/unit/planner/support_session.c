#include "tests/unit/planner/support_session.h"
#include "frontend/frontend.h"
#include "ir/pass.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

session open_model(const char *model, const char *cluster, int64_t global_batch) {
  session s = {.ctx = bd_ctx_create()};
  bd_model_options options = {.sequence = 16};
  bd_module *graph;
  assert_int_equal(bd_model_load(s.ctx, model, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_autodiff(s.ctx, graph, &s.train), BD_OK);
  assert_int_equal(bd_cluster_load(s.ctx, cluster, &s.cluster), BD_OK);
  s.request = (bd_plan_request){.model = model,
                                .target = "cpu",
                                .optimizer = "adamw",
                                .precision = BD_F32,
                                .global_batch = global_batch,
                                .sequence = 16,
                                .limit_seconds = 300,
                                .schedule = -1,
                                .zero = -1,
                                .recompute = -1};
  return s;
}

session open_session(const char *cluster, int64_t global_batch) {
  return open_model("gpt2-tiny", cluster, global_batch);
}

int64_t plan_bytes(const bd_plan *plan) {
  int64_t most = 0;
  for (int s = 0; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > most) most = plan->predicted[s].memory.total_bytes;
  return most;
}
