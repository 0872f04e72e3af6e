#include "planner/select/load.h"

#include <string.h>

bd_select_load bd_select_load_create(bd_arena *arena, int points) {
  bd_select_load load = {.leaves = 1};
  while (load.leaves < points)
    load.leaves *= 2;
  load.added = BD_NEW_ARRAY(arena, int64_t, 2 * (size_t)load.leaves);
  load.most = BD_NEW_ARRAY(arena, int64_t, 2 * (size_t)load.leaves);
  return load;
}

void bd_select_load_clear(bd_select_load *load) {
  memset(load->added, 0, 2 * (size_t)load->leaves * sizeof *load->added);
  memset(load->most, 0, 2 * (size_t)load->leaves * sizeof *load->most);
}

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static void lift(bd_select_load *load, int vertex) {
  for (vertex /= 2; vertex >= 1; vertex /= 2) {
    load->most[vertex] =
        larger(load->most[2 * vertex], load->most[2 * vertex + 1]) + load->added[vertex];
  }
}

void bd_select_load_add(bd_select_load *load, int first, int last, int64_t usage) {
  if (first >= last || usage == 0) return;
  int left = first + load->leaves, right = last + load->leaves;
  for (int l = left, r = right; l < r; l /= 2, r /= 2) {
    if (l & 1) {
      load->added[l] += usage;
      load->most[l++] += usage;
    }
    if (r & 1) {
      load->added[--r] += usage;
      load->most[r] += usage;
    }
  }
  lift(load, left);
  lift(load, right - 1);
}

int64_t bd_select_load_max(const bd_select_load *load, int first, int last) {
  if (first >= last) return 0;
  int l = first + load->leaves, r = last - 1 + load->leaves;
  int64_t left = load->most[l], right = load->most[r];
  // Climbs both borders; a vertex between them counts whole.
  while (l / 2 != r / 2) {
    if (!(l & 1)) left = larger(left, load->most[l + 1]);
    if (r & 1) right = larger(right, load->most[r - 1]);
    l /= 2;
    r /= 2;
    left += load->added[l];
    right += load->added[r];
  }
  int64_t most = larger(left, right);
  for (l /= 2; l >= 1; l /= 2)
    most += load->added[l];
  return most;
}

int64_t bd_select_load_at(const bd_select_load *load, int point) {
  int64_t sum = 0;
  for (int vertex = point + load->leaves; vertex >= 1; vertex /= 2)
    sum += load->added[vertex];
  return sum;
}

int bd_select_load_worst(const bd_select_load *load, int64_t *out_value) {
  int vertex = 1;
  while (vertex < load->leaves) {
    vertex *= 2;
    vertex += load->most[vertex + 1] > load->most[vertex];
  }
  *out_value = load->most[1];
  return vertex - load->leaves;
}
