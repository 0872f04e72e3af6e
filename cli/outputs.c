#include "cli/outputs.h"
#include "cli/folder.h"
#include "ir/base/file.h"

bd_status bd_outputs_check_input(bd_ctx *ctx, const bd_arguments *arguments, const char *what,
                                 const char *input) {
  for (const char *const *name = arguments->command->writes; name && *name; name++) {
    const char *path = bd_argument_given(arguments, *name), *same = NULL;
    if (!path || !bd_file_exists(path)) continue;
    if (bd_is_folder(input))
      same = bd_folder_find(ctx, input, path);
    else if (bd_file_is_one(path, input))
      same = input;
    if (same)
      return bd_usage_fail(ctx, arguments,
                           "option '%s' would overwrite the file of %s, '%s'; write to another",
                           *name, what, same);
  }
  return BD_OK;
}

enum { PROGRAM_DEPTH = 4 }; // of folders: runtime/cuda, build/runtime/cuda

// A program has nothing but its own files, and those of its plan.
static bd_status check_programs(bd_ctx *ctx, const bd_arguments *arguments) {
  for (const char *const *name = arguments->command->writes; name && *name; name++) {
    const char *path = bd_argument_given(arguments, *name);
    if (!path || !bd_file_exists(path) || bd_is_folder(path)) continue;
    const char *folder = path;
    for (int above = 0; above < PROGRAM_DEPTH; above++) {
      folder = bd_folder_of(ctx, folder);
      if (bd_folder_has_program(ctx, folder) && bd_folder_find(ctx, folder, path))
        return bd_usage_fail(ctx, arguments,
                             "option '%s' would overwrite '%s', a file of the compiled program "
                             "there; write to another",
                             *name, path);
    }
  }
  return BD_OK;
}

bd_status bd_outputs_check(bd_ctx *ctx, const bd_arguments *arguments) {
  const bd_command *command = arguments->command;
  if (arguments->operand)
    BD_TRY(bd_outputs_check_input(ctx, arguments, command->operand, arguments->operand));
  for (const char *const *name = command->reads; name && *name; name++) {
    const char *input = bd_argument_given(arguments, *name);
    if (input) BD_TRY(bd_outputs_check_input(ctx, arguments, *name, input));
  }
  return check_programs(ctx, arguments);
}

bd_status bd_outputs_check_plan(bd_ctx *ctx, const bd_arguments *arguments, const bd_plan *plan) {
  BD_TRY(bd_outputs_check_input(ctx, arguments, "the plan's model", plan->model));
  if (!plan->cluster) return BD_OK;
  return bd_outputs_check_input(ctx, arguments, "the plan's cluster", plan->cluster);
}
