// Records a program for GPUs, rank after rank, and checks what it would do:
//   record [--steps N] [--print RANK] [--spoil WHAT] [--ways LIST] PROGRAM EXEC PLAN
// PROGRAM: main.c and stage*.c as a shared object. EXEC, PLAN: its exec module and its plan. Prints
// a summary, or with --print what one rank does; exits with 1 when something is wrong. LIST, by
// commas: apart (products do nothing besides), attention (the library's), alone (nothing beside),
// evaluates (before the first step and after each).
#include "ir/base/file.h"
#include "ir/plan.h"
#include "ir/print.h"
#include "tests/record/check.h"
#include "tests/record/recorder.h"
#include "tests/record/show.h"
#include "tests/record/spoil.h"
#include "tests/record/summary.h"
#include "tests/record/talk.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// What a program embeds as device code.
extern const char braid_device_code[], braid_device_code_end[], braid_architectures[];
const char braid_device_code[1] = "", braid_device_code_end[1] = "", braid_architectures[1] = "";

typedef int (*program_main)(int argc, char **argv);

typedef struct session {
  const char *program, *exec_file, *plan_file, *spoil;
  int steps, printed; // the rank to print, or -1
  record_ways ways;
  program_main main;
  bd_module *exec;
  bd_plan plan;
  record_world world;
  record_expectation *expectations; // by stage
  record_faults faults;
  record_talk *talk;
  record_summary *summary;
  const bd_rt *rt;
  record_check *check;
  record_next next;
  int phases; // of the rank so far
} session;

static void take_checked(void *args, const record_event *event) {
  session *const s = args;
  record_talk_take(s->talk, s->rt->rank, event);
  record_summary_take(s->summary, event);
  if (s->printed == s->rt->rank) record_show(stdout, s->rt, event);
}

static void enter_phase(void *args, int pass) {
  session *const s = args;
  const record_expectation *const e = &s->expectations[s->rt->stage_index];
  char name[32] = "end";
  if (pass == RECORD_CLEAR)
    snprintf(name, sizeof name, "clear");
  else if (pass != RECORD_END)
    snprintf(name, sizeof name, "%c%d", e->passes[pass].kind == BD_PASS_FORWARD ? 'F' : 'B',
             e->passes[pass].micro_batch);
  // Of the first step.
  if (s->phases++ < e->pass_count + 2) record_summary_phase(s->summary, name);
  if (s->printed == s->rt->rank) printf("%s\n", name);
}

static void begin_rank(void *args, const bd_rt *rt) {
  session *const s = args;
  s->rt = rt;
  s->phases = 0;
  record_summary_begin(s->summary, rt->rank, rt->stage->arena_bytes);
  s->check = record_check_begin(&s->expectations[rt->stage_index], rt, &s->faults, &s->next);
  if (s->check) return;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static void take_raw(void *args, record_event *event) {
  session *const s = args;
  record_check_take(s->check, event);
}

static void end_rank(void *args) {
  session *const s = args;
  record_check_end(s->check);
}

static int usage(void) {
  fprintf(
      stderr,
      "usage: record [--steps N] [--print RANK] [--spoil WHAT] [--ways LIST] PROGRAM EXEC PLAN\n");
  return 2;
}

// False: there is no such way.
static bool read_ways(record_ways *ways, char *list) {
  for (char *word = strtok(list, ","); word; word = strtok(NULL, ","))
    if (strcmp(word, "apart") == 0)
      ways->apart = true;
    else if (strcmp(word, "attention") == 0)
      ways->attention = true;
    else if (strcmp(word, "alone") == 0)
      ways->alone = true;
    else if (strcmp(word, "evaluates") == 0)
      ways->evaluates = true;
    else
      return false;
  return true;
}

static int parse(session *s, int argc, char **argv) {
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
    if (strcmp(argv[i], "--steps") == 0)
      s->steps = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--print") == 0)
      s->printed = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--spoil") == 0)
      s->spoil = argv[i + 1];
    else if (strcmp(argv[i], "--ways") != 0 || !read_ways(&s->ways, argv[i + 1]))
      return usage();
  }
  if (argc - i != 3) return usage();
  s->program = argv[i];
  s->exec_file = argv[i + 1];
  s->plan_file = argv[i + 2];
  return 0;
}

enum { LIMIT_BYTES = 256 << 20 };

BD_NODISCARD static bd_status read_files(bd_ctx *ctx, session *s) {
  char *data;
  size_t bytes;
  BD_TRY(bd_file_read(ctx, s->exec_file, LIMIT_BYTES, &data, &bytes));
  BD_TRY(bd_module_parse(ctx, s->exec_file, data, bytes, &s->exec));
  BD_TRY(bd_file_read(ctx, s->plan_file, LIMIT_BYTES, &data, &bytes));
  return bd_plan_parse(ctx, s->plan_file, data, bytes, NULL, &s->plan);
}

BD_NODISCARD static bd_status expect_all(bd_ctx *ctx, session *s) {
  const bd_module *const m = s->exec;
  s->world = (record_world){.stages = m->stages, .axes = m->mesh.axes};
  for (int a = 0; a < m->mesh.axes; a++)
    s->world.mesh[a] = m->mesh.size[a];
  s->expectations = BD_NEW_ARRAY(ctx->arena, record_expectation, m->stages);
  for (int stage = 0; stage < m->stages; stage++)
    BD_TRY(record_expect(ctx, m, s->plan.schedule, bd_plan_micro_batches(&s->plan), stage, &s->ways,
                         &s->expectations[stage]));
  return BD_OK;
}

static bool record_ranks(session *s) {
  record_sink sink = {begin_rank, take_raw, end_rank, s};
  const record_sink *told = &sink;
  record_spoil *const spoil = s->spoil ? record_spoil_create(s->spoil, &sink, &told) : NULL;
  bool done = !s->spoil || spoil;
  s->next = (record_next){take_checked, enter_phase, s};
  for (int rank = 0; done && rank < record_world_ranks(&s->world); rank++) {
    const int status = record_rank(s->main, rank, s->steps, &s->ways, told);
    if (status) record_fault(&s->faults, "rank %d ends with %d", rank, status);
    done = status == 0;
  }
  if (s->spoil && (!spoil || !record_spoil_done(spoil))) {
    fprintf(stderr, "nothing was spoiled: %s\n", s->spoil);
    done = false;
  }
  record_spoil_destroy(spoil);
  return done;
}

BD_NODISCARD static bd_status run(bd_ctx *ctx, void *arg) {
  session *const s = arg;
  BD_TRY(read_files(ctx, s));
  BD_TRY(expect_all(ctx, s));
  s->talk = record_talk_create(&s->world, !s->ways.alone);
  s->summary = record_summary_create(&s->world);
  const bool done = record_ranks(s);
  record_talk_check(s->talk, &s->faults);
  if (s->printed < 0 && !s->faults.count) record_summary_print(s->summary, stdout);
  record_talk_destroy(s->talk);
  record_summary_destroy(s->summary);
  return done ? BD_OK : bd_fail(ctx, BD_INTERNAL, BD_NOWHERE, "the record is not whole");
}

static program_main open_program(const char *path) {
  void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *const symbol = library ? dlsym(library, "main") : NULL;
  program_main main_of_program = NULL;
  if (symbol)
    memcpy(&main_of_program, &symbol, sizeof symbol);
  else
    fprintf(stderr, "%s\n", dlerror());
  return main_of_program;
}

int main(int argc, char **argv) {
  session s = {.steps = 1, .printed = -1};
  const int status = parse(&s, argc, argv);
  if (status) return status;
  bd_ctx *const ctx = bd_ctx_create();
  s.main = open_program(s.program);
  if (!ctx || !s.main) return 1;
  const bd_status done = bd_ctx_run(ctx, run, &s);
  bd_diags_print(ctx, stderr, false);
  bd_ctx_destroy(ctx);
  if (s.faults.count) printf("%d faults\n", s.faults.count);
  return done != BD_OK || s.faults.count > 0;
}
