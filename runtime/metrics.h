// What a run tells of its steps.
#ifndef BD_RT_METRICS_H
#define BD_RT_METRICS_H
#include "runtime/rank.h"

#include <stdio.h>

typedef struct bd_rt_measure {
  double loss, norm, step_seconds, left_seconds;
  float loss_scale;
  int skipped; // the step overflowed: nothing was updated
} bd_rt_measure;

// Of an evaluation (runtime/held_out.h).
typedef struct bd_rt_evaluation_measure {
  double loss, seconds;
} bd_rt_evaluation_measure;

// Model FLOPs utilization, where the program tells its flops: what the model's matrix products,
// convolutions and attention of a step, forward and backward, nothing twice, would take on all
// devices at the rate of large products, over what the step took (Chowdhery et al., PaLM, appendix
// B). This line says what the share is of.
void bd_rt_define_mfu(const bd_rt *rt);
// One line on stderr, rewritten in place on a terminal.
void bd_rt_progress(const bd_rt *rt, const bd_rt_measure *measure);
// A line of its own on stderr.
void bd_rt_tell_evaluation(const bd_rt *rt, const bd_rt_evaluation_measure *measure);
// Where they are written from here on. A run that goes on after `step` keeps what the file says of
// steps up to there but for an evaluation then, with which the run begins; a run that begins (0)
// keeps nothing. 0, or a BD_RT_EXIT status and a message.
int bd_rt_metrics_open(const char *path, int64_t step, FILE **out, char *message, size_t bytes);
// One JSON object per line, with what sensors say of this rank's device. 0 when it was written.
int bd_rt_metrics_write(const bd_rt *rt, const bd_rt_measure *measure, FILE *metrics);
int bd_rt_metrics_write_evaluation(const bd_rt *rt, const bd_rt_evaluation_measure *measure,
                                   FILE *metrics);
#endif
