#include "runtime/profile.h"

#include "runtime/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIELDS = 3 }; // of an instruction: calls, nanoseconds of all, nanoseconds of the shortest

struct bd_rt_profile {
  int on, current;
  int64_t since, *rows; // [instruction][FIELDS]
};

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int bd_rt_profile_open(bd_rt *rt) {
  if (!rt->options.profile) return 0;
  rt->profile = calloc(1, sizeof *rt->profile);
  if (rt->profile)
    rt->profile->rows =
        calloc((size_t)rt->program->instruction_count * FIELDS, sizeof *rt->profile->rows);
  const int good = rt->profile && rt->profile->rows;
  return bd_rt_agree(rt, good ? 0 : BD_RT_EXIT_EXTERNAL, "out of memory");
}

void bd_rt_profile_close(bd_rt *rt) {
  if (rt->profile) free(rt->profile->rows);
  free(rt->profile);
  rt->profile = NULL;
}

void bd_rt_profile_start(bd_rt *rt) {
  bd_rt_profile *const p = rt->profile;
  if (!p || (rt->step == 0 && rt->options.steps > 1)) return;
  p->on = 1;
  p->current = BD_RT_MARK_OTHER;
  p->since = nanoseconds();
}

void bd_rt_mark(bd_rt *rt, int instruction) {
  bd_rt_profile *const p = rt->profile;
  if (!p || !p->on) return;
  bd_rt_settle(rt);
  const int64_t now = nanoseconds(), passed = now - p->since;
  int64_t *const row = p->rows + (size_t)p->current * FIELDS;
  row[2] = row[0] == 0 || passed < row[2] ? passed : row[2];
  row[0]++;
  row[1] += passed;
  p->current = instruction;
  p->since = now;
}

void bd_rt_profile_stop(bd_rt *rt) {
  bd_rt_mark(rt, BD_RT_MARK_OTHER);
  if (rt->profile) rt->profile->on = 0;
}

static void write_rank(const bd_rt_program *program, int rank, const int64_t *rows, FILE *file) {
  const int devices = program->mesh[0] * program->mesh[1] * program->mesh[2] * program->mesh[3];
  fprintf(file, "%s\n  {\"rank\": %d, \"stage\": %d, \"times\": [", rank ? "," : "", rank,
          rank / devices);
  const char *comma = "";
  for (int i = 0; i < program->instruction_count; i++) {
    const int64_t *const row = rows + (size_t)i * FIELDS;
    if (row[0] == 0) continue;
    fprintf(file, "%s\n    [%d, %lld, %.9f, %.9f]", comma, i, (long long)row[0],
            1e-9 * (double)row[1], 1e-9 * (double)row[2]);
    comma = ",";
  }
  fputs("]}", file);
}

static int write_file(const bd_rt *rt, const char *path, const int64_t *rows) {
  FILE *const file = fopen(path, "w");
  if (!file) return 1;
  const bd_rt_program *const program = rt->program;
  const long long steps = rt->options.steps > 1 ? (long long)rt->options.steps - 1 : 1;
  fprintf(file, "{\"braid_profile\": 1, \"steps\": %lld, \"instructions\": [", steps);
  for (int i = 0; i < program->instruction_count; i++) {
    const bd_rt_instruction *const at = &program->instructions[i];
    fprintf(file, "%s\n  {\"function\": %d, \"step\": %d, \"what\": \"%s\"}", i ? "," : "",
            at->function, at->step, at->what);
  }
  fputs("], \"ranks\": [", file);
  for (int rank = 0; rank < rt->ranks; rank++)
    write_rank(program, rank, rows + (size_t)rank * (size_t)program->instruction_count * FIELDS,
               file);
  fputs("]}\n", file);
  const int bad = ferror(file);
  return fclose(file) || bad;
}

int bd_rt_profile_write(bd_rt *rt, const char *path) {
  const size_t fields = (size_t)rt->program->instruction_count * FIELDS;
  int64_t *const rows = malloc((size_t)rt->ranks * fields * sizeof *rows);
  char message[1024] = "";
  int status = 0;
  if (!rows) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  bd_rt_gather_rows(rt, rt->profile->rows, (int)fields, rows);
  if (rt->rank == 0 && write_file(rt, path, rows)) {
    snprintf(message, sizeof message, "%s: %s", path, strerror(errno));
    status = BD_RT_EXIT_EXTERNAL;
  }
  free(rows);
  return bd_rt_agree(rt, status, message);
}
