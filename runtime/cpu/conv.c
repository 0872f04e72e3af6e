// Convolution by windows, in tiles that fit a thread's scratch: a chunk of work packs what a tile
// needs, calls a kernel and adds up or unpacks what it makes. Sums are over blocks of channels and
// over tiles in ascending order, whatever the threads.
#include "runtime/cpu/conv.h"
#include "runtime/cpu/conv_kernel.h"
#include "runtime/cpu/conv_tile.h"
#include "runtime/cpu/windows.h"

#include <string.h>

enum {
  BLOCK = 64,            // channels of a block of results
  GRAIN = 16,            // channels that kernels take together
  MOST_FILTER = 1 << 17, // floats of a block of filters
  MOST_IMAGES = 1 << 17, // floats of a tile's images
  ENOUGH_CHUNKS = 16,    // to keep threads busy
  LEAST_POINTS = 512,    // of a tile that is cut only for more chunks
  MOST_TILES = 8,        // that share a block of filters, in one chunk
};

// Tile i along a dimension begins at first + i * step, of the image and of the result.
typedef struct axis {
  int64_t parts, x_first, x_step, y_first, y_step;
} axis;

// Where windows are a point long, only the points that a result has are an image: those `step`
// apart from `start` on, of `whole`. Elsewhere these are all.
typedef struct job {
  bd_rt_conv s;
  int64_t whole[3], start[3], step[3];
  enum bd_rt_conv_kind kind;
  const bd_rt_conv_kernel *kernel;
  bd_rt_conv tile;
  axis axes[3];
  int64_t groups, c, o;       // groups, and channels of each
  int64_t c_blocks, o_blocks; // of the tile's channels, in a group
  int64_t tiles, run;         // tiles of images and points; those of one chunk
  int64_t scratch_floats;     // of a worker
  float *scratch;
  const float *x, *w, *y;
  float *out;
  int accumulate;
} job;

static int64_t up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static int64_t aligned(int64_t floats) {
  return up(floats, GRAIN) * GRAIN;
}

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
    j->axes[d] = (axis){.parts = 1};
  } else if (j->kind != BD_RT_CONV_INPUT) {
    const int64_t y = up(s->y[d], parts);
    j->tile.x[d] = (y - 1) * stride + reach_of(s, d), j->tile.y[d] = y, j->tile.before[d] = 0;
    j->axes[d] = (axis){up(s->y[d], y), -before, y * stride, 0, y};
  } else {
    const int64_t steps = up(s->x[d] + before, stride), step = up(steps, parts);
    const int64_t more = (reach_of(s, d) - 1) / stride; // results before whose windows reach in
    j->tile.x[d] = step * stride, j->tile.y[d] = step + more, j->tile.before[d] = more * stride;
    j->axes[d] = (axis){up(steps, step), -before, step * stride, -more, step};
  }
}

static int64_t image_floats(const job *j) {
  const int64_t c = j->tile.c < GRAIN ? j->tile.c : aligned(j->tile.c);
  const int64_t o = j->tile.o < GRAIN ? j->tile.o : aligned(j->tile.o);
  return c * bd_rt_points(j->tile.x) + o * bd_rt_points(j->tile.y);
}

static int64_t filter_floats(const job *j) {
  return j->tile.o * j->tile.c / j->tile.groups * bd_rt_points(j->tile.k);
}

// Blocks of results, each of which a chunk makes from all tiles or from some.
static int64_t result_blocks(const job *j) {
  const int64_t blocks = j->kind == BD_RT_CONV_FORWARD ? j->o_blocks
                         : j->kind == BD_RT_CONV_INPUT ? j->c_blocks
                         : j->tile.groups > 1          ? j->c_blocks
                                                       : j->c_blocks * j->o_blocks;
  return j->groups * blocks;
}

static void count_tiles(job *j) {
  j->tiles = up(j->s.n, j->tile.n) * j->axes[0].parts * j->axes[1].parts * j->axes[2].parts;
}

// Channels of blocks of at most `most` of `channels`, as even as GRAIN allows.
static int64_t block_of(int64_t channels, int64_t most) {
  if (channels <= most) return channels;
  most = most < GRAIN ? most : most / GRAIN * GRAIN;
  return bd_rt_least(most, aligned(up(channels, up(channels, most))));
}

static void choose_blocks(job *j) {
  const int64_t points = bd_rt_points(j->s.k), most = MOST_FILTER / points;
  bd_rt_conv *const t = &j->tile;
  if (j->s.groups > 1 && j->s.c == j->s.groups && j->s.o == j->s.groups) {
    j->groups = 1, j->c = j->o = j->s.c;
    t->groups = t->c = t->o = bd_rt_least(GRAIN, j->c);
  } else {
    j->groups = j->s.groups, j->c = j->s.c / j->groups, j->o = j->s.o / j->groups;
    t->groups = 1, t->c = j->c, t->o = j->o;
    int64_t block = BLOCK;
    while (
        j->kind == BD_RT_CONV_FILTER && block > GRAIN &&
        (up(j->c, block) * up(j->o, block) * j->groups < ENOUGH_CHUNKS / 2 || block * block > most))
      block /= 2;
    if (j->kind != BD_RT_CONV_INPUT) t->o = block_of(j->o, block);
    if (j->kind != BD_RT_CONV_FORWARD) t->c = block_of(j->c, block);
    if (j->kind == BD_RT_CONV_INPUT) t->o = block_of(j->o, most / t->c > 0 ? most / t->c : 1);
    if (j->kind != BD_RT_CONV_INPUT)
      t->c = bd_rt_least(t->c, block_of(j->c, most / t->o > 0 ? most / t->o : 1));
  }
  j->c_blocks = up(j->c, t->c), j->o_blocks = up(j->o, t->o);
}

// One more cut of the first dimension that has more than a point a part. 0: none has.
static int cut_more(job *j) {
  for (int d = 0; d < 3; d++) {
    const int64_t before = j->axes[d].parts;
    const int64_t most =
        j->kind != BD_RT_CONV_INPUT ? j->s.y[d] : up(j->s.x[d] + j->s.before[d], j->s.stride[d]);
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
  return aligned(k->x_floats) + aligned(k->y_floats) + aligned(k->w_floats) + aligned(sums) +
         aligned(filter_floats(j)) + aligned(k->room_floats);
}

static void choose_points(job *j, const bd_rt_conv *given) {
  bd_rt_conv *const s = &j->s;
  *s = *given;
  for (int d = 0; d < 3; d++) {
    const int thin = s->k[d] == 1 && s->stride[d] > 1;
    j->whole[d] = s->x[d];
    j->start[d] = thin ? -s->before[d] : 0;
    j->step[d] = thin ? s->stride[d] : 1;
    if (thin) s->x[d] = s->y[d], s->stride[d] = 1, s->before[d] = 0;
  }
  j->tile = *s;
}

static job plan(bd_rt *rt, enum bd_rt_conv_kind kind, const bd_rt_conv *given) {
  job j = {.kind = kind};
  const bd_rt_conv *const s = &j.s;
  choose_points(&j, given);
  const int by_tile = kind != BD_RT_CONV_FILTER;
  int more = 1;
  choose_blocks(&j);
  j.tile.n = 1;
  for (int d = 0; d < 3; d++)
    cut(&j, d, 1);
  while (more && (image_floats(&j) > MOST_IMAGES ||
                  (by_tile &&
                   s->n * result_blocks(&j) * j.axes[0].parts * j.axes[1].parts < ENOUGH_CHUNKS &&
                   bd_rt_points(j.tile.y) > LEAST_POINTS)))
    more = cut_more(&j);
  count_tiles(&j);
  while (j.tiles == up(s->n, j.tile.n) && j.tile.n < s->n &&
         2 * j.tile.n * image_floats(&j) <= MOST_IMAGES &&
         (!by_tile || result_blocks(&j) * j.tiles >= 2 * ENOUGH_CHUNKS)) {
    j.tile.n *= 2;
    count_tiles(&j);
  }
  for (;;) {
    j.kernel = bd_rt_conv_kernel_get(rt, kind, &j.tile);
    j.scratch_floats = needed_floats(&j);
    if (j.scratch_floats <= BD_RT_THREAD_SCRATCH_FLOATS || !cut_more(&j)) break;
  }
  count_tiles(&j);
  j.run = bd_rt_least(MOST_TILES, up(j.tiles * result_blocks(&j), 2 * ENOUGH_CHUNKS));
  j.scratch = bd_rt_conv_scratch(rt, &j.scratch_floats);
  return j;
}

// A worker's scratch.
typedef struct room {
  int worker;
  float *x, *y, *w, *sums, *filters, *library;
} room;

static room room_of(const job *j, int worker) {
  const bd_rt_conv_kernel *const k = j->kernel;
  room r = {.worker = worker, .x = j->scratch + worker * j->scratch_floats};
  r.y = r.x + aligned(k->x_floats);
  r.w = r.y + aligned(k->y_floats);
  r.filters = r.w + aligned(k->w_floats);
  r.library = r.filters + aligned(filter_floats(j));
  r.sums = r.library + aligned(k->room_floats);
  return r;
}

// Tile `t`'s part of an image (x) or a result (y): `block` of the group's channels.
typedef struct place {
  bd_rt_tile tile;
  int64_t image, channel; // the first
  int64_t channels;       // of an image
} place;

static place place_of(const job *j, int x, int64_t t, int64_t group, int64_t block) {
  const bd_rt_conv *const s = &j->s;
  const int64_t own = x ? j->c : j->o, size = x ? j->tile.c : j->tile.o, first = block * size;
  place p = {.tile = {.block = x ? j->kernel->x_block : j->kernel->y_block,
                      .channels = bd_rt_least(size, own - first),
                      .all_channels = size},
             .channel = group * own + first,
             .channels = x ? s->c : s->o};
  for (int d = 2; d >= 0; d--) {
    const axis *const a = &j->axes[d];
    const int64_t i = t % a->parts;
    p.tile.image[d] = x ? j->whole[d] : s->y[d];
    p.tile.extents[d] = x ? j->tile.x[d] : j->tile.y[d];
    p.tile.step[d] = x ? j->step[d] : 1;
    p.tile.first[d] =
        x ? j->start[d] + (a->x_first + i * a->x_step) * j->step[d] : a->y_first + i * a->y_step;
    t /= a->parts;
  }
  p.image = t * j->tile.n;
  return p;
}

static int64_t offset_of(const place *p, int64_t image) {
  return ((p->image + image) * p->channels + p->channel) * bd_rt_points(p->tile.image);
}

static void pack(const job *j, const place *p, const float *images, float *out) {
  const int64_t floats = bd_rt_tile_floats(&p->tile);
  for (int64_t i = 0; i < j->tile.n; i++) {
    if (p->image + i < j->s.n)
      bd_rt_tile_pack(&p->tile, images + offset_of(p, i), out + i * floats);
    else
      memset(out + i * floats, 0, (size_t)floats * sizeof *out);
  }
}

static void unpack(const job *j, const place *p, const float *packed, float *images) {
  for (int64_t i = 0; i < j->tile.n && p->image + i < j->s.n; i++)
    bd_rt_tile_unpack(&p->tile, packed + i * bd_rt_tile_floats(&p->tile), images + offset_of(p, i));
}

// Rows of a block of filters: their length, how many there are, and how far apart they lie.
typedef struct filter_rows {
  int64_t first, count, length, stride, tile_stride;
} filter_rows;

static filter_rows rows_of(const job *j, int64_t group, int64_t o_block, int64_t c_block) {
  const int64_t points = bd_rt_points(j->s.k), o = o_block * j->tile.o, c = c_block * j->tile.c;
  if (j->tile.groups > 1)
    return (filter_rows){c * points, bd_rt_least(j->tile.c, j->c - c), points, points, points};
  return (filter_rows){((group * j->o + o) * j->c + c) * points, bd_rt_least(j->tile.o, j->o - o),
                       bd_rt_least(j->tile.c, j->c - c) * points, j->c * points,
                       j->tile.c * points};
}

static void load_filters(const job *j, const room *r, filter_rows at) {
  memset(r->filters, 0, (size_t)filter_floats(j) * sizeof *r->filters);
  for (int64_t i = 0; i < at.count; i++)
    memcpy(r->filters + i * at.tile_stride, j->w + at.first + i * at.stride,
           (size_t)at.length * sizeof *r->filters);
  bd_rt_conv_kernel_reorder(j->kernel, r->worker, r->filters, r->w, r->library);
}

static void store_filters(const job *j, const room *r, filter_rows at) {
  bd_rt_conv_kernel_reorder(j->kernel, r->worker, r->sums, r->filters, r->library);
  for (int64_t i = 0; i < at.count; i++) {
    const float *const from = r->filters + i * at.tile_stride;
    float *const to = j->out + at.first + i * at.stride;
    for (int64_t k = 0; k < at.length; k++)
      to[k] = j->accumulate ? to[k] + from[k] : from[k];
  }
}

static void add(float *sums, const float *more, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    sums[i] += more[i];
}

// A chunk of the result y (or, with INPUT, of x): a run of tiles of a block of its channels, each a
// sum over the blocks of the other's.
static void make_images(void *args, int64_t chunk, int worker) {
  const job *const j = args;
  const int forward = j->kind == BD_RT_CONV_FORWARD, single = j->tile.groups > 1;
  const room r = room_of(j, worker);
  const int64_t runs = up(j->tiles, j->run), blocks = forward ? j->o_blocks : j->c_blocks;
  const int64_t others = single ? 1 : forward ? j->c_blocks : j->o_blocks;
  const int64_t block = chunk / runs % blocks, group = chunk / runs / blocks;
  const int64_t first = chunk % runs * j->run, end = bd_rt_least(first + j->run, j->tiles);
  const int64_t floats = forward ? j->kernel->y_floats : j->kernel->x_floats;
  float *const in = forward ? r.x : r.y, *const made = forward ? r.y : r.x;
  int64_t loaded = -1;
  for (int64_t t = first; t < end; t++) {
    for (int64_t i = 0; i < others; i++) {
      const int64_t other = single ? block : i;
      const place from = place_of(j, forward, t, group, other);
      if (loaded != other)
        load_filters(j, &r,
                     forward ? rows_of(j, group, block, other) : rows_of(j, group, other, block));
      loaded = other;
      pack(j, &from, forward ? j->x : j->y, in);
      bd_rt_conv_kernel_run(j->kernel, worker, r.x, r.w, r.y, r.library);
      if (others == 1) continue;
      if (i == 0)
        memcpy(r.sums, made, (size_t)floats * sizeof *made);
      else
        add(r.sums, made, floats);
    }
    const place to = place_of(j, !forward, t, group, block);
    unpack(j, &to, others == 1 ? made : r.sums, j->out);
  }
}

// A chunk of the gradient of w: a block of filters and of their channels, summed over all tiles.
static void make_filters(void *args, int64_t chunk, int worker) {
  const job *const j = args;
  const room r = room_of(j, worker);
  const int64_t c_block = chunk % j->c_blocks, o_blocks = j->tile.groups > 1 ? 1 : j->o_blocks;
  const int64_t o_block = j->tile.groups > 1 ? c_block : chunk / j->c_blocks % o_blocks;
  const int64_t group = chunk / j->c_blocks / o_blocks;
  memset(r.sums, 0, (size_t)j->kernel->w_floats * sizeof *r.sums);
  for (int64_t t = 0; t < j->tiles; t++) {
    const place x = place_of(j, 1, t, group, c_block), y = place_of(j, 0, t, group, o_block);
    pack(j, &x, j->x, r.x);
    pack(j, &y, j->y, r.y);
    bd_rt_conv_kernel_run(j->kernel, worker, r.x, r.w, r.y, r.library);
    add(r.sums, r.w, j->kernel->w_floats);
  }
  store_filters(j, &r, rows_of(j, group, o_block, c_block));
}

static void zero_plane(void *args, int64_t plane, int worker) {
  const job *const j = args;
  const int64_t points = bd_rt_points(j->whole);
  (void)worker;
  memset(j->out + plane * points, 0, (size_t)points * sizeof *j->out);
}

void bd_rt_conv_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *w, float *y) {
  if (bd_rt_conv_is_product(s)) {
    bd_rt_conv_product(rt, s, x, w, y);
    return;
  }
  job j = plan(rt, BD_RT_CONV_FORWARD, s);
  j.x = x, j.w = w, j.out = y;
  bd_rt_pool_run(rt->pool, make_images, &j, result_blocks(&j) * up(j.tiles, j.run));
}

void bd_rt_conv_dx_f32(bd_rt *rt, const bd_rt_conv *s, const float *dy, const float *w, float *dx) {
  if (bd_rt_conv_is_product(s)) {
    bd_rt_conv_product_dx(rt, s, dy, w, dx);
    return;
  }
  job j = plan(rt, BD_RT_CONV_INPUT, s);
  j.y = dy, j.w = w, j.out = dx;
  if (bd_rt_points(j.step) > 1) bd_rt_pool_run(rt->pool, zero_plane, &j, s->n * s->c);
  bd_rt_pool_run(rt->pool, make_images, &j, result_blocks(&j) * up(j.tiles, j.run));
}

void bd_rt_conv_dw_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *dy,
                       int32_t accumulate, float *dw) {
  if (bd_rt_conv_is_product(s)) {
    bd_rt_conv_product_dw(rt, s, x, dy, accumulate, dw);
    return;
  }
  job j = plan(rt, BD_RT_CONV_FILTER, s);
  j.x = x, j.y = dy, j.out = dw, j.accumulate = accumulate;
  bd_rt_pool_run(rt->pool, make_filters, &j, result_blocks(&j));
}
