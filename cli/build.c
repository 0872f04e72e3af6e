#include "cli/build.h"
#include "cli/build_log.h"
#include "cli/cuda_toolkit.h"
#include "cli/folder.h"
#include "cli/process.h"
#include "cli/runtime_folder.h"
#include "cli/stop.h"
#include "codegen/evaluation.h"
#include "ir/base/file.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOG_LIMIT_BYTES ((size_t)16 << 20)

static bd_status copy_runtime(bd_ctx *ctx, const char *backend, const char *folder) {
  static const char *const endings[] = {".c", ".h", ".def", ".mk", ".cu", ".cuh", NULL};
  const char *const parts[] = {"checkpoint", backend};
  const char *from, *to = bd_path_join(ctx, folder, "runtime");
  BD_TRY(bd_runtime_folder(ctx, &from));
  BD_TRY(bd_folder_copy(ctx, from, to, endings));
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    BD_TRY(bd_folder_copy(ctx, bd_path_join(ctx, from, parts[i]), bd_path_join(ctx, to, parts[i]),
                          endings));
  return BD_OK;
}

// What was going on when the stop came, and what it leaves.
static bd_status stopped(bd_ctx *ctx, const char *what, const char *left) {
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "%s was stopped by %s%s", what,
                 bd_stop_word(bd_stop_came()), left);
}

#define NOTHING_LEFT "; nothing is written"

static bd_status run_make(bd_ctx *ctx, const char *backend, const char *program, const char *folder,
                          const char *left) {
  const char *log = bd_path_join(ctx, folder, "build.log"), *toolkit = NULL;
  if (strcmp(backend, "cuda") == 0) BD_TRY(bd_cuda_toolkit_find(ctx, &toolkit));
  const char *setting = toolkit ? bd_intern_f(ctx, "CUDA_HOME=%s", toolkit) : NULL;
  char *argv[] = {"make",          "-s", "-j2", "-C", (char *)folder, (char *)program,
                  (char *)setting, NULL};
  char *data;
  size_t bytes;
  bd_process_end end;
  BD_TRY(bd_process_run(ctx, argv, log, &end));
  if (end.stopped_by) return stopped(ctx, "building the program", left);
  if (end.exit_code == 0) return BD_OK;
  BD_TRY(bd_file_read(ctx, log, LOG_LIMIT_BYTES, &data, &bytes));
  bd_build_failure failure = bd_build_log_read(ctx, data, bytes);
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "building the program failed in %s: %s%s%s",
                 failure.tool, failure.line, failure.hint ? "; " : "",
                 failure.hint ? failure.hint : "");
}

static bd_status take_folder(bd_ctx *ctx, const char *from, const char *to, const char *name) {
  const char *old = bd_path_join(ctx, from, name);
  if (rename(old, bd_path_join(ctx, to, name)) == 0) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(old), "cannot be moved: %s", strerror(errno));
}

static bd_status take_runtime(bd_ctx *ctx, const char *earlier, const char *folder) {
  BD_TRY(bd_folder_make(ctx, bd_path_join(ctx, folder, "build")));
  BD_TRY(take_folder(ctx, earlier, folder, "runtime"));
  return take_folder(ctx, earlier, folder, "build/runtime");
}

static bd_status fill(bd_ctx *ctx, const bd_module *train, const bd_module *exec,
                      const bd_plan *plan, const bd_build_options *build, const char *folder) {
  bd_emit_extra *extras = BD_NEW_ARRAY(ctx->arena, bd_emit_extra, build->file_count);
  for (int i = 0; i < build->file_count; i++)
    extras[i] = build->files[i].listed;
  BD_TRY(bd_emit(ctx, exec, plan, build->file_count, extras, folder));
  bd_text text = bd_text_init(ctx->arena);
  bd_plan_print(plan, train, &text);
  BD_TRY(bd_file_write(ctx, bd_path_join(ctx, folder, "plan.json"), text.data, text.length));
  for (int i = 0; i < build->file_count; i++)
    BD_TRY(bd_file_write(ctx, bd_path_join(ctx, folder, build->files[i].listed.name),
                         build->files[i].text->data, build->files[i].text->length));
  if (build->earlier) return take_runtime(ctx, build->earlier, folder);
  return copy_runtime(ctx, plan->target, folder);
}

static void remove_folder(void *path) {
  bd_folder_remove(path);
}

bd_status bd_build_folder(bd_ctx *ctx, const bd_module *train, const bd_module *exec,
                          const bd_plan *plan, const bd_build_options *build, const char *out) {
  const char *partial;
  BD_TRY(bd_folder_begin(ctx, out, &partial));
  bd_owned held;
  bd_own(ctx, &held, remove_folder, (char *)partial);
  bd_status status = fill(ctx, train, exec, plan, build, partial);
  if (status == BD_OK && bd_stop_came()) status = stopped(ctx, "writing the program", NOTHING_LEFT);
  if (status == BD_OK && build->executable)
    status = run_make(ctx, plan->target, "train", partial, NOTHING_LEFT);
  if (status == BD_OK && bd_stop_came())
    status = stopped(ctx, "building the program", NOTHING_LEFT);
  if (status == BD_OK) status = bd_folder_commit(ctx, partial, out);
  bd_disown(ctx, &held);
  if (status != BD_OK) bd_folder_remove(partial);
  return status;
}

bd_status bd_build_evaluation(bd_ctx *ctx, const bd_module *evaluation, const char *folder) {
  BD_TRY(bd_emit_evaluation(ctx, evaluation, folder));
  BD_TRY(copy_runtime(ctx, "cpu", folder));
  return run_make(ctx, "cpu", "evaluate", folder, "");
}
