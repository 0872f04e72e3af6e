// Whole-file reading with a bound, read-only maps, and writing that leaves no half file.
#ifndef BD_IR_BASE_FILE_H
#define BD_IR_BASE_FILE_H
#include "ir/base/context.h"

// Reads a regular file of at most `limit_bytes` into ctx->arena, with a NUL after the last byte.
// Errors: BD_INVALID with one diagnostic naming the path.
BD_NODISCARD bd_status bd_file_read(bd_ctx *ctx, const char *path, size_t limit_bytes,
                                    char **out_data, size_t *out_bytes);

// A read-only private map. The caller unmaps it.
typedef struct bd_map {
  const unsigned char *data;
  size_t bytes;
} bd_map;
BD_NODISCARD bd_status bd_map_open(bd_ctx *ctx, const char *path, bd_map *out_map);
void bd_map_close(bd_map *map);

// Writes `path.tmp`, syncs, renames; devices, pipes and open descriptors (/dev/stdout) are written
// in place, at their end. On failure no half file is left behind.
BD_NODISCARD bd_status bd_file_write(bd_ctx *ctx, const char *path, const void *data, size_t bytes);

// As bd_file_write, and leaves it to the system when the bytes come to lie on the disk: for what is
// made anew in no time, as the hundred sources of an output folder, each of which would be waited
// for.
BD_NODISCARD bd_status bd_file_write_unsynced(bd_ctx *ctx, const char *path, const void *data,
                                              size_t bytes);

// Whether the path is a name of a descriptor that the process has, such as /dev/stdout: a file that
// is renamed to it would take the place of the name.
bool bd_file_names_descriptor(const char *path);

// Whether bd_file_write could write there, before work that takes long: fails as it would.
BD_NODISCARD bd_status bd_file_check_place(bd_ctx *ctx, const char *path);

// Makes a folder and its parents; fine if it stands already.
BD_NODISCARD bd_status bd_folder_make(bd_ctx *ctx, const char *path);

bool bd_file_exists(const char *path);
// Whether two paths lead to one regular file; where one leads nowhere, whether they are the same.
bool bd_file_is_one(const char *a, const char *b);
bool bd_is_folder(const char *path);
// `folder/name` in ctx->arena.
const char *bd_path_join(bd_ctx *ctx, const char *folder, const char *name);
#endif
