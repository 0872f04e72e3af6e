#include "planner/select/message.h"

#include <math.h>

enum { LANES = 4 };

static inline double lesser(double a, double b) {
  return a < b ? a : b;
}

void bd_select_min_rows(const double *matrix, int rows, int columns, const double *in,
                        double *restrict out) {
  for (int j = 0; j < columns; j++)
    out[j] = INFINITY;
  for (int i = 0; i < rows; i++) {
    const double *row = matrix + (long)i * columns;
    double a = in[i];
    if (a == INFINITY) continue;
    for (int j = 0; j < columns; j++)
      out[j] = lesser(a + row[j], out[j]);
  }
}

void bd_select_min_columns(const double *matrix, int rows, int columns, const double *in,
                           double *restrict out) {
  for (int i = 0; i < rows; i++) {
    const double *row = matrix + (long)i * columns;
    double least[LANES];
    for (int k = 0; k < LANES; k++)
      least[k] = INFINITY;
    int j = 0;
    for (; j + LANES <= columns; j += LANES)
      for (int k = 0; k < LANES; k++)
        least[k] = lesser(in[j + k] + row[j + k], least[k]);
    for (; j < columns; j++)
      least[0] = lesser(in[j] + row[j], least[0]);
    for (int half = LANES / 2; half > 0; half /= 2)
      for (int k = 0; k < half; k++)
        least[k] = lesser(least[k], least[k + half]);
    out[i] = least[0];
  }
}
