// Adafactor's sums of squares. Each is cut into strands, how many of which depends on shapes alone.
#include "runtime/cuda/device.cuh"

// Lines `first` to `first + count` of a weight's matrix, `length` elements each, `step` apart.
typedef struct lines {
  int64_t first, count, length, line_step, step, strands;
} lines;

static __device__ double square(float value, float factor) {
  const double v = (double)(value * factor);
  return v * v;
}

// Neighbours in memory fall to neighbouring threads: of a row its elements, else the columns.
static __global__ void add_strands(bd_rt_rule u, lines l, double *partials) {
  BD_FOR_ITEMS(item, l.count * l.strands) {
    const int64_t line = l.step == 1 ? item / l.strands : item % l.count;
    const int64_t strand = l.step == 1 ? item % l.strands : item / l.count;
    double sum = 0;
    for (int64_t e = strand; e < l.length; e += l.strands) {
      const int64_t i = (l.first + line) * l.line_step + e * l.step - u.factors.first;
      if (i >= 0 && i < u.count) sum += square(u.gradient[i], u.factor);
    }
    partials[line * l.strands + strand] = sum;
  }
}

static __global__ void mix_lines(const double *partials, int64_t count, int64_t strands,
                                 bd_rt_mixing mixing, float *kept) {
  BD_FOR_ITEMS(line, count) {
    const double sum = bd_cuda_sum(partials + line * strands, strands);
    kept[line] = mixing.keep * kept[line] + mixing.share * (float)sum;
  }
}

static void add_lines(const bd_cuda_queue *queue, const bd_rt_rule *rule, lines l, int64_t all,
                      bd_rt_mixing mixing, double *partials, float *kept) {
  for (; l.first < all; l.first += BD_CUDA_LANES) {
    l.count = bd_rt_least(all - l.first, BD_CUDA_LANES);
    l.strands = bd_rt_least(BD_CUDA_LANES / l.count, (l.length + 15) / 16);
    BD_LAUNCH(add_strands, blocks_of(queue, l.count * l.strands), BD_CUDA_THREADS, queue->stream,
              *rule, l, partials);
    BD_LAUNCH(mix_lines, blocks_of(queue, l.count), BD_CUDA_THREADS, queue->stream,
              (const double *)partials, l.count, l.strands, mixing, kept + l.first);
  }
}

void bd_cuda_add_rows(const bd_cuda_queue *queue, const bd_rt_rule *rule, bd_rt_mixing mixing,
                      double *partials) {
  const bd_rt_factors *const f = &rule->factors;
  const lines l = {0, 0, f->columns, f->columns, 1, 1};
  add_lines(queue, rule, l, f->rows, mixing, partials, f->row);
}

void bd_cuda_add_columns(const bd_cuda_queue *queue, const bd_rt_rule *rule, bd_rt_mixing mixing,
                         double *partials) {
  const bd_rt_factors *const f = &rule->factors;
  const lines l = {0, 0, f->rows, 1, f->columns, 1};
  add_lines(queue, rule, l, f->columns, mixing, partials, f->column);
}

static __global__ void add_elements(bd_rt_rule u, int which, int64_t strands, double *partials) {
  const bd_rt_factors f = u.factors;
  BD_FOR_ITEMS(strand, strands) {
    double sum = 0;
    for (int64_t i = strand; i < u.count; i += strands) {
      const int64_t at = u.row ? i / u.row * u.stride + i % u.row : i;
      if (which == BD_RT_MEAN_WEIGHT)
        sum += square(!u.weight  ? bd_rt_from_bf16(u.halves[at])
                      : u.halves ? u.weight[i]
                                 : u.weight[at],
                      1);
      else if (which == BD_RT_MEAN_GRADIENT)
        sum += square(u.gradient[i], u.factor);
      else
        sum += square(bd_rt_factored(&f, u.gradient[i] * u.factor, (f.first + i) / f.columns,
                                     (f.first + i) % f.columns),
                      1);
    }
    partials[strand] = sum;
  }
}

// partials[BD_CUDA_LANES + g] = the sum of the g-th of BD_CUDA_SQUARE_GROUPS parts.
static __global__ void add_groups(double *partials, int64_t each) {
  BD_FOR_ITEMS(group, BD_CUDA_SQUARE_GROUPS)
  partials[BD_CUDA_LANES + group] = bd_cuda_sum(partials + group * each, each);
}

void bd_cuda_add_squares(const bd_cuda_queue *queue, const bd_rt_rule *rule, int which,
                         bd_rt_mixing mixing, double *partials) {
  const int64_t groups = BD_CUDA_SQUARE_GROUPS;
  const int64_t each = bd_rt_least(BD_CUDA_LANES, rule->count / 16 + groups) / groups;
  BD_LAUNCH(add_elements, blocks_of(queue, each * groups), BD_CUDA_THREADS, queue->stream, *rule,
            which, each * groups, partials);
  BD_LAUNCH(add_groups, 1, BD_CUDA_THREADS, queue->stream, partials, each);
  BD_LAUNCH(mix_lines, 1, 1, queue->stream, (const double *)(partials + BD_CUDA_LANES), (int64_t)1,
            groups, mixing, rule->factors.mean + which);
}
