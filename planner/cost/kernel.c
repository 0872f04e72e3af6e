#include "planner/cost/kernel.h"
#include <math.h>

double bd_cost_product(const bd_cluster *cluster, double rate, const bd_product *p) {
  const bd_work_rates *work = &cluster->work;
  double results = p->count * (p->rows + work->product_edge) * (p->columns + work->product_edge);
  return 2 * (results + work->product_wave / 2) * (p->terms + work->product_depth) / rate;
}

double bd_cost_attention_materialized(const bd_cluster *c, double rate, const bd_attention *a) {
  double queries = a->heads * a->queries * a->width * a->element_bytes;
  double keys = a->heads * a->keys * a->width * a->element_bytes;
  double scores = a->heads * a->queries * a->keys * a->element_bytes;
  double mask = a->heads * a->queries * a->keys;                 // a byte each
  bd_product wide = {a->heads, a->queries, a->keys, a->width};   // makes scores
  bd_product narrow = {a->heads, a->queries, a->width, a->keys}; // sums over keys
  bd_product tall = {a->heads, a->keys, a->width, a->queries};   // sums over queries
  double memory = c->memory_bytes_per_second, launch = c->kernel_seconds;
  double make = fmax(bd_cost_product(c, rate, &wide), (queries + keys + scores) / memory);
  double gather = fmax(bd_cost_product(c, rate, &narrow), (queries + keys + scores) / memory);
  double back = fmax(bd_cost_product(c, rate, &tall), (queries + keys + scores) / memory);
  double dropout = a->dropout ? (2 * scores + mask) / memory + launch : 0;
  double softmax = (a->forward ? 2 : 3) * scores / memory + launch;
  if (a->forward) return make + softmax + dropout + gather + 2 * launch;
  return make + dropout + softmax + gather + 2 * back + 4 * launch;
}
