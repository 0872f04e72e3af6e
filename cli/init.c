// `braid init`: the weights that a program started with the same seed trains from, as a file.
#include "ir/init.h"
#include "cli/command.h"
#include "frontend/frontend.h"
#include "frontend/safetensors_write.h"
#include "ir/pass.h"
#include <stdlib.h>
#include <string.h>

typedef struct initial {
  const bd_module *module;
  uint64_t seed;
  int count;
  bd_stored_tensor *tensors; // by name
} initial;

static int by_name(const void *a, const void *b) {
  return strcmp(((const bd_stored_tensor *)a)->name, ((const bd_stored_tensor *)b)->name);
}

// The stored tensors that the weights are cut from, each once.
static void list_tensors(bd_ctx *ctx, initial *out) {
  const bd_module *module = out->module;
  bd_stored_tensor *all = BD_NEW_ARRAY(ctx->arena, bd_stored_tensor, module->weight_count + 1);
  for (int i = 0; i < module->weight_count; i++) {
    const bd_storage *storage = &module->weights[i].storage;
    all[i] = (bd_stored_tensor){.name = storage->name, .dtype = "F32", .rank = storage->rank};
    memcpy(all[i].dims, storage->dims, sizeof all[i].dims);
  }
  qsort(all, (size_t)module->weight_count, sizeof *all, by_name);
  out->tensors = all;
  for (int i = 0; i < module->weight_count; i++)
    if (i == 0 || by_name(&all[i], &all[out->count - 1])) all[out->count++] = all[i];
}

static void fill(void *user, int index, int64_t first, int64_t count, float *out) {
  const initial *job = user;
  memset(out, 0, (size_t)count * sizeof *out);
  for (int w = 0; w < job->module->weight_count; w++) {
    const bd_weight *weight = &job->module->weights[w];
    if (strcmp(weight->storage.name, job->tensors[index].name)) continue;
    for (int64_t i = 0; i < count; i++) {
      int64_t element = bd_storage_to_logical(&weight->storage, first + i);
      if (element >= 0) out[i] = bd_init_element(weight, w, job->seed, element);
    }
  }
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  const char *path = bd_argument(arguments, "-o");
  bd_model_options model = {0};
  bd_module *graph;
  int64_t seed = 1;
  if (!path) return bd_usage_fail(ctx, arguments, "-o FILE is missing; see 'braid init --help'");
  BD_TRY(bd_argument_int(ctx, arguments, "--seed", 0, INT64_MAX, &seed));
  BD_TRY(bd_argument_int(ctx, arguments, "--seq", 1, 1 << 24, &model.sequence));
  BD_TRY(bd_model_load(ctx, arguments->operand, &model, &graph));
  // As 'braid compile' does: the numbers of the weights are part of the random numbers' key.
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce", NULL, stderr, graph, &graph));
  initial job = {.module = graph, .seed = (uint64_t)seed};
  list_tensors(ctx, &job);
  return bd_safetensors_write(ctx, path, job.count, job.tensors, fill, &job);
}

static const bd_option options[] = {
    {"--seed", "N", "of the random numbers (default 1, as of the programs)"},
    {"--seq", "N", "tokens per sample (default: the model's maximum)"},
    {"-o", "FILE", "the safetensors file to write (needed)"},
    {0},
};
const bd_command bd_command_init = {
    .name = "init",
    .summary = "write a model's initial weights",
    .operand = "MODEL",
    .needs = "-o FILE",
    .options = options,
    .details = "The weights are those that 'braid run --seed N' starts from.\n\n"
               "example: braid init gpt2-tiny --seed 1 -o start.safetensors\n",
    .run = run,
};
