// `braid init`: the weights that a program started with the same seed trains from, as a file.
#include "ir/init.h"
#include "cli/command.h"
#include "cli/stop.h"
#include "frontend/frontend.h"
#include "frontend/safetensors_write.h"
#include "ir/pass.h"
#include <stdlib.h>
#include <string.h>

// A stored tensor as one of the weights sees it.
typedef struct part {
  const char *name;
  int weight;
  int64_t start; // the tensor's first element in the numbering of the weight's stored elements
} part;

typedef struct initial {
  const bd_module *module;
  uint64_t seed;
  int part_count, count;
  part *parts;               // by name, then weight
  bd_stored_tensor *tensors; // by name, each once
  int *first;                // of a tensor: its first part
} initial;

static int by_name(const void *a, const void *b) {
  const part *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order != 0 ? order : (x->weight > y->weight) - (x->weight < y->weight);
}

static void list_parts(bd_ctx *ctx, initial *out) {
  const bd_module *module = out->module;
  int64_t count = 0;
  for (int i = 0; i < module->weight_count; i++)
    count += bd_storage_count(&module->weights[i].storage);
  out->parts = BD_NEW_ARRAY(ctx->arena, part, count + 1);
  for (int i = 0; i < module->weight_count; i++) {
    const bd_storage *storage = &module->weights[i].storage;
    bd_type stored = bd_type_make(BD_F32, storage->rank, storage->dims);
    for (int64_t number = 0; number < bd_storage_count(storage); number++)
      out->parts[out->part_count++] =
          (part){bd_storage_name(ctx, storage, number), i, number * bd_type_elements(&stored, 1)};
  }
  qsort(out->parts, (size_t)out->part_count, sizeof *out->parts, by_name);
}

// The stored tensors that the weights are cut from or stacked of, each once.
static void list_tensors(bd_ctx *ctx, initial *out) {
  list_parts(ctx, out);
  out->tensors = BD_NEW_ARRAY(ctx->arena, bd_stored_tensor, out->part_count + 1);
  out->first = BD_NEW_ARRAY(ctx->arena, int, out->part_count + 1);
  for (int i = 0; i < out->part_count; i++) {
    const part *p = &out->parts[i];
    if (i > 0 && strcmp(p->name, p[-1].name) == 0) continue;
    const bd_storage *storage = &out->module->weights[p->weight].storage;
    bd_stored_tensor *tensor = &out->tensors[out->count];
    *tensor = (bd_stored_tensor){.name = p->name, .dtype = "F32", .rank = storage->rank};
    memcpy(tensor->dims, storage->dims, sizeof tensor->dims);
    out->first[out->count++] = i;
  }
}

// What stops braid meanwhile ends the writing.
static bool fill(void *user, int index, int64_t first, int64_t count, float *out) {
  const initial *job = user;
  int end = index + 1 < job->count ? job->first[index + 1] : job->part_count;
  if (bd_stop_came()) return false;
  memset(out, 0, (size_t)count * sizeof *out);
  for (int k = job->first[index]; k < end; k++) {
    const part *p = &job->parts[k];
    const bd_weight *weight = &job->module->weights[p->weight];
    for (int64_t i = 0; i < count; i++) {
      int64_t element = bd_storage_to_logical(&weight->storage, p->start + first + i);
      if (element >= 0) out[i] = bd_init_element(weight, p->weight, job->seed, element);
    }
  }
  return true;
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
  bd_stop_hold(NULL);
  bd_status status = bd_safetensors_write(ctx, path, job.count, job.tensors, fill, &job);
  int stopped_by = bd_stop_came();
  if (status != BD_OK && stopped_by)
    return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(path),
                   "writing was stopped by %s; nothing is written", bd_stop_word(stopped_by));
  return status;
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
    .writes = (const char *const[]){"-o", NULL},
    .details = "The weights are those that 'braid run --seed N' starts from.\n\n"
               "example: braid init gpt2-tiny --seed 1 -o start.safetensors\n",
    .run = run,
};
