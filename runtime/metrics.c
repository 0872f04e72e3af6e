#include "runtime/metrics.h"

#include "runtime/backend.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char EVALUATED[] = "\"eval_loss\"";

static double tokens_per_second(const bd_rt *rt, double seconds) {
  const double tokens = (double)(rt->program->global_batch * rt->program->sequence);
  return seconds > 0 ? tokens / seconds : 0;
}

// 0: not known.
static double mfu(const bd_rt *rt, double seconds) {
  const bd_rt_program *const p = rt->program;
  const double most = seconds * p->flops_per_second * (double)rt->ranks;
  return most > 0 ? p->model_flops / most : 0;
}

void bd_rt_define_mfu(const bd_rt *rt) {
  const bd_rt_program *const p = rt->program;
  if (mfu(rt, 1) > 0)
    fprintf(stderr,
            "MFU: a step's products, convolutions and attention, %.4g flops forward and backward "
            "without what is run again, over %d x %.4g flops a second\n",
            p->model_flops, rt->ranks, p->flops_per_second);
}

void bd_rt_progress(const bd_rt *rt, const bd_rt_measure *measure) {
  const long left = (long)(measure->left_seconds + 0.5);
  const int tty = isatty(STDERR_FILENO), last = (int64_t)rt->step == rt->options.steps;
  const double utilization = mfu(rt, measure->step_seconds);
  char share[32] = "", line[256];
  if (utilization > 0) snprintf(share, sizeof share, "  MFU %.1f%%", 100 * utilization);
  snprintf(line, sizeof line, "%sstep %lld/%lld  loss %.4f  %.0f %s/s%s  %ldm%02lds left%s%s",
           tty ? "\r\033[K" : "", (long long)rt->step, (long long)rt->options.steps, measure->loss,
           tokens_per_second(rt, measure->step_seconds),
           rt->program->vocabulary ? "tokens" : "targets", share, left / 60, left % 60,
           measure->skipped ? "  skipped: overflow" : "", tty && !last ? "" : "\n");
  // In one piece: what others say when this process is killed begins a line of its own.
  fputs(line, stderr);
  fflush(stderr);
}

void bd_rt_tell_evaluation(const bd_rt *rt, const bd_rt_evaluation_measure *measure) {
  char line[256];
  snprintf(line, sizeof line, "%sstep %lld/%lld  eval loss %.4f  %lld samples in %.1fs\n",
           isatty(STDERR_FILENO) ? "\r\033[K" : "", (long long)rt->step,
           (long long)rt->options.steps, measure->loss,
           (long long)(rt->held_out_batches * rt->program->global_batch), measure->seconds);
  fputs(line, stderr);
  fflush(stderr);
}

// Whether a line is kept by a run that goes on after `step`: of another step, or an evaluation.
static int is_kept(const char *line, int64_t step) {
  int64_t number = 0;
  int end = 0;
  if (sscanf(line, "{\"step\": %" SCNd64 ", %n", &number, &end) != 1) return 0;
  return number < step || (number == step && strncmp(line + end, EVALUATED, sizeof EVALUATED - 1));
}

// Where the first line begins that is not kept: lines are in the order of their steps.
static long end_of_steps(FILE *file, int64_t step) {
  char line[1024];
  long end = 0;
  for (int whole = 1; fgets(line, sizeof line, file);) {
    if (whole && !is_kept(line, step)) break;
    whole = strchr(line, '\n') != NULL;
    if (whole) end = ftell(file);
  }
  return end;
}

int bd_rt_metrics_open(const char *path, int64_t step, FILE **out, char *message, size_t bytes) {
  struct stat about;
  const int goes_on = step > 0 && !stat(path, &about) && S_ISREG(about.st_mode);
  *out = fopen(path, goes_on ? "r+" : "w");
  if (*out && goes_on) {
    const long end = end_of_steps(*out, step);
    if (fseek(*out, end, SEEK_SET) || ftruncate(fileno(*out), end)) {
      fclose(*out);
      *out = NULL;
    }
  }
  if (*out) return 0;
  snprintf(message, bytes, "%s: %s", path, strerror(errno));
  return BD_RT_EXIT_EXTERNAL;
}

// JSON has no number for what is not finite.
static void write_value(FILE *file, double value) {
  if (isfinite(value))
    fprintf(file, "%.9g", value);
  else
    fputs("null", file);
}

static void write_sensors(const bd_rt *rt, FILE *metrics) {
  bd_rt_sensors s;
  if (!bd_rt_sense(rt, &s)) return;
  fprintf(metrics,
          ", \"power_watts\": %.6g, \"clock_mhz\": %.6g, \"memory_clock_mhz\": %.6g, "
          "\"memory_used_bytes\": %lld",
          s.power_watts, s.clock_mhz, s.memory_clock_mhz, (long long)s.memory_used_bytes);
}

int bd_rt_metrics_write(const bd_rt *rt, const bd_rt_measure *measure, FILE *metrics) {
  fprintf(metrics, "{\"step\": %lld, ", (long long)rt->step);
  fputs("\"loss\": ", metrics);
  write_value(metrics, measure->loss);
  fputs(", \"grad_norm\": ", metrics);
  write_value(metrics, measure->norm);
  fprintf(metrics, ", \"tokens_per_second\": %.6g, \"step_seconds\": %.6g",
          tokens_per_second(rt, measure->step_seconds), measure->step_seconds);
  if (mfu(rt, measure->step_seconds) > 0)
    fprintf(metrics, ", \"mfu\": %.6g", mfu(rt, measure->step_seconds));
  write_sensors(rt, metrics);
  if (rt->program->precision == BD_RT_F16)
    fprintf(metrics, ", \"loss_scale\": %.9g, \"skipped\": %s", (double)measure->loss_scale,
            measure->skipped ? "true" : "false");
  fputs("}\n", metrics);
  return fflush(metrics) || ferror(metrics);
}

int bd_rt_metrics_write_evaluation(const bd_rt *rt, const bd_rt_evaluation_measure *measure,
                                   FILE *metrics) {
  fprintf(metrics, "{\"step\": %lld, %s: ", (long long)rt->step, EVALUATED);
  write_value(metrics, measure->loss);
  fprintf(metrics, ", \"eval_seconds\": %.6g}\n", measure->seconds);
  return fflush(metrics) || ferror(metrics);
}
