// Output folders: filled beside their place, moved into it when whole.
#ifndef BD_CLI_FOLDER_H
#define BD_CLI_FOLDER_H
#include "ir/base/context.h"

// Whether an output folder can be made at `path`, before work that takes long. Refuses when `path`
// stands and is not an output folder of braid (one with a plan.json and nothing that is not of
// braid) or empty, or is the current folder, and when the folder above it, or the nearest that
// stands, cannot be written. Where `path` is a link, the folder is made where it leads.
// Errors: BD_INVALID.
BD_NODISCARD bd_status bd_folder_check(bd_ctx *ctx, const char *path);
// Makes an empty folder next to `path`. Errors: as above.
BD_NODISCARD bd_status bd_folder_begin(bd_ctx *ctx, const char *path, const char **out_partial);
// Moves it to `path`, replacing an earlier output folder.
BD_NODISCARD bd_status bd_folder_commit(bd_ctx *ctx, const char *partial, const char *path);
void bd_folder_remove(const char *path);

// The folder that holds `path`.
const char *bd_folder_of(bd_ctx *ctx, const char *path);
// Whether a plan and its program lie in the folder.
bool bd_folder_has_program(bd_ctx *ctx, const char *folder);
// The regular file in the folder that `file` is too, among those of a plan, a program or a model
// (plan.json, main.c, config.json, weights); NULL: none of them.
const char *bd_folder_find(bd_ctx *ctx, const char *folder, const char *file);

// Copies the regular files of `from` whose names end in one of `endings` (NULL-terminated).
BD_NODISCARD bd_status bd_folder_copy(bd_ctx *ctx, const char *from, const char *to,
                                      const char *const *endings);
#endif
