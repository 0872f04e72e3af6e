// The `braid` command: picks the subcommand, prints its diagnostics, gives the exit status.
#include "cli/outputs.h"
#include "cli/stop.h"
#include "ir/base/suggest.h"
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const bd_command *const commands[] = {
    &bd_command_compile, &bd_command_run,     &bd_command_explain, &bd_command_opt,
    &bd_command_init,    &bd_command_presets, &bd_command_solve,   &bd_command_simulate,
    &bd_command_diff,    &bd_command_probe,   &bd_command_tune,    &bd_command_import,
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_help(FILE *stream) {
  fprintf(stream, "braid: compiles a model and a cluster description to a multi-device training "
                  "program\n\nusage: braid COMMAND [options]\n\ncommands:\n");
  for (int i = 0; i < COMMAND_COUNT; i++)
    fprintf(stream, "  %-10s%s\n", commands[i]->name, commands[i]->summary);
  fprintf(stream,
          "\n'braid COMMAND --help' tells more. 'braid --version' prints the version.\n\n"
          "exit status: 0 done, 1 bad input, 2 wrong usage, 3 no plan fits, 4 an external "
          "tool or library\nfailed, 5 an internal error or out of memory, 130 Ctrl-C (128 and the "
          "number of the signal);\n'braid run' also gives the codes of the trained program: 10 a "
          "rank died, 11 the loss is not\nfinite, 12 bad data, 13 wrong number of ranks, 14 wrong "
          "machine.\n");
}

static const bd_command *find_command(const char *name) {
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
  return NULL;
}

static int unknown_command(const char *name) {
  const char *names[COMMAND_COUNT + 1] = {0};
  for (int i = 0; i < COMMAND_COUNT; i++)
    names[i] = commands[i]->name;
  const char *near = bd_suggest(name, names);
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return bd_status_exit_code(BD_EXHAUSTED);
  if (near)
    bd_fail(ctx, BD_INVALID, BD_NOWHERE, "unknown command '%s'; did you mean '%s'?", name, near);
  else
    bd_fail(ctx, BD_INVALID, BD_NOWHERE, "unknown command '%s'; 'braid --help' lists them", name);
  bd_diags_print(ctx, stderr, false);
  bd_ctx_destroy(ctx);
  return BD_EXIT_USAGE;
}

typedef struct invocation {
  const bd_command *command;
  int argc;
  char **argv;
  int exit_code; // of a wrong usage, or of a program that the command ran; 0: by the status
} invocation;

static bd_status run_command(bd_ctx *ctx, void *arg) {
  invocation *call = arg;
  bd_arguments arguments;
  arguments.exit_code = &call->exit_code;
  BD_TRY(bd_arguments_read(ctx, call->command, call->argc, call->argv, &arguments));
  BD_TRY(bd_outputs_check(ctx, &arguments));
  return call->command->run(ctx, &arguments);
}

static bool wants_color(void) {
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  return !(no_color && *no_color) && term && strcmp(term, "dumb") && isatty(STDERR_FILENO);
}

// A search opens and closes arenas all the time. What they free stays with the process, which would
// else give it back and clear it anew for the next one.
static void keep_freed_memory(void) {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

// What does not fit in the stream's buffer is written before the end, and its error would go
// unseen.
static bool lost_output(void) {
  return fflush(stdout) != 0 || ferror(stdout);
}

static bd_status refuse_lost(bd_ctx *ctx) {
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "cannot write to standard output");
}

// The exit status after a help.
static int end_help(void) {
  if (!lost_output()) return 0;
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return bd_status_exit_code(BD_EXHAUSTED);
  int code = bd_status_exit_code(refuse_lost(ctx));
  bd_diags_print(ctx, stderr, wants_color());
  bd_ctx_destroy(ctx);
  return code;
}

int main(int argc, char **argv) {
  keep_freed_memory();
  bd_stop_watch();
  signal(SIGXFSZ, SIG_IGN); // a file that may not grow on is told by who writes it
  if (argc < 2) {
    print_help(stderr);
    return BD_EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_help(stdout);
    return end_help();
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("braid %s\n", BRAID_VERSION);
    return end_help();
  }
  invocation call = {.command = find_command(argv[1]), .argc = argc, .argv = argv};
  if (!call.command) return unknown_command(argv[1]);
  for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      bd_command_help(call.command, stdout);
      return end_help();
    }
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return bd_status_exit_code(BD_EXHAUSTED);
  bd_status status = bd_ctx_run(ctx, run_command, &call);
  int code = call.exit_code ? call.exit_code : bd_status_exit_code(status);
  int stopped_by = status == BD_OK ? 0 : bd_stop_came();
  if (stopped_by) code = BD_EXIT_STOPPED + stopped_by;
  if (lost_output() && status == BD_OK) code = bd_status_exit_code(refuse_lost(ctx));
  bd_diags_print(ctx, stderr, wants_color());
  bd_ctx_destroy(ctx);
  return code;
}
