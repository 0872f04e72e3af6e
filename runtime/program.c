#include "runtime/program.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 24 }; // a decimal number, its sign and the end of the string

// What is still free of the block.
typedef struct block {
  int64_t *offsets;
  const char **stacks;
  char *names;
} block;

typedef struct totals {
  size_t weights, offsets, stacked, name_bytes;
} totals;

static size_t name_bytes(const bd_rt_weight_series *series) {
  const size_t length = strlen(series->first.stored_name);
  return length + NUMBER_BYTES + (series->name_rest ? strlen(series->name_rest) : 0);
}

// Of one name of a stack whose weight is called so at most.
static size_t stacked_bytes(const bd_rt_weight_series *series) {
  return name_bytes(series) + NUMBER_BYTES + strlen(series->first.stack_rest);
}

static totals count(const bd_rt_program *program) {
  totals t = {0};
  for (int s = 0; s < program->stages; s++)
    for (int r = 0; r < program->stage[s].run_count; r++) {
      const bd_rt_weight_run *const run = &program->stage[s].runs[r];
      const size_t layers = (size_t)run->layers;
      for (int k = 0; k < run->weight_count; k++) {
        t.weights += layers;
        t.offsets += layers * (size_t)run->weights[k].first.gradient_count;
        t.name_bytes += layers * name_bytes(&run->weights[k]);
        const size_t stack = (size_t)run->weights[k].first.stack;
        t.stacked += layers * stack;
        if (stack) t.name_bytes += layers * stack * stacked_bytes(&run->weights[k]);
      }
    }
  return t;
}

static const char *name_of(const bd_rt_weight_series *series, int64_t layer, block *free_part) {
  if (!series->name_rest) return series->first.stored_name;
  char *const name = free_part->names;
  const int length =
      snprintf(name, name_bytes(series), "%s%" PRId64 "%s", series->first.stored_name,
               series->name_number + layer * series->name_step, series->name_rest);
  free_part->names += length + 1;
  return name;
}

static const char *const *stack_names_of(const bd_rt_weight_series *series, const char *name,
                                         block *free_part) {
  const char **const names = free_part->stacks;
  for (int i = 0; i < series->first.stack; i++) {
    const int64_t number = series->first.stack_first + i * (series->first.stack_gap + 1);
    names[i] = free_part->names;
    free_part->names += 1 + snprintf(free_part->names, stacked_bytes(series), "%s%" PRId64 "%s",
                                     name, number, series->first.stack_rest);
  }
  free_part->stacks += series->first.stack;
  return names;
}

static bd_rt_weight weight_of(const bd_rt_weight_series *series, int layer, block *free_part) {
  bd_rt_weight weight = series->first;
  weight.stored_name = name_of(series, layer, free_part);
  if (weight.stack > 0) weight.stack_names = stack_names_of(series, weight.stored_name, free_part);
  if (layer == 0) return weight;
  weight.weight_offset += layer * series->weight_step;
  weight.state_offset += layer * series->state_step;
  weight.global_index += layer * series->index_step;
  weight.gradient_offsets = free_part->offsets;
  for (int use = 0; use < weight.gradient_count; use++)
    *free_part->offsets++ =
        series->first.gradient_offsets[use] + layer * series->gradient_steps[use];
  return weight;
}

bd_rt_program *bd_rt_program_expand(const bd_rt_program *program) {
  const totals t = count(program);
  const size_t stages = (size_t)program->stages;
  bd_rt_program *const copy =
      malloc(sizeof *copy + stages * sizeof(bd_rt_stage) + t.weights * sizeof(bd_rt_weight) +
             t.offsets * sizeof(int64_t) + t.stacked * sizeof(char *) + t.name_bytes);
  if (!copy) return NULL;
  bd_rt_stage *const stage = (bd_rt_stage *)(void *)(copy + 1);
  bd_rt_weight *weight = (bd_rt_weight *)(void *)(stage + stages);
  int64_t *const offsets = (int64_t *)(void *)(weight + t.weights);
  const char **const stacks = (const char **)(void *)(offsets + t.offsets);
  block free_part = {offsets, stacks, (char *)(stacks + t.stacked)};
  *copy = *program;
  copy->stage = stage;
  for (size_t s = 0; s < stages; s++) {
    stage[s] = program->stage[s];
    stage[s].weights = weight;
    for (int r = 0; r < stage[s].run_count; r++)
      for (int layer = 0; layer < stage[s].runs[r].layers; layer++)
        for (int k = 0; k < stage[s].runs[r].weight_count; k++)
          *weight++ = weight_of(&stage[s].runs[r].weights[k], layer, &free_part);
  }
  return copy;
}
