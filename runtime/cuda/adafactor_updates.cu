// Adafactor's sums of squares of updates. A thread adds up a lane, packs of a weight that lie far
// apart; then lanes are added in groups. How a weight is cut depends on its shape alone.
#include "runtime/cuda/adafactor.cuh"

enum {
  LANES = 1 << 17,  // of a weight
  AHEAD_BYTES = 64, // that a thread reads before it adds them up
};
static_assert(sizeof(bd_cuda_groups) + LANES * sizeof(double) <= BD_CUDA_FACTORS_BYTES,
              "sums have room");

// `far`: how far apart a lane's packs are, maybe whole rows.
typedef struct update {
  const void *gradient; // f32, or bf16
  const bd_cuda_mixings *mixings;
  int64_t count, lanes, first_lane;
  bd_cuda_factoring f;
  bd_cuda_spot far;
} update;
typedef struct update_list {
  int64_t updates, lanes;
  char *room;
  update of[BD_CUDA_MOST_FACTORED];
} update_list;
static_assert(sizeof(update_list) <= 4096, "a launch passes it by value");

static __device__ int update_of(const update_list &list, int64_t lane) {
  return bd_cuda_member_of((int)list.updates, lane, [&](int i) { return list.of[i].first_lane; });
}

static __device__ double *lanes_of(const update_list &list) {
  return (double *)(void *)(list.room + sizeof(bd_cuda_groups));
}

// Where a lane is, and the averages of its columns where they are the same all the way.
template <int width> struct place {
  bd_cuda_spot spot;
  bd_cuda_floats<width> columns;
};

// Adds the squares of the updates of a lane's next packs, which are all read before any is used.
// `whole`: all of them are there; else in the place of those that are not the last one is read.
// `stays`: in its columns.
template <bool whole, bool stays, int width, int ahead, typename of_gradient>
static __device__ void add_packs(const update &u, float inverse, float factor, int64_t pack,
                                 place<width> *lane, double *sum) {
  const int64_t count = u.count / width;
  decltype(bd_cuda_load<width>((const of_gradient *)NULL)) read[ahead];
  for (int k = 0; k < ahead; k++) {
    const int64_t at = pack + k * u.lanes;
    read[k] = bd_cuda_load<width, true>((const of_gradient *)u.gradient +
                                        (whole ? at : bd_cuda_least(at, count - 1)) * width);
  }
  for (int k = 0; k < ahead; k++) {
    const bd_cuda_floats<width> g = bd_cuda_floats_of(read[k]);
    const bd_cuda_spot at = whole ? lane->spot : bd_cuda_clamp(u.f, lane->spot);
    const float scale = bd_cuda_row_scale(u.f, inverse, at.row);
    if (!stays) lane->columns = bd_cuda_load<width>(u.f.column + at.column);
    const bd_cuda_floats<width> average = bd_cuda_averages(scale, lane->columns);
    if (stays)
      lane->spot.row += u.far.row;
    else
      bd_cuda_go_on(u.f, u.far, &lane->spot);
    float squares[width];
    for (int e = 0; e < width; e++) {
      const float change = g.at[e] * factor * bd_cuda_inverse_root(average.at[e]);
      squares[e] = change * change;
    }
    float square = squares[0];
    if constexpr (width == BD_CUDA_PACK) square = bd_cuda_pack_sum(squares);
    if (whole || pack + k * u.lanes < count) *sum += (double)square;
  }
}

template <bool stays, int width, typename of_gradient>
static __device__ double sum_of_lane(const update &u, int64_t lane) {
  constexpr int ahead = AHEAD_BYTES / BD_CUDA_PACK / (int)sizeof(of_gradient);
  const int64_t apart = ahead * u.lanes, count = u.count / width;
  const float inverse = bd_cuda_inverse_mean(u.f), factor = u.mixings->factor;
  place<width> at = {bd_cuda_spot_of(u.f, lane * width), {}};
  if (stays) at.columns = bd_cuda_load<width>(u.f.column + at.spot.column);
  double sum = 0;
  int64_t pack = lane;
  for (; pack + apart - u.lanes < count; pack += apart)
    add_packs<true, stays, width, ahead, of_gradient>(u, inverse, factor, pack, &at, &sum);
  if (pack < count)
    add_packs<false, stays, width, ahead, of_gradient>(u, inverse, factor, pack, &at, &sum);
  return sum;
}

template <bool packs, typename of_gradient>
static __global__ void BD_ROOM(3) add_updates(update_list list) {
  constexpr int width = packs ? BD_CUDA_PACK : 1;
  BD_FOR_ITEMS(place, list.lanes) {
    const update &u = list.of[update_of(list, place)];
    const int64_t lane = place - u.first_lane;
    if (lane >= u.lanes) continue;
    lanes_of(list)[place] = u.far.column == 0 ? sum_of_lane<true, width, of_gradient>(u, lane)
                                              : sum_of_lane<false, width, of_gradient>(u, lane);
  }
}

static __global__ void BD_ROOM(1) add_lanes(update_list list) {
  BD_FOR_ITEMS(i, list.updates * BD_CUDA_GROUPS) {
    const int64_t at = i / BD_CUDA_GROUPS, group = i % BD_CUDA_GROUPS;
    ((bd_cuda_groups *)list.room)->of[at][group] =
        bd_cuda_group_sum(lanes_of(list) + list.of[at].first_lane, list.of[at].lanes, group);
  }
}

template <bool packs>
static void start_updates_of(const bd_cuda_queue *queue, const bd_cuda_access &how,
                             const update_list *list) {
  const int blocks = blocks_of(queue, list->lanes);
  if (how.narrow)
    BD_LAUNCH((add_updates<packs, uint16_t>), blocks, BD_CUDA_THREADS, queue->stream, *list);
  else
    BD_LAUNCH((add_updates<packs, float>), blocks, BD_CUDA_THREADS, queue->stream, *list);
}

static void start_updates(const bd_cuda_queue *queue, const bd_cuda_access &how, update_list *list,
                          bd_cuda_mean_list *means) {
  if (list->updates == 0) return;
  if (how.packs)
    start_updates_of<true>(queue, how, list);
  else
    start_updates_of<false>(queue, how, list);
  BD_LAUNCH(add_lanes, (int)(list->updates * BD_CUDA_GROUPS / 32), 32, queue->stream, *list);
  bd_cuda_mix_means(queue, means, list->room);
  list->updates = list->lanes = 0;
}

// How many lanes a weight has: where they are longer than a row, as many as rows have packs, so
// that each stays in its columns.
static int64_t lanes_for(const bd_cuda_matrix &m, int64_t width) {
  const int64_t lanes = bd_rt_least(LANES, bd_cuda_in_parts(m.count, width));
  const int64_t row = m.columns / width;
  return row < lanes ? lanes - lanes % row : lanes;
}

void bd_cuda_add_updates(const bd_cuda_queue *queue, int count, const bd_cuda_factors *of,
                         void *room, int64_t bytes) {
  const int64_t most = (bytes - (int64_t)sizeof(bd_cuda_groups)) / (int64_t)sizeof(double);
  update_list list = {};
  bd_cuda_mean_list means = {};
  bd_cuda_access last = {};
  list.room = (char *)room;
  for (int i = 0; i < count; i++) {
    const bd_rt_rule *const rule = of[i].rule;
    const bd_cuda_matrix m = bd_cuda_matrix_of(rule);
    const bd_cuda_mean kept = {rule->factors.mean + BD_RT_MEAN_UPDATE, NULL, of[i].mixing};
    if (m.count == 0) {
      bd_cuda_leave_mean(queue, kept, 1);
      continue;
    }
    const bd_cuda_factoring f = bd_cuda_factoring_of(&rule->factors);
    bd_cuda_access how = bd_cuda_access_of(rule, &m);
    how.packs = how.packs && bd_cuda_factoring_fits(f);
    const int64_t width = how.packs ? BD_CUDA_PACK : 1;
    const int64_t lanes = lanes_for(m, width), apart = lanes * width;
    const int64_t room_lanes = bd_cuda_padded(lanes, BD_CUDA_THREADS);
    if (!bd_cuda_reads_alike(how, last) || list.updates == BD_CUDA_MOST_FACTORED ||
        list.lanes + room_lanes > most)
      start_updates(queue, last, &list, &means);
    last = how;
    list.of[list.updates++] = {m.gradient,
                               of[i].mixings,
                               m.count,
                               lanes,
                               list.lanes,
                               f,
                               {(int32_t)(apart / m.columns), (int32_t)(apart % m.columns)}};
    list.lanes += room_lanes;
    bd_cuda_put_mean(&means, kept);
  }
  start_updates(queue, last, &list, &means);
}
