// What a stage must do in a step, read off the exec module and the schedule: each instruction with
// the values that it reads and writes, not where they lie. Written without the emitter.
#ifndef BD_RECORD_EXPECT_H
#define BD_RECORD_EXPECT_H
#include "ir/module.h"
#include "ir/schedule.h"
#include "tests/record/event.h"
#include "tests/record/recorder.h"

// Values are numbered: first those that outlive a step (the weights of the module, then the results
// of main, gradients), then those of micro-batch 0, of micro-batch 1, ..
typedef struct record_use {
  record_access access;
  int value;             // of a value of a micro-batch: of micro-batch 0
  int64_t offset, bytes; // of the value
} record_use;

typedef struct record_instruction {
  record_kind kind;         // of its events
  int function, step;       // as the program's instructions name it; -1: of main
  const char *name;         // of its first op
  bool in_place;            // a result may lie where an operand does
  bool goes_on;             // the next one belongs to the same instruction of the program
  bool adds;                // what it writes, to what it reads there
  int parts;                // launches
  int mask;                 // collectives
  int stage;                // messages
  record_terms terms;       // of both
  int first_use, use_count; // reads, then writes, then scratch
} record_instruction;

typedef struct record_pass {
  int count;
  record_instruction *instructions;
} record_pass;

typedef struct record_expectation {
  const bd_module *module;
  int stage, micro_batches;
  int persistent, per_micro; // values
  // The passes of a step, and behind them those of a batch of an evaluation: forward alone, in the
  // order of the micro-batches.
  int pass_count, all_pass_count;
  const bd_stage_pass *passes;
  record_pass forward, backward;
  record_use *uses;
  int *call_values; // per op of main: the first of its call's values within a micro-batch
} record_expectation;

BD_NODISCARD bd_status record_expect(bd_ctx *ctx, const bd_module *exec, bd_schedule schedule,
                                     int micro_batches, int stage, const record_ways *ways,
                                     record_expectation *out);

int record_value_count(const record_expectation *e);
static inline int record_value_of(const record_expectation *e, int value, int micro_batch) {
  return value < e->persistent ? value : value + micro_batch * e->per_micro;
}
// The number of the gradient that is the result `result` of main.
static inline int record_gradient(const record_expectation *e, int result) {
  return e->module->weight_count + result;
}
// "%v20 of call 3 (@block.0), micro-batch 1"
void record_value_name(const record_expectation *e, int value, char *out, int size);
#endif
