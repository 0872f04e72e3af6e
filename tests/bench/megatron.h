// A training run as Megatron-LM configures it (Narayanan et al., SC 2021): data, tensor and
// pipeline parallel, weights of attention and of the MLP cut by heads and columns, activations
// whole on every tensor rank, everything recomputed, the pipeline interleaved.
#ifndef BD_TESTS_BENCH_MEGATRON_H
#define BD_TESTS_BENCH_MEGATRON_H
#include "planner/planner.h"
#include "planner/step/step.h"

typedef struct published_run {
  const char *name;
  int heads, hidden, layers;
  int data, tensor, pipeline;
  int chunks;      // per stage; more than 1: interleaved
  int micro_batch; // of one data-parallel replica
  int global_batch, gpus;
  double tflops; // per GPU
} published_run;

// Of a step: by the formula of its schedule, and replayed event by event.
typedef struct published_times {
  double formula_seconds, replayed_seconds;
} published_times;

// Errors: BD_INVALID for a model that is no GPT.
BD_NODISCARD bd_status published_predict(bd_ctx *ctx, const bd_module *train,
                                         const bd_cluster *cluster, const published_run *run,
                                         published_times *out_times);

// The replay alone, from stages without their transfers and the seconds of one transfer.
BD_NODISCARD bd_status published_replay(bd_ctx *ctx, const published_run *run, bd_schedule schedule,
                                        const bd_stage_seconds *stage, double transfer_seconds,
                                        double *out_seconds);
#endif
