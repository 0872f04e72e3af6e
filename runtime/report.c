#include "runtime/report.h"

#include "runtime/backend.h"

#include <errno.h>
#include <stdio.h>
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
