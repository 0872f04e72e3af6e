#include "runtime/cpu/conv_plan.h"
#include "runtime/cpu/windows.h"

enum {
  BLOCK = 64,            // channels of a block of results, or more where filters are small
  MOST_BLOCK = 256,      // of a block of filters that are results
  MOST_FILTER = 1 << 17, // floats of a block of filters
  MOST_IMAGES = 1 << 17, // floats of a tile's images
  ENOUGH_CHUNKS = 16,    // to keep threads busy
  LEAST_POINTS = 512,    // of a tile that is cut only for more chunks
  MOST_TILES = 8,        // that share a block of filters, in one chunk
};

typedef bd_rt_conv_job job;

static int64_t reach_of(const bd_rt_conv *s, int d) {
  return (s->k[d] - 1) * s->dilation[d] + 1;
}

// Cuts dimension `d` into about so many parts. A part of an image (INPUT) begins where a window of
// some result begins; one in all has the padding that the whole has.
static void cut(job *j, int d, int64_t parts) {
  const bd_rt_conv *const s = &j->s;
  const int64_t stride = s->stride[d], before = s->before[d];
  if (parts == 1) {
    j->tile.x[d] = s->x[d], j->tile.y[d] = s->y[d], j->tile.before[d] = before;
    j->axes[d] = (bd_rt_conv_axis){.parts = 1};
  } else if (j->kind != BD_RT_CONV_INPUT) {
    const int64_t y = bd_rt_up(s->y[d], parts);
    j->tile.x[d] = (y - 1) * stride + reach_of(s, d), j->tile.y[d] = y, j->tile.before[d] = 0;
    j->axes[d] = (bd_rt_conv_axis){bd_rt_up(s->y[d], y), -before, y * stride, 0, y};
  } else {
    const int64_t steps = bd_rt_up(s->x[d] + before, stride), step = bd_rt_up(steps, parts);
    const int64_t more = (reach_of(s, d) - 1) / stride; // results before whose windows reach in
    j->tile.x[d] = step * stride, j->tile.y[d] = step + more, j->tile.before[d] = more * stride;
    j->axes[d] = (bd_rt_conv_axis){bd_rt_up(steps, step), -before, step * stride, -more, step};
  }
}

static int64_t image_floats(const job *j) {
  const int64_t c = j->tile.c < BD_RT_CONV_GRAIN ? j->tile.c : bd_rt_aligned(j->tile.c);
  const int64_t o = j->tile.o < BD_RT_CONV_GRAIN ? j->tile.o : bd_rt_aligned(j->tile.o);
  return c * bd_rt_points(j->tile.x) + o * bd_rt_points(j->tile.y);
}

int64_t bd_rt_conv_filter_floats(const job *j) {
  return j->tile.o * j->tile.c / j->tile.groups * bd_rt_points(j->tile.k);
}

int64_t bd_rt_conv_blocks(const job *j) {
  const int64_t blocks = j->kind == BD_RT_CONV_FORWARD ? j->o_blocks
                         : j->kind == BD_RT_CONV_INPUT ? j->c_blocks
                         : j->tile.groups > 1          ? j->c_blocks
                                                       : j->c_blocks * j->o_blocks;
  return j->groups * blocks;
}

static void count_tiles(job *j) {
  j->tiles = bd_rt_up(j->s.n, j->tile.n) * j->axes[0].parts * j->axes[1].parts * j->axes[2].parts;
}

// Channels of blocks of at most `most` of `channels`, as even as BD_RT_CONV_GRAIN allows.
static int64_t block_of(int64_t channels, int64_t most) {
  if (channels <= most) return channels;
  most = most < BD_RT_CONV_GRAIN ? most : most / BD_RT_CONV_GRAIN * BD_RT_CONV_GRAIN;
  return bd_rt_least(most, bd_rt_aligned(bd_rt_up(channels, bd_rt_up(channels, most))));
}

// Blocks of results as large as a block of filters may be, but enough of them; then of what they
// are sums over.
static void choose_image_blocks(job *j) {
  bd_rt_conv *const t = &j->tile;
  const int forward = j->kind == BD_RT_CONV_FORWARD;
  const int64_t most = MOST_FILTER / bd_rt_points(j->s.k), made = forward ? j->o : j->c;
  const int64_t others = forward ? j->c : j->o;
  int64_t block = most / others > BLOCK ? most / others : BLOCK;
  while (block > BLOCK && j->s.n * j->groups * bd_rt_up(made, block) < ENOUGH_CHUNKS)
    block = block / 2 > BLOCK ? block / 2 : BLOCK;
  block = block_of(made, block);
  const int64_t other = block_of(others, most > block ? most / block : 1);
  t->o = forward ? block : other;
  t->c = forward ? other : block;
}

static void choose_filter_blocks(job *j) {
  const int64_t most = MOST_FILTER / bd_rt_points(j->s.k);
  int64_t block = MOST_BLOCK;
  while (block > BD_RT_CONV_GRAIN &&
         (j->groups * bd_rt_up(j->c, block) * bd_rt_up(j->o, block) < ENOUGH_CHUNKS / 2 ||
          bd_rt_least(j->c, block) * bd_rt_least(j->o, block) > most))
    block /= 2;
  j->tile.c = block_of(j->c, block);
  j->tile.o = block_of(j->o, block);
}

static void choose_blocks(job *j) {
  bd_rt_conv *const t = &j->tile;
  if (j->s.groups > 1 && j->s.c == j->s.groups && j->s.o == j->s.groups) {
    j->groups = 1, j->c = j->o = j->s.c;
    t->groups = t->c = t->o = bd_rt_least(BD_RT_CONV_GRAIN, j->c);
  } else {
    j->groups = j->s.groups, j->c = j->s.c / j->groups, j->o = j->s.o / j->groups;
    t->groups = 1;
    if (j->kind == BD_RT_CONV_FILTER)
      choose_filter_blocks(j);
    else
      choose_image_blocks(j);
  }
  j->c_blocks = bd_rt_up(j->c, t->c), j->o_blocks = bd_rt_up(j->o, t->o);
}

// One more cut of the first dimension that has more than a point a part. 0: none has.
static int cut_more(job *j) {
  for (int d = 0; d < 3; d++) {
    const int64_t before = j->axes[d].parts;
    const int64_t most = j->kind != BD_RT_CONV_INPUT
                             ? j->s.y[d]
                             : bd_rt_up(j->s.x[d] + j->s.before[d], j->s.stride[d]);
    for (int64_t parts = before * 2; before < most; parts += before) {
      cut(j, d, bd_rt_least(parts, most));
      if (j->axes[d].parts > before) return 1;
    }
  }
  return 0;
}

static int64_t needed_floats(const job *j) {
  const bd_rt_conv_kernel *const k = j->kernel;
  const int64_t sums = j->kind == BD_RT_CONV_FORWARD ? k->y_floats
                       : j->kind == BD_RT_CONV_INPUT ? k->x_floats
                                                     : k->w_floats;
  return bd_rt_aligned(k->x_floats) + bd_rt_aligned(k->y_floats) + bd_rt_aligned(k->w_floats) +
         bd_rt_aligned(sums) + bd_rt_aligned(bd_rt_conv_filter_floats(j)) +
         bd_rt_aligned(k->room_floats);
}

static void choose_points(job *j, const bd_rt_conv *shape) {
  bd_rt_conv *const s = &j->s;
  *s = *shape;
  for (int d = 0; d < 3; d++) {
    const int thin = s->k[d] == 1 && s->stride[d] > 1;
    j->whole[d] = s->x[d];
    j->start[d] = thin ? -s->before[d] : 0;
    j->step[d] = thin ? s->stride[d] : 1;
    if (thin) s->x[d] = s->y[d], s->stride[d] = 1, s->before[d] = 0;
  }
  j->tile = *s;
  j->tile.dtype = j->tile.out_dtype = BD_RT_F32;
  j->tile.channels_last = 0;
}

// Tiles small enough for the scratch, and enough of them to keep threads busy; small images
// together.
static void choose_tiles(job *j) {
  const int by_tile = j->kind != BD_RT_CONV_FILTER; // else a chunk takes all tiles of a block
  int more = 1;
  j->tile.n = 1;
  for (int d = 0; d < 3; d++)
    cut(j, d, 1);
  count_tiles(j);
  while (more && (image_floats(j) > MOST_IMAGES ||
                  (by_tile && bd_rt_conv_blocks(j) * j->tiles < ENOUGH_CHUNKS &&
                   bd_rt_points(j->tile.y) > LEAST_POINTS))) {
    more = cut_more(j);
    count_tiles(j);
  }
  while (j->tiles == bd_rt_up(j->s.n, j->tile.n) && j->tile.n < j->s.n &&
         2 * j->tile.n * image_floats(j) <= MOST_IMAGES &&
         (!by_tile || bd_rt_conv_blocks(j) * j->tiles >= 2 * ENOUGH_CHUNKS)) {
    j->tile.n *= 2;
    count_tiles(j);
  }
}

bd_rt_conv_job bd_rt_conv_plan(bd_rt *rt, enum bd_rt_conv_kind kind, const bd_rt_conv *shape) {
  job j = {.kind = kind, .dtype = shape->dtype, .out_dtype = shape->out_dtype};
  choose_points(&j, shape);
  choose_blocks(&j);
  choose_tiles(&j);
  for (;;) {
    j.kernel = bd_rt_conv_kernel_get(rt, kind, &j.tile);
    j.scratch_floats = needed_floats(&j);
    if (j.scratch_floats <= BD_RT_THREAD_SCRATCH_FLOATS || !cut_more(&j)) break;
  }
  count_tiles(&j);
  j.run = bd_rt_least(MOST_TILES, 1 + j.tiles * bd_rt_conv_blocks(&j) / (2 * ENOUGH_CHUNKS));
  j.scratch = bd_rt_conv_scratch(rt, &j.scratch_floats);
  return j;
}
