#include "planner/solver.h"

static void *grown(bd_ctx *ctx, const void *old, int64_t count, int64_t capacity, size_t size) {
  return bd_arena_grow(ctx->arena, old, (size_t)count, (size_t)capacity, size);
}

int bd_program_add_column(bd_ctx *ctx, bd_program *p, double cost, double lower, double upper,
                          bool integral) {
  if (p->columns == p->column_capacity) {
    int wanted = p->column_capacity ? 2 * p->column_capacity : 64;
    p->cost = grown(ctx, p->cost, p->columns, wanted, sizeof *p->cost);
    p->lower = grown(ctx, p->lower, p->columns, wanted, sizeof *p->lower);
    p->upper = grown(ctx, p->upper, p->columns, wanted, sizeof *p->upper);
    p->integral = grown(ctx, p->integral, p->columns, wanted, sizeof *p->integral);
    p->column_capacity = wanted;
  }
  int column = p->columns++;
  p->cost[column] = cost;
  p->lower[column] = lower;
  p->upper[column] = upper;
  p->integral[column] = integral;
  return column;
}

int bd_program_add_row(bd_ctx *ctx, bd_program *p, double lower, double upper) {
  if (p->rows == p->row_capacity) {
    int wanted = p->row_capacity ? 2 * p->row_capacity : 64;
    p->row_lower = grown(ctx, p->row_lower, p->rows, wanted, sizeof *p->row_lower);
    p->row_upper = grown(ctx, p->row_upper, p->rows, wanted, sizeof *p->row_upper);
    p->row_capacity = wanted;
  }
  p->row_lower[p->rows] = lower;
  p->row_upper[p->rows] = upper;
  return p->rows++;
}

void bd_program_add_entry(bd_ctx *ctx, bd_program *p, int row, int column, double value) {
  if (p->entries == p->entry_capacity) {
    int64_t wanted = p->entry_capacity ? 2 * p->entry_capacity : 256;
    p->entry_row = grown(ctx, p->entry_row, p->entries, wanted, sizeof *p->entry_row);
    p->entry_column = grown(ctx, p->entry_column, p->entries, wanted, sizeof *p->entry_column);
    p->entry_value = grown(ctx, p->entry_value, p->entries, wanted, sizeof *p->entry_value);
    p->entry_capacity = wanted;
  }
  p->entry_row[p->entries] = row;
  p->entry_column[p->entries] = column;
  p->entry_value[p->entries++] = value;
}
