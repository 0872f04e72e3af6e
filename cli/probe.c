// `braid probe`: measures this machine and writes its cluster file.
#include "cli/probe.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/folder.h"
#include "cli/machine.h"
#include "cli/stop.h"
#include "cli/temporary.h"
#include "ir/base/file.h"
#include <math.h>

static const struct {
  const char *name;
  int64_t sequence;
} models[] = {{"gpt2-mini", 64}, {"llama-mini", 64}, {"gpt2-tiny", 32}, {"llama-tiny", 32}};
enum { MODEL_COUNT = sizeof models / sizeof *models };

static void remove_folder(void *path) {
  bd_folder_remove(path);
}

static bd_status measure(bd_ctx *ctx, const bd_cluster *cluster, const char *folder,
                         bd_fit_rows *rows) {
  static const char *const cuts[] = {"parts of ops", "samples", "stages"};
  int devices = bd_cluster_devices(cluster), last = devices > 1 ? BD_PROBE_STAGES : BD_PROBE_PARTS;
  for (int m = 0; m < MODEL_COUNT; m++)
    for (int cut = 0; cut <= last; cut++) {
      bd_probe_case what = {models[m].name, models[m].sequence, (bd_probe_cut)cut};
      const char *out = bd_path_join(ctx, folder, bd_intern_f(ctx, "%s-%d", what.model, cut));
      if (devices > 1)
        fprintf(stderr, "measuring %s, %s on %d ranks\n", what.model, cuts[cut], devices);
      else
        fprintf(stderr, "measuring %s\n", what.model);
      BD_TRY(bd_probe_program(ctx, cluster, &what, out, rows));
    }
  return BD_OK;
}

static bd_status measure_in(bd_ctx *ctx, const bd_cluster *cluster, const char *folder,
                            bd_cluster *out) {
  bd_fit_rows rows = {.least_seconds = INFINITY};
  BD_TRY(measure(ctx, cluster, folder, &rows));
  return bd_fit_rates(ctx, &rows, cluster, out);
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  const char *path = bd_argument(arguments, "-o");
  int64_t devices = 1, threads = 0;
  bd_cluster nominal, measured;
  BD_TRY(bd_argument_int(ctx, arguments, "--devices", 1, 4, &devices));
  BD_TRY(bd_argument_int(ctx, arguments, "--threads", 1, 256, &threads));
  if (path) BD_TRY(bd_answer_check_place(ctx, path));
  BD_TRY(bd_machine_probe(ctx, (int)devices, &nominal));
  if (threads) nominal.threads_per_device = (int)threads;
  const char *folder;
  bd_stop_hold(NULL);
  BD_TRY(bd_temporary_make(ctx, "probe", &folder));
  bd_owned held;
  bd_own(ctx, &held, remove_folder, (char *)folder);
  bd_status status = measure_in(ctx, &nominal, folder, &measured);
  bd_disown(ctx, &held);
  bd_folder_remove(folder);
  BD_TRY(status);
  bd_text text = bd_text_init(ctx->arena);
  bd_cluster_print(&measured, &text);
  return bd_answer_write(ctx, &text, path);
}

static const bd_option options[] = {
    {"--devices", "N", "ranks that will share this machine, 1 to 4 (default 1)"},
    {"--threads", "N", "of each rank (default: an even share of the cores)"},
    {"-o", "FILE", "the cluster file (default: standard output)"},
    {0},
};

const bd_command bd_command_probe = {
    .name = "probe",
    .summary = "measure this machine and write its cluster file",
    .options = options,
    .writes = (const char *const[]){"-o", NULL},
    .details = "Builds small programs, trains them for a few steps, and fits the rates of "
               "docs/costs.md to what "
               "their\ninstructions took. Plans for the file predict what programs take here; "
               "measure while the "
               "machine\nis quiet.\n\nexample: braid probe --devices 2 -o here.json && braid "
               "compile gpt2-mini "
               "--cluster here.json --global-batch 8 -o out\n",
    .run = run,
};
