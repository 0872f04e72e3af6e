// Cuts weights into lanes for the kernels of adafactor_updates.cu, and starts these.
#include "runtime/cuda/adafactor_host.h"

enum {
  LANES = 1 << 17, // of a weight
  WARP = 32,
};
_Static_assert(sizeof(bd_cuda_groups) + LANES * sizeof(double) <= BD_CUDA_FACTORS_BYTES,
               "sums have room");
_Static_assert(sizeof(bd_cuda_update_list) <= BD_CUDA_LIST_BYTES, "a launch passes it by value");

static void start_updates(const bd_cuda_queue *queue, bd_cuda_access how, bd_cuda_update_list *list,
                          bd_cuda_mean_list *means) {
  if (list->updates == 0) return;
  const bd_cuda_grid grid = bd_cuda_over(queue, list->lanes);
  const int warps = (int)(list->updates * BD_CUDA_GROUPS / WARP);
  if (how.packs && how.narrow)
    bd_cuda_start_add_updates_packs_bf16(queue, grid, *list);
  else if (how.packs)
    bd_cuda_start_add_updates_packs_f32(queue, grid, *list);
  else if (how.narrow)
    bd_cuda_start_add_updates_bf16(queue, grid, *list);
  else
    bd_cuda_start_add_updates_f32(queue, grid, *list);
  bd_cuda_start_add_lanes(queue, (bd_cuda_grid){warps, WARP}, *list);
  bd_cuda_mix_means(queue, means, list->room);
  list->updates = list->lanes = 0;
}

// How many lanes a weight has: where they are longer than a row, as many as rows have packs, so
// that each stays in its columns.
static int64_t lanes_for(const bd_cuda_matrix *m, int64_t width) {
  const int64_t lanes = bd_rt_least(LANES, bd_cuda_in_parts(m->count, width));
  const int64_t row = m->columns / width;
  return row < lanes ? lanes - lanes % row : lanes;
}

void bd_cuda_add_updates(const bd_cuda_queue *queue, int count, const bd_cuda_factors *of,
                         void *room, int64_t bytes) {
  const int64_t most = (bytes - (int64_t)sizeof(bd_cuda_groups)) / (int64_t)sizeof(double);
  bd_cuda_update_list list = {0};
  bd_cuda_mean_list means = {0};
  bd_cuda_access last = {0};
  list.room = room;
  for (int i = 0; i < count; i++) {
    const bd_rt_rule *const rule = of[i].rule;
    const bd_cuda_matrix m = bd_cuda_matrix_of(rule);
    const bd_cuda_mean kept = {.at = rule->factors.mean + BD_RT_MEAN_UPDATE, .fixed = of[i].mixing};
    if (m.count == 0) {
      bd_cuda_leave_mean(queue, kept, 1);
      continue;
    }
    const bd_cuda_factoring f = bd_cuda_factoring_of(&rule->factors);
    bd_cuda_access how = bd_cuda_access_of(rule, &m);
    how.packs = how.packs && bd_cuda_factoring_fits(&f);
    const int64_t width = how.packs ? BD_CUDA_PACK : 1;
    const int64_t lanes = lanes_for(&m, width), apart = lanes * width;
    const int64_t room_lanes = bd_cuda_padded(lanes, BD_CUDA_THREADS);
    if (!bd_cuda_reads_alike(how, last) || list.updates == BD_CUDA_MOST_FACTORED ||
        list.lanes + room_lanes > most)
      start_updates(queue, last, &list, &means);
    last = how;
    list.of[list.updates++] =
        (bd_cuda_update){.gradient = m.gradient,
                         .mixings = of[i].mixings,
                         .count = m.count,
                         .lanes = lanes,
                         .first_lane = list.lanes,
                         .f = f,
                         .far = {(int32_t)(apart / m.columns), (int32_t)(apart % m.columns)}};
    list.lanes += room_lanes;
    bd_cuda_put_mean(&means, kept);
  }
  start_updates(queue, last, &list, &means);
}
