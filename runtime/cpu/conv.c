// Convolution by windows, in tiles that fit a thread's scratch: a chunk of work packs what a tile
// needs, as floats, calls a kernel and adds up or unpacks what it makes. Sums are over blocks of
// channels and over tiles in ascending order, whatever the threads.
#include "runtime/cpu/conv.h"
#include "runtime/cpu/conv_plan.h"
#include "runtime/cpu/conv_tile.h"
#include "runtime/cpu/halves.h"
#include "runtime/cpu/windows.h"

#include <string.h>

typedef bd_rt_conv_job job;

// A worker's scratch.
typedef struct room {
  int worker;
  float *x, *y, *w, *sums, *filters, *library;
} room;

static room room_of(const job *j, int worker) {
  const bd_rt_conv_kernel *const k = j->kernel;
  room r = {.worker = worker, .x = j->scratch + worker * j->scratch_floats};
  r.y = r.x + bd_rt_aligned(k->x_floats);
  r.w = r.y + bd_rt_aligned(k->y_floats);
  r.filters = r.w + bd_rt_aligned(k->w_floats);
  r.library = r.filters + bd_rt_aligned(bd_rt_conv_filter_floats(j));
  r.sums = r.library + bd_rt_aligned(k->room_floats);
  return r;
}

// Tile `t`'s part of an image (x) or a result (y): `block` of the group's channels.
typedef struct place {
  bd_rt_tile tile;
  int64_t image, channel; // the first
  int64_t channels;       // of an image
} place;

// Of an operand, or of what is made.
static place place_of(const job *j, int x, int made, int64_t t, int64_t group, int64_t block) {
  const bd_rt_conv *const s = &j->s;
  const int64_t own = x ? j->c : j->o, size = x ? j->tile.c : j->tile.o, first = block * size;
  place p = {.tile = {.block = x ? j->kernel->x_block : j->kernel->y_block,
                      .channels = bd_rt_least(size, own - first),
                      .all_channels = size,
                      .dtype = made ? j->out_dtype : j->dtype},
             .channel = group * own + first,
             .channels = x ? s->c : s->o};
  for (int d = 2; d >= 0; d--) {
    const bd_rt_conv_axis *const a = &j->axes[d];
    const int64_t i = t % a->parts;
    p.tile.image[d] = x ? j->whole[d] : s->y[d];
    p.tile.extents[d] = x ? j->tile.x[d] : j->tile.y[d];
    p.tile.step[d] = x ? j->step[d] : 1;
    p.tile.first[d] =
        x ? j->start[d] + (a->x_first + i * a->x_step) * j->step[d] : a->y_first + i * a->y_step;
    t /= a->parts;
  }
  p.tile.plane = s->channels_last ? 1 : bd_rt_points(p.tile.image);
  p.tile.point = s->channels_last ? p.channels : 1;
  p.image = t * j->tile.n;
  return p;
}

// Of the first element of one of the tile's images, in bytes.
static int64_t offset_of(const place *p, int64_t image) {
  const int64_t first = (p->image + image) * p->channels * bd_rt_points(p->tile.image);
  return (first + p->channel * p->tile.plane) * bd_rt_element_bytes(p->tile.dtype);
}

static void pack(const job *j, const place *p, const char *images, float *out) {
  const int64_t floats = bd_rt_tile_floats(&p->tile);
  for (int64_t i = 0; i < j->tile.n; i++) {
    if (p->image + i < j->s.n)
      bd_rt_tile_pack(&p->tile, images + offset_of(p, i), out + i * floats);
    else
      memset(out + i * floats, 0, (size_t)floats * sizeof *out);
  }
}

static void unpack(const job *j, const place *p, const float *packed, char *images) {
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

static void load_row(const job *j, int64_t from, float *to, int64_t length) {
  if (bd_rt_is_half(j->dtype))
    bd_rt_widen_run(j->dtype, (const uint16_t *)j->w + from, to, length);
  else
    memcpy(to, (const float *)j->w + from, (size_t)length * sizeof *to);
}

static void store_row(const job *j, const float *from, int64_t to, int64_t length) {
  if (bd_rt_is_half(j->out_dtype)) {
    bd_rt_narrow_run(j->out_dtype, from, (uint16_t *)j->out + to, length);
    return;
  }
  float *const out = (float *)j->out + to;
  for (int64_t k = 0; k < length; k++)
    out[k] = j->accumulate ? out[k] + from[k] : from[k];
}

static void load_filters(const job *j, const room *r, filter_rows at) {
  memset(r->filters, 0, (size_t)bd_rt_conv_filter_floats(j) * sizeof *r->filters);
  for (int64_t i = 0; i < at.count; i++)
    load_row(j, at.first + i * at.stride, r->filters + i * at.tile_stride, at.length);
  bd_rt_conv_kernel_reorder(j->kernel, r->worker, r->filters, r->w, r->library);
}

static void store_filters(const job *j, const room *r, filter_rows at) {
  bd_rt_conv_kernel_reorder(j->kernel, r->worker, r->sums, r->filters, r->library);
  for (int64_t i = 0; i < at.count; i++)
    store_row(j, r->filters + i * at.tile_stride, at.first + i * at.stride, at.length);
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
  const int64_t runs = bd_rt_up(j->tiles, j->run), blocks = forward ? j->o_blocks : j->c_blocks;
  const int64_t others = single ? 1 : forward ? j->c_blocks : j->o_blocks;
  const int64_t block = chunk / runs % blocks, group = chunk / runs / blocks;
  const int64_t first = chunk % runs * j->run, end = bd_rt_least(first + j->run, j->tiles);
  const int64_t floats = forward ? j->kernel->y_floats : j->kernel->x_floats;
  float *const in = forward ? r.x : r.y, *const made = forward ? r.y : r.x;
  int64_t loaded = -1;
  for (int64_t t = first; t < end; t++) {
    for (int64_t i = 0; i < others; i++) {
      const int64_t other = single ? block : i;
      const place from = place_of(j, forward, 0, t, group, other);
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
    const place to = place_of(j, !forward, 1, t, group, block);
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
    const place x = place_of(j, 1, 0, t, group, c_block), y = place_of(j, 0, 0, t, group, o_block);
    pack(j, &x, j->x, r.x);
    pack(j, &y, j->y, r.y);
    bd_rt_conv_kernel_run(j->kernel, worker, r.x, r.w, r.y, r.library);
    add(r.sums, r.w, j->kernel->w_floats);
  }
  store_filters(j, &r, rows_of(j, group, o_block, c_block));
}

// As many bytes as a plane has, wherever those of a plane lie.
static void zero_plane(void *args, int64_t plane, int worker) {
  const job *const j = args;
  const int64_t bytes = bd_rt_points(j->whole) * bd_rt_element_bytes(j->out_dtype);
  (void)worker;
  memset((char *)j->out + plane * bytes, 0, (size_t)bytes);
}

void bd_rt_convolve(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *w, void *y) {
  if (bd_rt_conv_is_product(s)) {
    bd_rt_conv_product(rt, s, x, w, y);
    return;
  }
  job j = bd_rt_conv_plan(rt, BD_RT_CONV_FORWARD, s);
  j.x = x, j.w = w, j.out = y;
  bd_rt_pool_run(rt->pool, make_images, &j, bd_rt_conv_blocks(&j) * bd_rt_up(j.tiles, j.run));
}

void bd_rt_convolve_dx(bd_rt *rt, const bd_rt_conv *s, const void *dy, const void *w, void *dx) {
  if (bd_rt_conv_is_product(s)) {
    bd_rt_conv_product_dx(rt, s, dy, w, dx);
    return;
  }
  job j = bd_rt_conv_plan(rt, BD_RT_CONV_INPUT, s);
  j.y = dy, j.w = w, j.out = dx;
  if (bd_rt_points(j.step) > 1) bd_rt_pool_run(rt->pool, zero_plane, &j, s->n * s->c);
  bd_rt_pool_run(rt->pool, make_images, &j, bd_rt_conv_blocks(&j) * bd_rt_up(j.tiles, j.run));
}

void bd_rt_convolve_dw(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy,
                       int32_t accumulate, void *dw) {
  if (bd_rt_conv_is_product(s)) {
    bd_rt_conv_product_dw(rt, s, x, dy, accumulate, dw);
    return;
  }
  job j = bd_rt_conv_plan(rt, BD_RT_CONV_FILTER, s);
  j.x = x, j.y = dy, j.out = dw, j.accumulate = accumulate;
  bd_rt_pool_run(rt->pool, make_filters, &j, bd_rt_conv_blocks(&j));
}
