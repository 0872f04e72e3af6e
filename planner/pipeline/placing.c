#include "planner/pipeline/placing.h"
#include <limits.h>

bool bd_layer_chain_list(const bd_pipeline_problem *p, bd_layer_chain *out) {
  *out = (bd_layer_chain){.problem = p};
  for (int r = 0; r < p->run_count; r++)
    for (int i = 0; i < p->runs[r].calls; i++) {
      if (out->layers == BD_LABEL_LAYERS || p->runs[r].candidate_count > SHRT_MAX) return false;
      out->run_of[out->layers++] = r;
    }
  return true;
}

void bd_placing_add(bd_placing *placing, int layer, int stage, int candidate) {
  placing->candidate[layer] = (short)candidate;
  placing->stage_of[layer] = (signed char)stage;
}

const bd_layer_candidate *bd_placing_candidate(const bd_layer_chain *chain,
                                               const bd_placing *placing, int layer) {
  return &chain->problem->runs[chain->run_of[layer]].candidates[placing->candidate[layer]];
}

bd_layer_place bd_placing_at(const bd_layer_chain *chain, const bd_placing *placing, int layer) {
  return (bd_layer_place){placing->stage_of[layer],
                          bd_placing_candidate(chain, placing, layer)->form};
}

bd_skip_cost bd_placing_skip(const bd_layer_chain *chain, const bd_placing *placing,
                             const bd_pipeline_skip *skip, bool *out_stays) {
  bd_layer_place from = bd_placing_at(chain, placing, skip->from),
                 to = bd_placing_at(chain, placing, skip->to);
  *out_stays = from.stage == to.stage;
  bool there =
      bd_pipeline_skip_is_there(chain->problem, skip, placing->stage_of, skip->to, to.stage);
  return bd_pipeline_skip_cost(chain->problem, skip, from, to, there);
}

bool bd_placing_may_end(const bd_pipeline_problem *p, int stage, int placed) {
  return !p->cut_least || (placed >= p->cut_least[stage] && placed <= p->cut_most[stage]);
}

void bd_placing_count(bd_ctx *ctx, const bd_layer_chain *chain, const bd_placing *placing,
                      int **out_count, int **out_entry) {
  const bd_pipeline_problem *p = chain->problem;
  int *count = *out_count = BD_NEW_ARRAY(ctx->arena, int, p->stages *bd_pipeline_candidates(p));
  int *entry = *out_entry = BD_NEW_ARRAY(ctx->arena, int, p->stages * p->run_count);
  for (int i = 0; i < p->stages * p->run_count; i++)
    entry[i] = -1;
  for (int i = 0; i < chain->layers; i++) {
    int stage = placing->stage_of[i], run = chain->run_of[i];
    int *enters = &entry[stage * p->run_count + run];
    count[bd_pipeline_index(p, stage, run, placing->candidate[i])]++;
    if (*enters < 0) *enters = bd_placing_candidate(chain, placing, i)->form;
  }
}
