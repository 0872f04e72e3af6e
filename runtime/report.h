// What a run tells about itself.
#ifndef BD_RT_REPORT_H
#define BD_RT_REPORT_H
#include "runtime/rank.h"

#include <stdio.h>

typedef struct bd_rt_measure {
  double loss, norm, step_seconds, left_seconds;
  float loss_scale;
  int skipped; // the step overflowed: nothing was updated
} bd_rt_measure;

// Model FLOPs utilization, where the program tells its flops: what the model's matrix products,
// convolutions and attention of a step, forward and backward, nothing twice, would take on all
// devices at the rate of large products, over what the step took (Chowdhery et al., PaLM, appendix
// B). This line says what the share is of.
void bd_rt_define_mfu(const bd_rt *rt);
// One line on stderr, rewritten in place on a terminal.
void bd_rt_progress(const bd_rt *rt, const bd_rt_measure *measure);
// One JSON object per line, with what sensors say of this rank's device. 0 when it was written.
int bd_rt_metrics_write(const bd_rt *rt, const bd_rt_measure *measure, FILE *metrics);
// Collective, where --report is given: notes what the device has free at BD_RT_MEMORY_READY, ...
void bd_rt_report_note(bd_rt *rt, int moment);
// Collective: bytes per rank as JSON. 0, or a status after it has been said.
int bd_rt_report_write(bd_rt *rt, const char *path);
#endif
