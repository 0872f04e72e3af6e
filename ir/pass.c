#include "ir/pass.h"

#include "ir/base/suggest.h"
#include "ir/passes/stages.h"
#include <string.h>

static const bd_pass passes[] = {
#define BD_PASS(NAME, spelling, before, after, summary)                                            \
  {spelling, before, after, summary, bd_pass_##NAME},
#include "ir/passes.def"
#undef BD_PASS
};
enum { PASS_COUNT = sizeof passes / sizeof *passes };

const bd_pass *bd_pass_find(const char *name) {
  for (int i = 0; i < PASS_COUNT; ++i)
    if (strcmp(passes[i].name, name) == 0) return &passes[i];
  return NULL;
}

// Of CPUs and of GPUs, whose kernels wait for memory and have their images' channels last.
typedef struct pass_lists {
  const char *cpu, *cuda;
} pass_lists;
#define TRAINING(rest)                                                                             \
  { "autodiff" rest, "channels-last,autodiff" rest ",rematerialize" }

static pass_lists bf16_passes(bd_masters masters, bd_gradients gradients) {
  static const pass_lists wide = TRAINING(",precision");
  static const pass_lists rounded = TRAINING(",precision,no-masters");
  static const pass_lists narrow = TRAINING(",precision,no-masters,narrow-gradients");
  if (masters == BD_MASTERS_F32) return wide;
  return gradients == BD_GRADIENTS_BF16 ? narrow : rounded;
}

static pass_lists passes_of(bd_dtype precision, bd_masters masters, bd_gradients gradients) {
  static const pass_lists f32 = TRAINING(""), f16 = TRAINING(",precision-f16");
  static const pass_lists f8 = TRAINING(",precision,fp8");
  switch (precision) {
  case BD_BF16:
    return bf16_passes(masters, gradients);
  case BD_F16:
    return f16;
  case BD_F8:
    return f8;
  default:
    return f32;
  }
}

const char *bd_training_passes(bd_dtype precision, bd_masters masters, bd_gradients gradients,
                               const char *target) {
  pass_lists lists = passes_of(precision, masters, gradients);
  return strcmp(target, "cuda") == 0 ? lists.cuda : lists.cpu;
}

const char *bd_pass_names(bd_ctx *ctx) {
  const char *list = passes[0].name;
  for (int i = 1; i < PASS_COUNT; ++i)
    list = bd_intern_f(ctx, "%s, %s", list, passes[i].name);
  return list;
}

static bd_status unknown_pass(bd_ctx *ctx, const char *name) {
  const char *names[PASS_COUNT + 1] = {0};
  for (int i = 0; i < PASS_COUNT; ++i)
    names[i] = passes[i].name;
  const char *near = bd_suggest(name, names);
  if (near)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "there is no pass '%s'; did you mean '%s'?", name,
                   near);
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "there is no pass '%s'; the passes are %s", name,
                 bd_pass_names(ctx));
}

static void print_module(bd_ctx *ctx, const bd_pass *pass, const bd_module *module, FILE *stream) {
  bd_text text = bd_text_init(ctx->arena);
  bd_text_addf(&text, "// after %s\n", pass->name);
  bd_module_print(module, &text);
  fwrite(text.data, 1, text.length, stream);
}

static bd_status run_pass(bd_ctx *ctx, const bd_pass *pass, const char *print_after, FILE *stream,
                          const bd_module *in, bd_module **out_module) {
  if (in->stage != pass->before)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "the pass %s takes a %s module, found %s",
                   pass->name, bd_stage_name(pass->before), bd_stage_name(in->stage));
  BD_TRY(pass->run(ctx, in, out_module));
  if (print_after && (strcmp(print_after, "all") == 0 || strcmp(print_after, pass->name) == 0))
    print_module(ctx, pass, *out_module, stream);
  if (bd_module_verify(ctx, *out_module) != BD_OK || (*out_module)->stage != pass->after) {
    bd_note(ctx, BD_NOWHERE, "the pass %s made an invalid module", pass->name);
    return BD_INTERNAL;
  }
  return BD_OK;
}

bd_status bd_pass_check_list(bd_ctx *ctx, const char *names, const char *print_after) {
  while (*names) {
    size_t length = strcspn(names, ",");
    const char *name = bd_intern(ctx, names, length);
    if (!bd_pass_find(name)) return unknown_pass(ctx, name);
    names += length + (names[length] == ',');
  }
  if (!print_after || strcmp(print_after, "all") == 0 || bd_pass_find(print_after)) return BD_OK;
  return unknown_pass(ctx, print_after);
}

// Runs the passes that `names` lists, one after another.
static bd_status run_names(bd_ctx *ctx, const char *names, const char *print_after, FILE *stream,
                           bd_stages *stages, const bd_module **module) {
  while (*names) {
    size_t length = strcspn(names, ",");
    const char *name = bd_intern(ctx, names, length);
    bd_module *made;
    BD_TRY(run_pass(ctx, bd_pass_find(name), print_after, stream, *module, &made));
    *module = bd_stages_keep(stages, made);
    names += length + (names[length] == ',');
  }
  return BD_OK;
}

bd_status bd_pass_run_list(bd_ctx *ctx, const char *names, const char *print_after, FILE *stream,
                           const bd_module *in, bd_module **out_module) {
  bd_stages stages;
  BD_TRY(bd_pass_check_list(ctx, names, print_after));
  bd_stages_begin(ctx, &stages);
  bd_status status = run_names(ctx, names, print_after, stream, &stages, &in);
  bd_module *made = bd_stages_end(&stages, status == BD_OK ? in : NULL);
  if (status == BD_OK) *out_module = made;
  return status;
}
