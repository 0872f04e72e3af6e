// What a checkpoint keeps of each weight, and which rank has what of it: a function of the plan
// alone, so that a run under another plan finds each number.
#ifndef BD_RT_CUT_H
#define BD_RT_CUT_H
#include "runtime/layout.h"

// The weight (its master where it has one), the optimizer's moments, and Adafactor's averages of
// squared gradients: of rows, of columns, of all.
enum {
  BD_RT_SAVED_WEIGHT,
  BD_RT_SAVED_FIRST,
  BD_RT_SAVED_SECOND,
  BD_RT_SAVED_ROWS,
  BD_RT_SAVED_COLUMNS,
  BD_RT_SAVED_MEAN,
  BD_RT_SAVED_KINDS
};

// Of a tensor in the model's index space a rank has a part, `local` in its padded buffer, and of
// that buffer positions [start, start + count).
typedef struct bd_rt_cut {
  bd_rt_local local;
  int32_t dtype; // BD_RT_F32, or of a weight that is rounded BD_RT_BF16
  int64_t start, count;
} bd_rt_cut;

// Whether there is such a tensor of the weight. Of `program` here and below optimizer, axes, mesh
// and zero_axes count; of `weight` layout, cut_axis, cut_dim, rounded, average, factor_dim and
// gradient_count.
int bd_rt_saved_has(const bd_rt_program *program, const bd_rt_weight *weight, int kind);
const char *bd_rt_saved_name(int kind);
// What the rank at these coordinates of a stage's mesh holds; and what of that it writes: ranks
// that hold the same write equal parts of it.
bd_rt_cut bd_rt_cut_held(const bd_rt_program *program, const bd_rt_weight *weight, int kind,
                         const int *coord);
bd_rt_cut bd_rt_cut_written(const bd_rt_program *program, const bd_rt_weight *weight, int kind,
                            const int *coord);
#endif
