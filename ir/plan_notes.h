// What a plan's strategies mean, for readers of the plan file.
#ifndef BD_IR_PLAN_NOTES_H
#define BD_IR_PLAN_NOTES_H
#include "ir/index.h"
#include "ir/plan.h"

typedef enum bd_cut {
  BD_CUT_NONE,     // the ranks of the axis all do the same
  BD_CUT_SAMPLES,  // of the batch
  BD_CUT_TOKENS,   // positions of the sequence
  BD_CUT_FEATURES, // everything else: channels, heads, the vocabulary
  BD_CUT_COUNT
} bd_cut;
// "samples"; NULL for BD_CUT_NONE.
const char *bd_cut_name(bd_cut cut);

// What a loop of an op of a function runs over; sequence: tokens of a sample, 0 for none.
bd_cut bd_loop_cut(const bd_function *function, const bd_op *op, const bd_index_map *map, int loop,
                   int64_t sequence);

// Fills the notes of every strategy of a plan that fits the module (bd_plan_check): what each op's
// split cuts, and which ops run again in backward.
BD_NODISCARD bd_status bd_plan_note(bd_ctx *ctx, const bd_module *train, bd_plan *plan);
#endif
