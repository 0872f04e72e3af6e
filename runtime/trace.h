// What one rank did in a step, and when: spans on the axes of `braid simulate --trace`.
#ifndef BD_RT_TRACE_H
#define BD_RT_TRACE_H
#include "runtime/rank.h"

#include <stdio.h>

// Threads of a stage, as the simulator numbers them; the last one is a GPU program's alone.
typedef enum bd_rt_thread {
  BD_RT_THREAD_COMPUTE,
  BD_RT_THREAD_SEND,
  BD_RT_THREAD_RECEIVE,
  BD_RT_THREAD_SYNC,
  BD_RT_THREAD_COLLECTIVES,
  BD_RT_THREADS
} bd_rt_thread;

// What a span is, besides the BD_RT_STEP, ... of bd_rt_begin.
enum { BD_RT_SPAN_INSTRUCTION = 16, BD_RT_SPAN_MESSAGE, BD_RT_SPAN_BESIDE };

// Words alone: they travel between ranks as they are.
typedef struct bd_rt_span {
  int64_t thread, what;
  int64_t number;                   // of the micro-batch, layer or instruction
  int64_t pass, micro_batch;        // around it: BD_RT_FORWARD, BD_RT_BACKWARD, or BD_RT_STEP
  int64_t stage, tag, bytes;        // of a message: to or from which stage
  int64_t start_nanos, until_nanos; // since the step began
} bd_rt_span;

typedef struct bd_rt_trace {
  bd_rt_span *spans;
  int64_t count, capacity;
  int64_t lost; // spans that came when there were too many already
} bd_rt_trace;

void bd_rt_trace_add(bd_rt_trace *trace, const bd_rt_span *span);
void bd_rt_trace_clear(bd_rt_trace *trace);
// Collective. The members of a JSON object that make it a trace in the Trace Event Format, of the
// first rank of every stage; only rank 0 has a `file`.
void bd_rt_trace_write(bd_rt *rt, const bd_rt_trace *trace, FILE *file);
#endif
