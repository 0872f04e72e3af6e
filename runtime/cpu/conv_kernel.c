#include "runtime/cpu/conv_plan.h"

#include <dnnl.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { X, W, Y, ROOM, PLAIN, REORDER_ROOM, TENSORS };

typedef struct kernel {
  bd_rt_conv_kernel shown; // first: what callers hold
  struct kernel *next;
  enum bd_rt_conv_kind kind;
  bd_rt_conv tile;
  dnnl_primitive_t conv, reorder;
  dnnl_stream_t *streams;           // of each worker
  dnnl_memory_t (*memory)[TENSORS]; // of each worker
} kernel;

struct bd_rt_convs {
  int threads;
  float *scratch; // where tiles need more than a thread's scratch: of each thread
  int64_t scratch_floats;
  dnnl_engine_t engine;
  dnnl_primitive_attr_t attr;
  dnnl_stream_t *streams;
  kernel *first;
};

static void check(dnnl_status_t status) {
  if (status != dnnl_success) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "oneDNN failed: status %d", status);
}

static void give_back(bd_rt_convs *all) {
  if (all->scratch)
    munmap(all->scratch, (size_t)(all->threads * all->scratch_floats) * sizeof(float));
}

static void destroy(bd_rt_convs *all) {
  give_back(all);
  for (kernel *k = all->first, *next; k; k = next) {
    next = k->next;
    for (int i = 0; i < all->threads * TENSORS; i++)
      dnnl_memory_destroy(k->memory[i / TENSORS][i % TENSORS]);
    dnnl_primitive_destroy(k->conv);
    dnnl_primitive_destroy(k->reorder);
    free(k->memory);
    free(k);
  }
  for (int i = 0; i < all->threads; i++)
    dnnl_stream_destroy(all->streams[i]);
  dnnl_primitive_attr_destroy(all->attr);
  dnnl_engine_destroy(all->engine);
  free(all->streams);
  free(all);
}

// oneDNN's own threads stay off, in this thread and in all that call it.
static bd_rt_convs *open_library(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  omp_set_num_threads(1);
  if (device->convs) return device->convs;
  bd_rt_convs *const all = device->convs = bd_rt_allocate(1, sizeof *all);
  device->close_convs = destroy;
  all->threads = rt->threads;
  all->streams = bd_rt_allocate((size_t)rt->threads, sizeof *all->streams);
  check(dnnl_engine_create(&all->engine, dnnl_cpu, 0));
  for (int i = 0; i < rt->threads; i++)
    check(dnnl_stream_create(&all->streams[i], all->engine, dnnl_stream_default_flags));
  check(dnnl_primitive_attr_create(&all->attr));
  check(dnnl_primitive_attr_set_scratchpad_mode(all->attr, dnnl_scratchpad_mode_user));
  return all;
}

// A tile in oneDNN's terms: signals are images of one row.
typedef struct problem {
  int spatial, w_rank;
  dnnl_dims_t x, w, y, strides, dilates, before, after;
} problem;

static problem describe(const bd_rt_conv *s) {
  const int flat = s->x[0] == 1 && s->k[0] == 1 && s->y[0] == 1 && s->before[0] == 0;
  problem p = {.spatial = flat ? 2 : 3, .x = {s->n, s->c}, .y = {s->n, s->o}};
  if (s->groups > 1) p.w[p.w_rank++] = s->groups;
  p.w[p.w_rank++] = s->o / s->groups;
  p.w[p.w_rank++] = s->c / s->groups;
  for (int d = 0; d < p.spatial; d++) {
    const int from = d + flat;
    p.x[2 + d] = s->x[from];
    p.y[2 + d] = s->y[from];
    p.w[p.w_rank++] = s->k[from];
    p.strides[d] = s->stride[from];
    p.dilates[d] = s->dilation[from] - 1;
    p.before[d] = s->before[from];
    p.after[d] = (s->y[from] - 1) * s->stride[from] + (s->k[from] - 1) * s->dilation[from] + 1 -
                 s->x[from] - s->before[from];
  }
  return p;
}

static dnnl_memory_desc_t describe_tensor(int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag) {
  dnnl_memory_desc_t out;
  check(dnnl_memory_desc_init_by_tag(&out, rank, dims, dnnl_f32, tag));
  return out;
}

// The library's choice for images in a layout (dnnl_format_tag_any: in the one it likes best);
// NULL: it has none.
static dnnl_primitive_desc_t try_layout(const bd_rt_convs *all, enum bd_rt_conv_kind kind,
                                        const problem *p, dnnl_format_tag_t tag) {
  const dnnl_memory_desc_t x = describe_tensor(2 + p->spatial, p->x, tag),
                           w = describe_tensor(p->w_rank, p->w, dnnl_format_tag_any),
                           y = describe_tensor(2 + p->spatial, p->y, tag);
  dnnl_convolution_desc_t desc;
  dnnl_primitive_desc_t forward, found;
  check(dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_training,
                                                   dnnl_convolution_direct, &x, &w, NULL, &y,
                                                   p->strides, p->dilates, p->before, p->after));
  if (dnnl_primitive_desc_create(&forward, &desc, all->attr, all->engine, NULL)) return NULL;
  if (kind == BD_RT_CONV_FORWARD) return forward;
  if (kind == BD_RT_CONV_INPUT)
    check(dnnl_dilated_convolution_backward_data_desc_init(
        &desc, dnnl_convolution_direct, &x, &w, &y, p->strides, p->dilates, p->before, p->after));
  else
    check(dnnl_dilated_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &x,
                                                              &w, NULL, &y, p->strides, p->dilates,
                                                              p->before, p->after));
  if (dnnl_primitive_desc_create(&found, &desc, all->attr, all->engine, forward)) found = NULL;
  check(dnnl_primitive_desc_destroy(forward));
  return found;
}

// Kernels that lay windows out, or are plain loops.
static int is_slow(dnnl_primitive_desc_t desc) {
  const char *name = "";
  check(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name));
  return strstr(name, "gemm") || strstr(name, "ref");
}

// Where the library's choice is slow, channels may be better last.
static dnnl_primitive_desc_t find_kernel(const bd_rt_convs *all, enum bd_rt_conv_kind kind,
                                         const problem *p) {
  dnnl_primitive_desc_t best = try_layout(all, kind, p, dnnl_format_tag_any);
  if (best && !is_slow(best)) return best;
  dnnl_primitive_desc_t last = try_layout(all, kind, p, p->spatial == 2 ? dnnl_acdb : dnnl_acdeb);
  if (!last && !best) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "oneDNN has no kernel for a convolution");
  if (!last || (best && is_slow(last))) {
    if (last) check(dnnl_primitive_desc_destroy(last));
    return best;
  }
  if (best) check(dnnl_primitive_desc_destroy(best));
  return last;
}

// Channels of a block of the layout; ends the job for a layout that is none of these.
static int64_t block_of(const dnnl_memory_desc_t *desc) {
  static const dnnl_format_tag_t tags[2][4] = {
      {dnnl_abcd, dnnl_aBcd8b, dnnl_aBcd16b, dnnl_acdb},
      {dnnl_abcde, dnnl_aBcde8b, dnnl_aBcde16b, dnnl_acdeb}};
  const int64_t blocks[] = {1, 8, 16, desc->dims[1]};
  for (int i = 0; i < 4; i++) {
    const dnnl_memory_desc_t known =
        describe_tensor(desc->ndims, desc->dims, tags[desc->ndims - 4][i]);
    if (dnnl_memory_desc_equal(desc, &known)) return blocks[i];
  }
  bd_rt_fail(BD_RT_EXIT_EXTERNAL,
             "oneDNN lays images out in a way that this program does not know");
}

static int64_t floats_of(const dnnl_memory_desc_t *desc) {
  return (int64_t)(dnnl_memory_desc_get_size(desc) / sizeof(float));
}

static const dnnl_memory_desc_t *query(dnnl_primitive_desc_t desc, dnnl_query_t what) {
  return dnnl_primitive_desc_query_md(desc, what, 0);
}

static void make_memory(const bd_rt_convs *all, kernel *k, int tensor,
                        const dnnl_memory_desc_t *desc) {
  for (int i = 0; i < all->threads; i++)
    check(dnnl_memory_create(&k->memory[i][tensor], desc, all->engine, DNNL_MEMORY_NONE));
}

// The filters' conversion between rows and the kernel's layout.
static void make_reorder(const bd_rt_convs *all, kernel *k, const problem *p,
                         const dnnl_memory_desc_t *packed, int64_t *out_room) {
  static const dnnl_format_tag_t tags[] = {dnnl_abcd, dnnl_abcde, dnnl_abcdef};
  const dnnl_memory_desc_t plain = describe_tensor(p->w_rank, p->w, tags[p->w_rank - 4]);
  const int out = k->kind == BD_RT_CONV_FILTER;
  dnnl_primitive_desc_t desc;
  check(dnnl_reorder_primitive_desc_create(&desc, out ? packed : &plain, all->engine,
                                           out ? &plain : packed, all->engine, all->attr));
  check(dnnl_primitive_create(&k->reorder, desc));
  *out_room = floats_of(query(desc, dnnl_query_scratchpad_md));
  make_memory(all, k, REORDER_ROOM, query(desc, dnnl_query_scratchpad_md));
  check(dnnl_primitive_desc_destroy(desc));
  make_memory(all, k, PLAIN, &plain);
}

static kernel *make(const bd_rt_convs *all, enum bd_rt_conv_kind kind, const bd_rt_conv *tile) {
  static const dnnl_query_t asked[3][3] = {
      {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
      {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
      {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
  const problem p = describe(tile);
  kernel *const k = bd_rt_allocate(1, sizeof *k);
  *k = (kernel){.kind = kind, .tile = *tile, .streams = all->streams};
  k->memory = bd_rt_allocate((size_t)all->threads, sizeof *k->memory);
  dnnl_primitive_desc_t desc = find_kernel(all, kind, &p);
  const dnnl_memory_desc_t *const x = query(desc, asked[kind][X]),
                                  *const w = query(desc, asked[kind][W]),
                                  *const y = query(desc, asked[kind][Y]),
                                  *const room = query(desc, dnnl_query_scratchpad_md);
  int64_t reorder_room;
  check(dnnl_primitive_create(&k->conv, desc));
  make_memory(all, k, X, x);
  make_memory(all, k, W, w);
  make_memory(all, k, Y, y);
  make_memory(all, k, ROOM, room);
  make_reorder(all, k, &p, w, &reorder_room);
  k->shown = (bd_rt_conv_kernel){.x_block = block_of(x),
                                 .y_block = block_of(y),
                                 .x_floats = floats_of(x),
                                 .y_floats = floats_of(y),
                                 .w_floats = floats_of(w),
                                 .room_floats = floats_of(room)};
  if (k->shown.room_floats < reorder_room) k->shown.room_floats = reorder_room;
  check(dnnl_primitive_desc_destroy(desc));
  return k;
}

float *bd_rt_conv_scratch(bd_rt *rt, int64_t *floats) {
  bd_rt_convs *const all = rt->device->convs;
  if (*floats <= BD_RT_THREAD_SCRATCH_FLOATS) {
    *floats = BD_RT_THREAD_SCRATCH_FLOATS;
    return rt->device->thread_scratch;
  }
  if (*floats > all->scratch_floats) {
    give_back(all);
    all->scratch_floats = bd_rt_aligned(*floats);
    all->scratch = bd_rt_pages(all->threads * all->scratch_floats * (int64_t)sizeof(float));
  }
  *floats = all->scratch_floats;
  return all->scratch;
}

const bd_rt_conv_kernel *bd_rt_conv_kernel_get(bd_rt *rt, enum bd_rt_conv_kind kind,
                                               const bd_rt_conv *tile) {
  bd_rt_convs *const all = open_library(rt);
  kernel *k = all->first;
  while (k && (k->kind != kind || memcmp(&k->tile, tile, sizeof *tile) != 0))
    k = k->next;
  if (!k) {
    k = make(all, kind, tile);
    k->next = all->first;
    all->first = k;
  }
  return &k->shown;
}

static dnnl_exec_arg_t bind(const kernel *k, int worker, int tensor, int argument, float *data) {
  const dnnl_memory_t memory = k->memory[worker][tensor];
  check(dnnl_memory_set_data_handle(memory, data));
  return (dnnl_exec_arg_t){argument, memory};
}

static void execute(const kernel *k, int worker, dnnl_primitive_t primitive, int count,
                    const dnnl_exec_arg_t *arguments) {
  omp_set_num_threads(1);
  check(dnnl_primitive_execute(primitive, k->streams[worker], count, arguments));
  check(dnnl_stream_wait(k->streams[worker]));
}

void bd_rt_conv_kernel_run(const bd_rt_conv_kernel *kernel_, int worker, float *x, float *w,
                           float *y, float *room) {
  static const int names[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                  {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                  {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
  const kernel *const k = (const kernel *)kernel_;
  const dnnl_exec_arg_t arguments[] = {
      bind(k, worker, X, names[k->kind][X], x), bind(k, worker, W, names[k->kind][W], w),
      bind(k, worker, Y, names[k->kind][Y], y), bind(k, worker, ROOM, DNNL_ARG_SCRATCHPAD, room)};
  execute(k, worker, k->conv, 4, arguments);
}

void bd_rt_conv_kernel_reorder(const bd_rt_conv_kernel *kernel_, int worker, float *from, float *to,
                               float *room) {
  const kernel *const k = (const kernel *)kernel_;
  const int out = k->kind == BD_RT_CONV_FILTER;
  const dnnl_exec_arg_t arguments[] = {bind(k, worker, out ? W : PLAIN, DNNL_ARG_FROM, from),
                                       bind(k, worker, out ? PLAIN : W, DNNL_ARG_TO, to),
                                       bind(k, worker, REORDER_ROOM, DNNL_ARG_SCRATCHPAD, room)};
  execute(k, worker, k->reorder, 3, arguments);
}
