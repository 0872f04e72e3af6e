#include "tests/record/group.h"

#include <stdio.h>
#include <stdlib.h>

static void *grow(void *items, int *capacity, int count, size_t size) {
  if (count <= *capacity) return items;
  *capacity = 2 * count;
  items = realloc(items, (size_t)*capacity * size);
  if (items) return items;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

void record_group_add(record_group *g, const record_event *event) {
  g->events = grow(g->events, &g->capacity, g->count + 1, sizeof *g->events);
  g->events[g->count++] = *event;
  const int operands = g->operand_count + event->operand_count;
  g->operands = grow(g->operands, &g->operand_capacity, operands, sizeof *g->operands);
  for (int i = 0; i < event->operand_count; i++)
    g->operands[g->operand_count++] = event->operands[i];
  const int ranges = g->range_count + event->range_count;
  g->ranges = grow(g->ranges, &g->range_capacity, ranges, sizeof *g->ranges);
  for (int i = 0; i < event->range_count; i++)
    g->ranges[g->range_count++] = event->ranges[i];
}

void record_group_close(record_group *g) {
  int operands = 0, ranges = 0;
  for (int i = 0; i < g->count; i++) {
    g->events[i].operands = g->operands + operands;
    g->events[i].ranges = g->ranges + ranges;
    operands += g->events[i].operand_count;
    ranges += g->events[i].range_count;
  }
}

void record_group_clear(record_group *g) {
  g->count = g->operand_count = g->range_count = 0;
}

void record_group_deinit(record_group *g) {
  free(g->events);
  free(g->operands);
  free(g->ranges);
  *g = (record_group){0};
}
