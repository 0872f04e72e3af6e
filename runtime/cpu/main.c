// The training loop, and what a step asks of it.
#include "runtime/cpu/agree.h"
#include "runtime/cpu/report.h"
#include "runtime/cpu/rt.h"

#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

char *bd_rt_arena(bd_rt *rt) {
  return rt->arena;
}
int bd_rt_rank(const bd_rt *rt) {
  return rt->rank;
}
int bd_rt_coord(const bd_rt *rt, int axis) {
  return rt->coord[axis];
}
void bd_rt_loss_gradient(bd_rt *rt, float *out) {
  *out = rt->loss_scale;
}

void bd_rt_zero(bd_rt *rt, void *data, int64_t bytes) {
  (void)rt;
  memset(data, 0, (size_t)bytes);
}

void bd_rt_range(const bd_rt *rt, int64_t extent, uint32_t axes, int64_t *start, int64_t *count) {
  const bd_rt_group *const group = &rt->group[axes & ((1u << rt->program->axes) - 1)];
  bd_rt_part(extent, group->size, group->rank, start, count);
}

bd_rt_random bd_rt_random_of(const bd_rt *rt, int64_t micro_batch, int call) {
  return (bd_rt_random){.seed = rt->options.seed,
                        .step = rt->step,
                        .first_sample = micro_batch * rt->program->micro_batch,
                        .call = call};
}

void bd_rt_add_loss(bd_rt *rt, const float *loss, uint32_t partial) {
  for (int a = 0; a < rt->program->axes; a++)
    if (!(partial >> a & 1) && rt->coord[a] > 0) return;
  rt->loss_sum += (double)*loss;
}

static int64_t position_of(const bd_rt *rt, int64_t micro_batch, int64_t sample) {
  return bd_rt_data_position(rt->program, &rt->data, rt->options.seed, rt->step,
                             micro_batch * rt->program->micro_batch + sample);
}

static void read_samples(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int shift,
                         int32_t *out) {
  const int64_t length = rt->program->sequence;
  for (int64_t row = 0; row < rows; row++) {
    const int64_t at = position_of(rt, micro_batch, start + row);
    const int bad = rt->program->vocabulary
                        ? bd_rt_data_tokens(&rt->data, at + shift, length, out + row * length)
                        : bd_rt_data_targets(&rt->data, at, length, out + row * length);
    if (bad)
      bd_rt_fail(BD_RT_EXIT_DATA, "%s: cannot be read at position %lld", rt->options.data,
                 (long long)at);
  }
}

void bd_rt_tokens(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  read_samples(rt, micro_batch, start, rows, 0, out);
}

void bd_rt_targets(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  read_samples(rt, micro_batch, start, rows, 1, out);
}

void bd_rt_reals(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int64_t elements,
                 float *out) {
  for (int64_t row = 0; row < rows; row++) {
    const int64_t at = position_of(rt, micro_batch, start + row);
    if (bd_rt_data_inputs(&rt->data, at, elements, out + row * elements))
      bd_rt_fail(BD_RT_EXIT_DATA,
                 "%s: sample %lld of `inputs` has not the %lld elements of the model",
                 rt->options.data, (long long)at, (long long)elements);
  }
}

// Valid targets of the step: all tokens have one; arrays may mark some as absent.
static float scale_of_step(bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  int64_t count = program->global_batch * program->sequence;
  if (!program->vocabulary) {
    int32_t *const targets = (int32_t *)(void *)rt->scratch;
    count = 0;
    for (int64_t sample = 0; sample < program->global_batch; sample++) {
      read_samples(rt, 0, sample, 1, 0, targets);
      for (int64_t i = 0; i < program->sequence; i++)
        count += targets[i] >= 0;
    }
  }
  return count ? 1.0f / (float)count : 0;
}

enum { CLEAR_GRAIN = 1 << 18 };

typedef struct clearing {
  float *data;
  int64_t count;
} clearing;

static void clear_grain(void *args, int64_t chunk) {
  const clearing *const c = args;
  const int64_t start = chunk * CLEAR_GRAIN, rest = c->count - start;
  memset(c->data + start, 0, (size_t)(rest < CLEAR_GRAIN ? rest : CLEAR_GRAIN) * sizeof *c->data);
}

static void clear(bd_rt *rt, float *data, int64_t count) {
  clearing c = {data, count};
  bd_rt_parallel(rt, clear_grain, &c, (count + CLEAR_GRAIN - 1) / CLEAR_GRAIN);
}

static void clear_gradients(bd_rt *rt) {
  for (int i = 0; i < rt->stage->weight_count; i++) {
    const bd_rt_weight *const weight = &rt->stage->weights[i];
    int64_t elements = 1;
    for (int d = 0; d < weight->layout.rank; d++) {
      int64_t parts = 1;
      for (int a = 0; a < rt->program->axes; a++)
        parts *= weight->layout.at[a] == d ? rt->program->mesh[a] : 1;
      elements *= (weight->layout.dims[d] + parts - 1) / parts;
    }
    for (int use = 0; use < weight->gradient_count; use++)
      clear(rt, (float *)(void *)(rt->arena + weight->gradient_offsets[use]), elements);
  }
}

static double total_loss(bd_rt *rt) {
  double total = 0;
  MPI_Allgather(&rt->loss_sum, 1, MPI_DOUBLE, rt->norms, 1, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int r = 0; r < rt->ranks; r++)
    total += rt->norms[r];
  return total * (double)rt->loss_scale;
}

static int run_step(bd_rt *rt, bd_rt_measure *measure) {
  const double start = MPI_Wtime();
  clear_gradients(rt);
  rt->loss_sum = 0;
  rt->loss_scale = scale_of_step(rt);
  rt->stage->step(rt);
  measure->loss = total_loss(rt);
  const int finite = isfinite(measure->loss);
  measure->norm = finite ? bd_rt_update(rt) : 0;
  measure->step_seconds = MPI_Wtime() - start;
  if (finite && isfinite(measure->norm)) return 0;
  if (rt->rank == 0)
    bd_rt_say("the %s of step %lld is not finite", finite ? "gradient" : "loss",
              (long long)rt->step + 1);
  return BD_RT_EXIT_NONFINITE;
}

static int train(bd_rt *rt, FILE *metrics) {
  double passed = 0;
  for (; (int64_t)rt->step < rt->options.steps; rt->step++) {
    bd_rt_measure measure = {0};
    const int status = run_step(rt, &measure);
    if (status) return status;
    passed += measure.step_seconds;
    const double done = (double)rt->step + 1;
    measure.left_seconds = passed / done * ((double)rt->options.steps - done);
    if (rt->rank != 0) continue;
    bd_rt_progress(rt, &measure);
    if (metrics && bd_rt_metrics_write(rt, &measure, metrics))
      bd_rt_fail(BD_RT_EXIT_EXTERNAL, "%s: %s", rt->options.metrics, strerror(errno));
  }
  return 0;
}

static int open_data(bd_rt *rt) {
  char message[1024] = "";
  const bd_rt_options *const o = &rt->options;
  rt->data = (bd_rt_data){.fd = -1, .arrays = {.fd = -1}};
  if (o->steps == 0) return 0;
  const int status = bd_rt_data_open(rt->program, o->data, o->tokenizer, rt->rank == 0, &rt->data,
                                     message, sizeof message);
  return bd_rt_agree(rt, status, message);
}

static int open_metrics(bd_rt *rt, FILE **out_metrics) {
  char message[1024] = "";
  int status = 0;
  *out_metrics = NULL;
  if (rt->rank == 0 && rt->options.metrics && !(*out_metrics = fopen(rt->options.metrics, "w"))) {
    snprintf(message, sizeof message, "%s: %s", rt->options.metrics, strerror(errno));
    status = BD_RT_EXIT_EXTERNAL;
  }
  return bd_rt_agree(rt, status, message);
}

// What comes once the ranks stand.
static int run(bd_rt *rt) {
  FILE *metrics = NULL;
  int status = open_data(rt);
  if (!status)
    status = rt->options.init ? bd_rt_weights_load(rt, rt->options.init) : bd_rt_weights_init(rt);
  if (!status) status = open_metrics(rt, &metrics);
  if (!status) status = train(rt, metrics);
  if (!status && rt->options.save) status = bd_rt_weights_save(rt, rt->options.save);
  if (!status && rt->options.report) status = bd_rt_report_write(rt, rt->options.report);
  if (metrics) fclose(metrics);
  bd_rt_data_close(&rt->data);
  return status;
}

static int parse(bd_rt *rt, int argc, char **argv) {
  char message[1024] = "";
  int status = bd_rt_options_parse(argc, argv, &rt->options, message, sizeof message);
  if (!status && !rt->options.help && !rt->options.data && rt->options.steps > 0) {
    snprintf(message, sizeof message, "--data FILE is needed to train");
    status = BD_RT_EXIT_USAGE;
  }
  if (status && rt->rank == 0) bd_rt_say("%s", message);
  return status;
}

int bd_rt_main(int argc, char **argv, const bd_rt_program *program) {
  int level;
  bd_rt_gemm_choose(argv);
  bd_rt *const rt = calloc(1, sizeof *rt);
  if (!rt || MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
    bd_rt_say("cannot start MPI");
    free(rt);
    return BD_RT_EXIT_EXTERNAL;
  }
  openblas_set_num_threads(1);
  rt->program = program;
  MPI_Comm_rank(MPI_COMM_WORLD, &rt->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rt->ranks);
  int status = parse(rt, argc, argv);
  if (!status && rt->options.help) {
    if (rt->rank == 0) fputs(bd_rt_options_help(), stdout);
  } else if (!status) {
    status = bd_rt_join(rt);
    if (!status) {
      status = run(rt);
      bd_rt_leave(rt);
    }
  }
  MPI_Finalize();
  free(rt);
  return status;
}
