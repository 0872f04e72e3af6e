// Stochastic rounding on a CPU rank: draws side by side.
#include "runtime/cpu/rule.h"

#include <string.h>

// The bits of the elements of tile `tile`, in their order: as bd_rt_draw, draw by draw.
static void draw_tile(const bd_rt_draws *draws, int64_t tile, uint16_t *restrict bits) {
  uint32_t words[4][BD_RT_DRAW_LANES];
  for (int lane = 0; lane < BD_RT_DRAW_LANES; lane++) {
    const bd_philox_words draw = bd_rt_draw(draws, draws->step, tile * BD_RT_DRAW_LANES + lane);
    for (int w = 0; w < 4; w++)
      words[w][lane] = draw.word[w];
  }
  for (int part = 0; part < 8; part++)
    for (int lane = 0; lane < BD_RT_DRAW_LANES; lane++)
      bits[part * BD_RT_DRAW_LANES + lane] = (uint16_t)(words[part / 2][lane] >> part % 2 * 16);
}

// The bits of `count` logical elements from `element` on.
static void draw_run(const bd_rt_draws *draws, int64_t element, int64_t count, uint16_t *bits) {
  uint16_t whole[BD_RT_DRAW_TILE];
  for (int64_t done = 0, n; done < count; done += n) {
    const int64_t at = (element + done) % BD_RT_DRAW_TILE;
    n = bd_rt_least(count - done, BD_RT_DRAW_TILE - at);
    draw_tile(draws, (element + done) / BD_RT_DRAW_TILE, whole);
    memcpy(bits + done, whole + at, (size_t)n * sizeof *bits);
  }
}

void bd_rt_round_run(const bd_rt_draws *draws, const float *wide, uint16_t *halves, int64_t count) {
  uint16_t bits[BD_RT_BLOCK];
  const int64_t row = draws->rank > 1 ? draws->extent[draws->rank - 1] : INT64_MAX;
  for (int64_t i = 0, n; i < count; i += n) {
    n = bd_rt_least(count - i, row - (draws->first + i) % row);
    draw_run(draws, bd_rt_drawn_element(draws, i), n, bits + i);
  }
  for (int64_t i = 0; i < count; i++)
    halves[i] = bd_rt_round_bf16(wide[i], bits[i]);
}
