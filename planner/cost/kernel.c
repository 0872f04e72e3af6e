#include "planner/cost/kernel.h"
#include <math.h>

enum { SUM_BYTES = 2 * 4 }; // f32, written and read

static double results_of(const bd_work_rates *work, const bd_product *p) {
  return p->count * (p->rows + work->product_edge) * (p->columns + work->product_edge);
}

// What one sum of each result takes to be written and read.
static double sums_seconds(const bd_cluster *cluster, const bd_product *p) {
  return p->count * p->rows * p->columns * SUM_BYTES / cluster->memory_bytes_per_second;
}

// With the terms in so many parts, each of which makes a sum of its own of every result.
static double parts_seconds(const bd_cluster *cluster, double rate, const bd_product *p,
                            double parts) {
  const bd_work_rates *work = &cluster->work;
  return 2 * (parts * results_of(work, p) + work->product_wave / 2) *
             (p->terms / parts + work->product_depth) / rate +
         (parts > 1 ? parts * sums_seconds(cluster, p) : 0);
}

// Of two parts and more, those that take least; of fewer rows they are more.
static double best_parts(const bd_cluster *cluster, double rate, const bd_product *p) {
  const bd_work_rates *work = &cluster->work;
  double part = 2 * results_of(work, p) * work->product_depth / rate + sums_seconds(cluster, p);
  return fmax(2, sqrt(work->product_wave * p->terms / rate / part));
}

double bd_cost_product(const bd_cluster *cluster, double rate, const bd_product *p) {
  double whole = parts_seconds(cluster, rate, p, 1);
  if (cluster->work.product_wave <= 0) return whole;
  return fmin(whole, parts_seconds(cluster, rate, p, best_parts(cluster, rate, p)));
}

// A small product alone takes as long as a device full of tiles, of which as many as there are
// streams run at a time. At best a third of that is waste, which makes a part of a product
// take its share or more where the part is small and the product is not.
double bd_cost_product_beside(const bd_cluster *cluster, double rate, const bd_product *p) {
  const bd_work_rates *work = &cluster->work;
  double results = results_of(work, p), wave = work->product_wave;
  double alone = bd_cost_product(cluster, rate, p);
  if (results >= wave) return alone;
  double beside = fmax(1.5 * results, (results + wave / 2) / BD_PRODUCT_STREAMS);
  return fmin(alone, 2 * beside * (p->terms + work->product_depth) / rate);
}

double bd_cost_idle_wave(const bd_cluster *cluster, double rate, const bd_product *p, int shares) {
  const bd_work_rates *work = &cluster->work;
  bd_product share = *p;
  share.rows /= shares;
  double parts = work->product_wave > 0 ? best_parts(cluster, rate, &share) : 1;
  if (parts_seconds(cluster, rate, &share, parts) >= parts_seconds(cluster, rate, &share, 1))
    parts = 1;
  return work->product_wave * (p->terms / parts + work->product_depth) / rate;
}

// A product that makes scores or takes them, with rows of queries and of keys `width` wide.
static double scores_product(const bd_cluster *c, double rate, const bd_attention *a,
                             const bd_product *product, double width) {
  double queries = a->heads * a->queries * width * a->element_bytes;
  double keys = a->heads * a->keys * width * a->element_bytes;
  double scores = a->heads * a->queries * a->keys * a->element_bytes;
  return fmax(bd_cost_product(c, rate, product),
              (queries + keys + scores) / c->memory_bytes_per_second);
}

// Makes scores; sums over keys; sums over queries.
static double make(const bd_cluster *c, double rate, const bd_attention *a, double width) {
  bd_product wide = {a->heads, a->queries, a->keys, width};
  return scores_product(c, rate, a, &wide, width);
}
static double gather(const bd_cluster *c, double rate, const bd_attention *a, double width) {
  bd_product narrow = {a->heads, a->queries, width, a->keys};
  return scores_product(c, rate, a, &narrow, width);
}
static double back(const bd_cluster *c, double rate, const bd_attention *a, double width) {
  bd_product tall = {a->heads, a->keys, width, a->queries};
  return scores_product(c, rate, a, &tall, width);
}

double bd_cost_attention_materialized(const bd_cluster *c, double rate, const bd_attention *a) {
  double scores = a->heads * a->queries * a->keys * a->element_bytes;
  double mask = a->heads * a->queries * a->keys; // a byte each
  double memory = c->memory_bytes_per_second, launch = c->kernel_seconds;
  double dropout = a->dropout ? (2 * scores + mask) / memory + launch : 0;
  double softmax = (a->forward ? 2 : 3) * scores / memory + launch;
  if (a->forward)
    return make(c, rate, a, a->width) + softmax + dropout + gather(c, rate, a, a->values) +
           2 * launch;
  double backs = back(c, rate, a, a->width) + back(c, rate, a, a->values);
  return make(c, rate, a, a->values) + dropout + softmax + gather(c, rate, a, a->width) + backs +
         4 * launch;
}
