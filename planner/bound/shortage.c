// What settings take beside the work of their ops, because their devices cannot hold all that
// backward reads: ops are run again, those first that save the most bytes for their seconds. The
// optimum of a relaxation, a knapsack whose things may be taken in parts (Dantzig,
// Discrete-variable extremum problems, Operations Research 5(2), 1957).
#include "planner/bound/bound.h"
#include "planner/layer/holding.h"
#include <math.h>
#include <stdlib.h>

static int by_price(const void *a, const void *b) {
  const bd_layer_saving *x = a, *y = b;
  double left = x->seconds * y->bytes, right = y->seconds * x->bytes;
  if (left != right) return left < right ? -1 : 1;
  return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static double take_cheapest(int count, bd_layer_saving *savings, double bytes) {
  double seconds = 0;
  qsort(savings, (size_t)count, sizeof *savings, by_price);
  for (int i = 0; i < count && bytes > 0; i++) {
    seconds += savings[i].seconds * fmin(1, bytes / savings[i].bytes);
    bytes -= savings[i].bytes;
  }
  return seconds;
}

// Appends the savings of so many layers.
static void append(int calls, const bd_layer_holding *layer, bd_layer_saving *savings, int *count) {
  for (int i = 0; i < layer->saving_count; i++)
    savings[(*count)++] =
        (bd_layer_saving){calls * layer->savings[i].bytes, calls * layer->savings[i].seconds};
}

double bd_bound_shortage(bd_ctx *ctx, const bd_scene *scene, int stages,
                         const bd_layer_holding *const *layers) {
  int count = 0, most = 0;
  double largest = 0, least = INFINITY;
  double over = -(double)scene->layers_cap_bytes * stages;
  for (int r = 0; r < scene->runs->count; r++) {
    over += scene->runs->runs[r].calls * layers[r]->bytes;
    largest = fmax(largest, layers[r]->workspace_bytes);
    least = fmin(least, layers[r]->workspace_bytes);
    most += layers[r]->saving_count;
  }
  over += largest + (stages - 1) * least;
  if (over <= 0) return 0;
  bd_layer_saving *savings = BD_NEW_ARRAY(ctx->arena, bd_layer_saving, most);
  for (int r = 0; r < scene->runs->count; r++)
    append(scene->runs->runs[r].calls, layers[r], savings, &count);
  return take_cheapest(count, savings, over);
}
