#include "runtime/report.h"

#include "runtime/backend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Of a rank's row.
enum {
  STAGE,
  ARENA,
  ALLOCATED,
  UNIT,
  PEAK_RSS,
  DEVICE_USED,
  FREE,
  SEGMENTS = FREE + BD_RT_MEMORY_MOMENTS,
  FIELDS = SEGMENTS + BD_RT_SEGMENTS
};

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
  const int tty = isatty(STDERR_FILENO), last = (int64_t)rt->step + 1 == rt->options.steps;
  const double utilization = mfu(rt, measure->step_seconds);
  char share[32] = "", line[256];
  if (utilization > 0) snprintf(share, sizeof share, "  MFU %.1f%%", 100 * utilization);
  snprintf(line, sizeof line, "%sstep %lld/%lld  loss %.4f  %.0f %s/s%s  %ldm%02lds left%s%s",
           tty ? "\r\033[K" : "", (long long)rt->step + 1, (long long)rt->options.steps,
           measure->loss, tokens_per_second(rt, measure->step_seconds),
           rt->program->vocabulary ? "tokens" : "targets", share, left / 60, left % 60,
           measure->skipped ? "  skipped: overflow" : "", tty && !last ? "" : "\n");
  // In one piece: what others say when this process is killed begins a line of its own.
  fputs(line, stderr);
  fflush(stderr);
}

// JSON has no number for what is not finite.
static void write_number(FILE *file, const char *name, double value) {
  if (isfinite(value))
    fprintf(file, "\"%s\": %.9g, ", name, value);
  else
    fprintf(file, "\"%s\": null, ", name);
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
  fprintf(metrics, "{\"step\": %lld, ", (long long)rt->step + 1);
  write_number(metrics, "loss", measure->loss);
  write_number(metrics, "grad_norm", measure->norm);
  fprintf(metrics, "\"tokens_per_second\": %.6g, \"step_seconds\": %.6g",
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

void bd_rt_report_note(bd_rt *rt, int moment) {
  bd_rt_memory memory;
  if (!rt->options.report) return;
  for (int m = moment; m < BD_RT_MEMORY_MOMENTS; m++)
    rt->free_bytes[m] = -1;
  bd_rt_agree(rt, 0, ""); // ranks that share a device have all come so far
  if (bd_rt_look_at_memory(rt, &memory)) rt->free_bytes[moment] = memory.free_bytes;
}

static void write_known(FILE *file, const char *before, int64_t bytes) {
  if (bytes >= 0)
    fprintf(file, "%s%lld", before, (long long)bytes);
  else
    fprintf(file, "%snull", before);
}

// What only devices with a driver of their own tell.
static void write_device(FILE *file, const int64_t *row) {
  if (row[ALLOCATED] >= 0)
    fprintf(file, ", \"allocated_bytes\": %lld, \"allocation_unit_bytes\": %lld",
            (long long)row[ALLOCATED], (long long)row[UNIT]);
  if (row[FREE] >= 0) {
    for (int m = 0; m < BD_RT_MEMORY_MOMENTS; m++)
      write_known(file, m ? ", " : ", \"device_free_bytes\": [", row[FREE + m]);
    fputs("]", file);
  }
  if (row[DEVICE_USED] >= 0)
    fprintf(file, ", \"device_used_bytes\": %lld", (long long)row[DEVICE_USED]);
}

static int write_report(const bd_rt *rt, const char *path, const int64_t *rows) {
  FILE *const file = fopen(path, "w");
  if (!file) return 1;
  fputs("{\"ranks\": [", file);
  for (int r = 0; r < rt->ranks; r++) {
    const int64_t *const row = rows + r * FIELDS;
    fprintf(file, "%s\n  {\"rank\": %d, \"stage\": %lld, \"arena_bytes\": %lld, \"segments\": [",
            r ? "," : "", r, (long long)row[STAGE], (long long)row[ARENA]);
    for (int s = 0; s < BD_RT_SEGMENTS; s++)
      fprintf(file, "%s%lld", s ? ", " : "", (long long)row[SEGMENTS + s]);
    fprintf(file, "], \"peak_rss_bytes\": %lld", (long long)row[PEAK_RSS]);
    write_device(file, row);
    fputs("}", file);
  }
  fputs("\n]}\n", file);
  const int bad = ferror(file);
  return fclose(file) || bad;
}

int bd_rt_report_write(bd_rt *rt, const char *path) {
  int64_t row[FIELDS], *rows = bd_rt_allocate((size_t)rt->ranks, sizeof row);
  char message[1024] = "";
  struct rusage usage;
  bd_rt_sensors sensors;
  bd_rt_memory memory = {.arena_bytes = -1};
  bd_rt_look_at_memory(rt, &memory);
  getrusage(RUSAGE_SELF, &usage);
  row[STAGE] = rt->stage_index;
  row[ARENA] = rt->stage->arena_bytes;
  row[ALLOCATED] = memory.arena_bytes;
  row[UNIT] = memory.unit_bytes;
  row[PEAK_RSS] = (int64_t)usage.ru_maxrss * 1024;
  row[DEVICE_USED] = bd_rt_sense(rt, &sensors) ? sensors.memory_used_bytes : -1;
  memcpy(row + FREE, rt->free_bytes, sizeof rt->free_bytes);
  memcpy(row + SEGMENTS, rt->stage->segment_bytes, sizeof rt->stage->segment_bytes);
  bd_rt_gather_rows(rt, row, FIELDS, rows);
  int status = 0;
  if (rt->rank == 0 && write_report(rt, path, rows)) {
    snprintf(message, sizeof message, "%s: %s", path, strerror(errno));
    status = BD_RT_EXIT_EXTERNAL;
  }
  free(rows);
  return bd_rt_agree(rt, status, message);
}
