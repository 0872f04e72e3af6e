// Seconds of matrix products and of attention by their sizes, launches left out.
#ifndef BD_PLANNER_COST_KERNEL_H
#define BD_PLANNER_COST_KERNEL_H
#include "ir/cluster.h"

// `count` products of rows x terms by terms x columns.
typedef struct bd_product {
  double count, rows, columns, terms;
} bd_product;

// Arithmetic only; `rate` in flops per second. A part of a product never takes less than its share.
// Where results are few, the terms are cut in parts, whose sums go through memory (split-K: cuBLAS
// and cuDNN do so for gradients of weights).
double bd_cost_product(const bd_cluster *cluster, double rate, const bd_product *product);

// Of that, what each of `shares` equal shares of the rows, or of fewer ones, takes at least beside
// its share of the whole: the tiles of half a wave that nothing fills.
double bd_cost_idle_wave(const bd_cluster *cluster, double rate, const bd_product *product,
                         int shares);

// As bd_cost_product of many such products, in the mean, where those with fewer tiles than fill a
// device run beside one another in BD_PRODUCT_STREAMS streams, which are BD_CUDA_FAN of the
// runtime.
enum { BD_PRODUCT_STREAMS = 4 };
double bd_cost_product_beside(const bd_cluster *cluster, double rate, const bd_product *product);

typedef struct bd_attention {
  bool forward;
  double heads, queries, keys; // heads of all samples
  double width, values;        // of queries and keys, and of values
  bool dropout;
  double element_bytes;
} bd_attention;

// As products and kernels that read and write the scores (Narayanan et al., SC 2021, section 4.2):
// forward the product of queries and keys, scale with mask and softmax in one kernel, dropout, and
// the product with the values; backward four products, dropout and softmax. Each takes the longer
// of its arithmetic and its traffic; launches are included.
double bd_cost_attention_materialized(const bd_cluster *cluster, double rate,
                                      const bd_attention *attention);
#endif
