// Adafactor (Shazeer and Stern 2018, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost)
// with the defaults and the order of operations of PyTorch's torch.optim.Adafactor: no momentum,
// steps relative to the size of the weight, updates clipped at a root mean square of 1.
#ifndef BD_RT_FACTORS_H
#define BD_RT_FACTORS_H
#include "runtime/layout.h"

#include <math.h>
#include <stddef.h>

// Means of squares, kept beside those of rows and columns.
enum { BD_RT_MEAN_GRADIENT, BD_RT_MEAN_WEIGHT, BD_RT_MEAN_UPDATE, BD_RT_MEANS = 4 };

// A weight's state on a rank: its accumulator is a matrix, in the arena's order, of which a rule's
// elements are those from `first` on. The means of a row and a column are of the whole matrix,
// which other ranks have parts of.
typedef struct bd_rt_factors {
  int64_t rows, columns, first;
  float *row, *column; // averages of squared gradients over the steps; no column: it is a vector
  float *mean;         // BD_RT_MEANS of them
} bd_rt_factors;

// Squares are added: kept = keep * kept + share * sum.
typedef struct bd_rt_mixing {
  float keep, share;
} bd_rt_mixing;
typedef struct bd_rt_mixings {
  bd_rt_mixing row, column, gradient, weight;
} bd_rt_mixings;

// What the weight's element of `row` and `column` changes by, up to a factor.
BD_RT_ANYWHERE float bd_rt_factored(const bd_rt_factors *f, float gradient, int64_t row,
                                    int64_t column) {
  const float eps = 0x1p-23f;
  float square = f->row[row];
  if (f->column) {
    const float mean = f->mean[BD_RT_MEAN_GRADIENT];
    square = square * f->column[column] / (mean > eps ? mean : eps);
  }
  return gradient / sqrtf(square < eps * eps ? eps * eps : square);
}

// That factor, at a learning rate: of a weight's size, 0.001 at least, and less for large updates.
BD_RT_ANYWHERE float bd_rt_factored_rate(const bd_rt_factors *f, float rate) {
  const float size = sqrtf(f->mean[BD_RT_MEAN_WEIGHT]), most = sqrtf(f->mean[BD_RT_MEAN_UPDATE]);
  return rate * (size > 1e-3f ? size : 1e-3f) / (most > 1 ? most : 1);
}
#endif
