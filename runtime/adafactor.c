// Adafactor's averages of one weight, whose matrix ranks may have parts of: each adds the squares
// that it has, and all of them get the sums.
#include "runtime/adafactor.h"

#include <math.h>

typedef struct cut {
  const bd_rt_group *rows, *columns, *all; // ranks with other parts of the same row, column, matrix
} cut;

static cut cut_of(const bd_rt *rt, const bd_rt_weight *weight, int zero) {
  const bd_rt_layout layout = bd_rt_gradient_layout(weight);
  int across = zero, along = zero;
  for (int a = 0; a < rt->program->axes; a++) {
    if (layout.at[a] >= weight->factor_dim) across |= 1 << a;
    if (layout.at[a] >= 0 && layout.at[a] < weight->factor_dim) along |= 1 << a;
  }
  return (cut){&rt->group[across], &rt->group[along], &rt->group[across | along]};
}

bd_rt_factors bd_rt_factors_of(const bd_rt *rt, const bd_rt_weight *weight, int64_t first,
                               float *state) {
  const bd_rt_local local = bd_rt_gradient_local(rt, weight);
  bd_rt_factors f = {.rows = 1, .columns = 1, .first = first, .row = state};
  for (int d = 0; d < local.rank; d++)
    *(d < weight->factor_dim ? &f.rows : &f.columns) *= local.extent[d];
  f.column = weight->factor_dim < local.rank ? f.row + f.rows : NULL;
  f.mean = f.column ? f.column + f.columns : f.row + f.rows;
  return f;
}

// Elements of the whole matrix in a row, or a column.
static int64_t line_elements(const bd_rt_weight *weight, int row) {
  int64_t elements = 1;
  for (int d = 0; d < weight->layout.rank; d++)
    if ((d >= weight->factor_dim) == row) elements *= weight->layout.dims[d];
  return elements;
}

// What is averaged over the steps is kept by one rank of those that add to it.
static bd_rt_mixing mixing(const bd_rt_group *group, double fresh, int64_t elements) {
  return (bd_rt_mixing){group->rank == 0 ? (float)(1 - fresh) : 0,
                        (float)(fresh / (double)elements)};
}

void bd_rt_adafactor(bd_rt *rt, int phase, const bd_rt_weight *weight, int zero, double steps,
                     const bd_rt_rule *rule) {
  const double fresh = pow(steps, -0.8);
  const cut c = cut_of(rt, weight, zero);
  const bd_rt_factors f = rule->factors;
  const int64_t row = line_elements(weight, 1), column = line_elements(weight, 0);
  const bd_rt_mixings mixings = {.row = mixing(c.rows, fresh, row),
                                 .column = mixing(c.columns, fresh, column),
                                 .gradient = mixing(c.all, fresh, row * column),
                                 .weight = mixing(c.all, 1, row * column)};
  float *const update = f.mean + BD_RT_MEAN_UPDATE;
  switch (phase) {
  case BD_RT_ADD_FACTORS:
    bd_rt_add_factors(rt, rule, &mixings);
    break;
  case BD_RT_SUM_FACTORS:
    bd_rt_reduce(rt, c.rows, BD_RT_F32, BD_RT_SUM, f.rows, f.row, f.row);
    if (f.column) bd_rt_reduce(rt, c.columns, BD_RT_F32, BD_RT_SUM, f.columns, f.column, f.column);
    bd_rt_reduce(rt, c.all, BD_RT_F32, BD_RT_SUM, 2, f.mean, f.mean);
    break;
  case BD_RT_ADD_UPDATES:
    bd_rt_add_updates(rt, rule, mixing(c.all, 1, row * column));
    break;
  default:
    bd_rt_reduce(rt, c.all, BD_RT_F32, BD_RT_SUM, 1, update, update);
  }
}
