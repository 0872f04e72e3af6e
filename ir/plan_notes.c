#include "ir/plan_notes.h"
#include "ir/partition.h"

const char *bd_cut_name(bd_cut cut) {
  static const char *const names[BD_CUT_COUNT] = {NULL, "samples", "tokens", "features"};
  return names[cut];
}

static bool is_position(const bd_type *type, int dim, int64_t sequence) {
  return dim == 1 && type->rank > 1 && type->dims[0] == BD_DIM_BATCH && type->dims[1] == sequence;
}

// Whether the loop runs over the second dimension of something that the batch begins.
static bool is_token_loop(const bd_function *function, const bd_op *op, const bd_index_map *map,
                          int loop, int64_t sequence) {
  for (int i = 0; i < op->in_count + op->out_count; i++) {
    bool is_result = i >= op->in_count;
    int at = is_result ? i - op->in_count : i;
    const bd_type *type = &function->values[is_result ? op->out[at] : op->in[at]].type;
    const int8_t *loops = is_result ? map->out[at] : map->in[at];
    for (int d = 0; d < type->rank; d++)
      if (loops[d] == loop && is_position(type, d, sequence)) return true;
  }
  return false;
}

bd_cut bd_loop_cut(const bd_function *function, const bd_op *op, const bd_index_map *map, int loop,
                   int64_t sequence) {
  if (map->loop[loop].extent == BD_DIM_BATCH) return BD_CUT_SAMPLES;
  if (sequence > 0 && is_token_loop(function, op, map, loop, sequence)) return BD_CUT_TOKENS;
  return BD_CUT_FEATURES;
}

static bd_status note_op(bd_ctx *ctx, const bd_function *function, const bd_op *op,
                         const char letters[BD_MAX_AXES], int64_t sequence,
                         unsigned char out_cut[BD_MAX_AXES]) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(ctx, function, op, &map, types));
  for (int axis = 0; axis < BD_MAX_AXES; axis++) {
    int loop = letters[axis] == '-' ? -1 : bd_index_find(&map, letters[axis]);
    out_cut[axis] =
        (unsigned char)(loop < 0 ? BD_CUT_NONE : bd_loop_cut(function, op, &map, loop, sequence));
  }
  return BD_OK;
}

bd_status bd_plan_note(bd_ctx *ctx, const bd_module *train, bd_plan *plan) {
  int64_t sequence = bd_module_sequence(train);
  for (int i = 0; i < plan->strategy_count; i++) {
    bd_strategy *strategy = &plan->strategies[i];
    const bd_function *function = bd_module_find(train, strategy->function);
    strategy->cut = bd_arena_array(ctx->arena, (size_t)strategy->op_count, sizeof *strategy->cut);
    for (int op = 0; op < strategy->op_count; op++)
      BD_TRY(note_op(ctx, function, &function->ops[op], strategy->split[op], sequence,
                     strategy->cut[op]));
    strategy->recomputed = bd_strategy_recomputed(ctx, train, strategy);
  }
  return BD_OK;
}
