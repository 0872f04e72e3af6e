// A program that is tried: built for a plan, trained for a few steps, and its profile read.
#ifndef BD_CLI_TRIAL_H
#define BD_CLI_TRIAL_H
#include "cli/build.h"
#include "cli/process.h"
#include "ir/partition.h"
#include "planner/cost/fit.h"

typedef struct bd_trial {
  bd_plan plan;
  bd_module *spmd, *exec;
  const char *folder; // of the program
} bd_trial;

// Lowers the plan and builds it as bd_build_folder does. Errors: those of that.
BD_NODISCARD bd_status bd_trial_build(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                                      const bd_build_options *build, const char *folder,
                                      bd_trial *out_trial);

// A short training run. Files are absolute paths, or lie where braid was started.
typedef struct bd_training {
  const char *data, *tokenizer; // as of `braid run`; tokenizer NULL: by the data's name
  const char *launcher;         // as of bd_ranks
  int64_t steps;
  // What it writes, in the program's folder; NULL: not.
  const char *metrics, *profile, *products;
} bd_training;

// Trains with a learning rate of 0, so that any data will do, for any number of steps. What the
// ranks say is added to `log` in the folder.
BD_NODISCARD bd_status bd_trial_train(bd_ctx *ctx, const bd_trial *trial,
                                      const bd_training *training, bd_process_end *out_end);

// Writes tokens for it, below `vocabulary`, enough for samples of `sequence` of them: what is
// measured depends on neither.
#define BD_TRIAL_TOKENIZER "u16"
BD_NODISCARD bd_status bd_trial_write_tokens(bd_ctx *ctx, const char *path, int64_t vocabulary,
                                             int64_t sequence);

// Adds the rows of a profile of it, of the first rank of each stage, which live in ctx->session and
// point into the program; those that tell of no seconds, or of what it has not, are left out.
// Errors: BD_EXTERNAL or BD_INVALID where the file is no profile.
BD_NODISCARD bd_status bd_trial_read_profile(bd_ctx *ctx, const bd_trial *trial,
                                             const bd_cluster *cluster, const char *path,
                                             bd_fit_rows *rows);
// Adds rows that live in the session of another context.
void bd_trial_add_rows(bd_ctx *ctx, const bd_fit_rows *of, bd_fit_rows *rows);
#endif
