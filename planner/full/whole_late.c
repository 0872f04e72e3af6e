// Zero-bubble, from the end of a step.
#include "planner/full/whole.h"

double bd_whole_late_seconds(bd_ctx *ctx, const bd_whole *whole, const double *weight,
                             const double *both, bool *out_used) {
  int m = whole->micro_batches;
  int64_t shares = bd_share_count(whole->kinds), cells = whole->size_count * shares;
  double *seconds = bd_arena_array(ctx->arena, (size_t)(whole->depths * cells), sizeof *seconds);
  double *passing = BD_NEW_ARRAY(ctx->arena, double, cells);
  double *passes = BD_NEW_ARRAY(ctx->arena, double, cells);
  bd_whole late = *whole;
  for (int depth = 0; depth < whole->depths; depth++) {
    int left = whole->most_stages - depth < m ? whole->most_stages - depth : m;
    for (int64_t i = 0; i < cells; i++)
      seconds[depth * cells + i] =
          whole->seconds[depth * cells + i] * (1 - left * weight[i % shares] / m);
  }
  // Fewest weight passes are left where the most stages are before.
  int most = whole->most_stages < m ? whole->most_stages : m;
  for (int64_t i = 0; i < cells && whole->tie; i++)
    passes[i] = whole->passes[i] * (1 - most * weight[i % shares] / m);
  for (int64_t i = 0; i < cells; i++)
    passing[i] = (1 - weight[i % shares]) * both[i];
  late.seconds = seconds;
  late.passing = passing;
  late.passes = passes;
  return bd_whole_seconds(ctx, &late, out_used);
}
