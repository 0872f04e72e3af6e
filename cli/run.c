// `braid run`: starts the ranks of a compiled program.
#include "cli/command.h"
#include "cli/ranks.h"
#include "cli/stop.h"
#include "ir/base/file.h"
#include "ir/plan.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAN_LIMIT_BYTES ((size_t)64 << 20)
enum {
  FIRST_PROGRAM_CODE = 10,
  LAST_PROGRAM_CODE = 15,
  DEAD_RANK = 10,
  SIGNALLED = 128, // as mpirun and shells tell it
  LAST_SIGNAL = 64
};

static bd_status read_plan(bd_ctx *ctx, const char *folder, bd_plan *out_plan) {
  if (!bd_is_folder(folder))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(folder),
                   "is no folder; give the output folder of 'braid compile'");
  const char *path = bd_path_join(ctx, folder, "plan.json");
  char *data;
  size_t bytes;
  BD_TRY(bd_file_read(ctx, path, PLAN_LIMIT_BYTES, &data, &bytes));
  return bd_plan_parse(ctx, path, data, bytes, NULL, out_plan);
}

static bd_status find_program(bd_ctx *ctx, const char *folder, const char **out_path) {
  const char *program = bd_path_join(ctx, folder, "train");
  if (access(program, X_OK) != 0 || bd_is_folder(program))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(program),
                   "is no executable; 'make -C %s' or 'braid compile --emit exe' builds it",
                   folder);
  // mpirun looks for a name without a slash on PATH, and takes one with a dash for an option.
  char *absolute = realpath(program, NULL);
  *out_path = absolute ? bd_intern_z(ctx, absolute) : program;
  free(absolute);
  return BD_OK;
}

// The program has said why it ended with a status of its own; the others are explained here.
static bd_status pass_status_on(bd_ctx *ctx, const bd_process_end *end, bool by_mpirun,
                                int *out_code) {
  int code = end->exit_code;
  if (end->stopped_by) {
    *out_code = BD_EXIT_STOPPED + end->stopped_by;
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "stopped by %s", bd_stop_word(end->stopped_by));
  }
  bool own = code >= FIRST_PROGRAM_CODE && code <= LAST_PROGRAM_CODE;
  if (code == 0 || own || code == BD_EXIT_USAGE || code == bd_status_exit_code(BD_EXTERNAL) ||
      code == bd_status_exit_code(BD_INTERNAL)) {
    *out_code = code;
    return BD_OK;
  }
  if (code > SIGNALLED && code <= SIGNALLED + LAST_SIGNAL) {
    const char *who = by_mpirun ? "a rank" : bd_intern_f(ctx, "rank %d", end->rank);
    bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "%s was ended by signal %d", who, code - SIGNALLED);
    *out_code = DEAD_RANK;
    return BD_OK;
  }
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "%s ended with status %d",
                 by_mpirun ? "the program, or mpirun itself," : "the program", code);
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  bd_plan plan;
  bd_process_end end;
  BD_TRY(read_plan(ctx, arguments->operand, &plan));
  bd_ranks ranks = {.cuda = strcmp(plan.target, "cuda") == 0,
                    .count = bd_plan_ranks(&plan),
                    .argument_count = arguments->rest_count,
                    .arguments = arguments->rest};
  BD_TRY(find_program(ctx, arguments->operand, &ranks.program));
  fflush(stdout);
  BD_TRY(bd_ranks_run(ctx, &ranks, &end));
  return pass_status_on(ctx, &end, bd_ranks_by_mpirun(&ranks), arguments->exit_code);
}

static const bd_option options[] = {{0}};
const bd_command bd_command_run = {
    .name = "run",
    .summary = "train with a compiled program: starts its ranks on this machine",
    .operand = "OUT",
    .options = options,
    .writes = (const char *const[]){"--metrics", "--save", "--report", "--profile", NULL},
    .passes_on = true,
    .details =
        "OUT is the output folder of 'braid compile'. Options of the program:\n"
        "  --data FILE                   tokens (of nanoGPT, llm.c or Megatron), text read by "
        "bytes (.txt),\n"
        "                                or, for models without tokens, a safetensors file or a "
        "folder of\n"
        "                                .npy files: docs/data.md\n"
        "  --eval FILE                   held-out data: the loss on it is told before the first "
        "step, after\n"
        "                                the last one and\n"
        "  --eval-every N                every N steps (0: not), over\n"
        "  --eval-steps N                global batches of it (20, or as many as it has)\n"
        "  --tokenizer KIND              read both as bytes, u16 or u32, whatever their names\n"
        "  --steps N                     steps to train (10)\n"
        "  --seed N                      of initialization, sampling and dropout (1)\n"
        "  --init FILE                   start from these weights (safetensors, or a Hugging Face "
        "folder;\n"
        "                                names with or without a model's prefix: "
        "docs/architecture.md)\n"
        "  --save FILE                   write the weights at the end (safetensors; FOLDER/ for a "
        "folder\n"
        "                                with the files of --init's)\n"
        "  --checkpoint FOLDER           write checkpoints there, at the end and when told to "
        "stop; "
        "every\n"
        "  --checkpoint-every N          steps (0: not); the newest\n"
        "  --checkpoint-keep N           stay (2)\n"
        "  --resume FOLDER               go on from the newest checkpoint there: "
        "docs/checkpoints.md\n"
        "  --metrics FILE                write one JSON object per step and evaluation\n"
        "  --report FILE                 write bytes per rank as JSON\n"
        "  --profile FILE                write a trace of the last step and seconds per "
        "instruction as JSON\n"
        "  --tune FILE                   GPUs: algorithms of matrix products, read from this file "
        "or measured\n"
        "                                and written to it: docs/gpu.md\n"
        "  --lr X                        learning rate (3e-4)\n"
        "  --warmup N                    steps of linear warmup (0)\n"
        "  --min-lr X                    where the cosine after the warmup ends (no decay)\n"
        "  --weight-decay X              decoupled weight decay (0.1)\n"
        "  --beta1 X, --beta2 X, --eps X AdamW and Adam (0.9, 0.95, 1e-8)\n"
        "  --momentum X                  SGD with momentum (0.9)\n"
        "  --clip X                      bound of the gradient norm, 0 for none (1)\n"
        "  --loss-scale X                of fp16 programs; see docs/numerics.md (65536)\n"
        "  --tf32                        GPUs: f32 products in TF32\n"
        "  --any-order                   GPUs: attention's gradients add up in any order\n\n"
        "Programs for CPUs are started by mpirun, which wants 12 MiB for temporary files in\n"
        "TMPDIR, or /tmp.\n\n"
        "exit status: 0 done, 2 wrong usage, 4 MPI or a file failed, 10 a rank died, 11 the loss "
        "is\n"
        "not finite, 12 bad data, 13 wrong number of ranks, 14 wrong machine, 15 stopped "
        "with\n"
        "a checkpoint, by SIGUSR1 (passed on to the ranks); told to stop by another signal,\n"
        "which ends the ranks: 128 and its number (130 after Ctrl-C, 143 after SIGTERM)\n\n"
        "example: braid run out --steps 100 --data text.txt --metrics log.jsonl\n",
    .run = run,
};
