// Adafactor's sums of squares of updates. A thread adds up a lane, packs of a weight that lie far
// apart; then lanes are added in groups. How a weight is cut depends on its shape alone.
#include "runtime/cuda/adafactor.cuh"

enum { AHEAD_BYTES = 64 }; // that a thread reads before it adds them up

static __device__ int update_of(const bd_cuda_update_list &list, int64_t lane) {
  return bd_cuda_member_of((int)list.updates, lane, [&](int i) { return list.of[i].first_lane; });
}

static __device__ double *lanes_of(const bd_cuda_update_list &list) {
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
static __device__ void add_packs(const bd_cuda_update &u, float inverse, float factor, int64_t pack,
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
static __device__ double sum_of_lane(const bd_cuda_update &u, int64_t lane) {
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

template <bool packs, typename of_gradient> BD_BODY add_updates(const bd_cuda_update_list &list) {
  constexpr int width = packs ? BD_CUDA_PACK : 1;
  BD_FOR_ITEMS(place, list.lanes) {
    const bd_cuda_update &u = list.of[update_of(list, place)];
    const int64_t lane = place - u.first_lane;
    if (lane >= u.lanes) continue;
    lanes_of(list)[place] = u.far.column == 0 ? sum_of_lane<true, width, of_gradient>(u, lane)
                                              : sum_of_lane<false, width, of_gradient>(u, lane);
  }
}

BD_ENTRY BD_ROOM(1) bd_k_add_lanes(bd_cuda_update_list list) {
  BD_FOR_ITEMS(i, list.updates * BD_CUDA_GROUPS) {
    const int64_t at = i / BD_CUDA_GROUPS, group = i % BD_CUDA_GROUPS;
    ((bd_cuda_groups *)list.room)->of[at][group] =
        bd_cuda_group_sum(lanes_of(list) + list.of[at].first_lane, list.of[at].lanes, group);
  }
}

#define ADD_UPDATES(name, packs, of_gradient)                                                      \
  BD_ENTRY BD_ROOM(3) bd_k_add_updates_##name(bd_cuda_update_list list) {                          \
    add_updates<packs, of_gradient>(list);                                                         \
  }
ADD_UPDATES(packs_f32, true, float)
ADD_UPDATES(packs_bf16, true, uint16_t)
ADD_UPDATES(f32, false, float)
ADD_UPDATES(bf16, false, uint16_t)
