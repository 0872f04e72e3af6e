// Programs in the form that solvers are at their best with: rows with two ends as two rows, and,
// where wanted, rows of one entry as bounds of its column. GLPK 5.0 gives wrong answers on some
// rows with two ends, and CBC 2.10 stops at an assertion on some rows of one entry.
#include "planner/solver/backend.h"
#include <math.h>

// How near a bound must be to a whole number to count as it.
#define WHOLE 1e-7

static void tighten(bd_program *p, int column, double lower, double upper) {
  if (p->integral[column]) {
    lower = ceil(lower - WHOLE);
    upper = floor(upper + WHOLE);
  }
  p->lower[column] = fmax(p->lower[column], lower);
  p->upper[column] = fmin(p->upper[column], upper);
}

// lower <= factor * x <= upper.
static void bound_by_row(bd_program *p, int column, double factor, double lower, double upper) {
  if (factor > 0)
    tighten(p, column, lower / factor, upper / factor);
  else
    tighten(p, column, upper / factor, lower / factor);
}

typedef struct rows {
  int *entries;  // of each row, those that are 0 left out
  int (*now)[2]; // its rows in the new program, or -1
} rows;

static rows add_rows(bd_ctx *ctx, const bd_program *p, bool bounds, bd_program *out) {
  rows r = {.entries = BD_NEW_ARRAY(ctx->arena, int, p->rows),
            .now = bd_arena_array(ctx->arena, (size_t)p->rows, sizeof *r.now)};
  for (int64_t e = 0; e < p->entries; e++)
    r.entries[p->entry_row[e]] += p->entry_value[e] != 0;
  for (int i = 0; i < p->rows; i++) {
    double lower = p->row_lower[i], upper = p->row_upper[i];
    bool free = isinf(lower) && isinf(upper), two = !isinf(lower) && !isinf(upper) && lower < upper;
    r.now[i][0] = r.now[i][1] = -1;
    if (bounds && (r.entries[i] < 2 || free)) continue;
    r.now[i][0] = bd_program_add_row(ctx, out, lower, two ? INFINITY : upper);
    if (two) r.now[i][1] = bd_program_add_row(ctx, out, -INFINITY, upper);
  }
  return r;
}

// Rows of no entry hold or do not.
static bool empty_rows_hold(const bd_program *p, const rows *r) {
  for (int i = 0; i < p->rows; i++)
    if (r->entries[i] == 0 && (p->row_lower[i] > 0 || p->row_upper[i] < 0)) return false;
  return true;
}

bool bd_solver_normalize(bd_ctx *ctx, const bd_program *p, bool bounds, bd_program *out) {
  *out = (bd_program){.solver = p->solver};
  for (int i = 0; i < p->columns; i++) {
    bd_program_add_column(ctx, out, p->cost[i], p->lower[i], p->upper[i], p->integral[i]);
    if (bounds) tighten(out, i, p->lower[i], p->upper[i]);
  }
  rows r = add_rows(ctx, p, bounds, out);
  for (int64_t e = 0; e < p->entries; e++) {
    int row = p->entry_row[e], column = p->entry_column[e];
    double value = p->entry_value[e];
    if (bounds && value == 0) continue;
    if (bounds && r.entries[row] == 1)
      bound_by_row(out, column, value, p->row_lower[row], p->row_upper[row]);
    for (int half = 0; half < 2; half++)
      if (r.now[row][half] >= 0) bd_program_add_entry(ctx, out, r.now[row][half], column, value);
  }
  for (int i = 0; i < out->columns; i++)
    if (out->lower[i] > out->upper[i]) return false;
  return !bounds || empty_rows_hold(p, &r);
}
