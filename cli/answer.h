// What a command answers.
#ifndef BD_CLI_ANSWER_H
#define BD_CLI_ANSWER_H
#include "ir/base/context.h"
#include "ir/base/text.h"

// Whether the file `path` can be written, before work that takes long. Errors: those of
// bd_file_check_place.
BD_NODISCARD bd_status bd_answer_check_place(bd_ctx *ctx, const char *path);
// Writes the text to the file `path`, whole whatever stops braid, or to standard output where that
// is NULL. Errors: those of bd_file_write.
BD_NODISCARD bd_status bd_answer_write(bd_ctx *ctx, const bd_text *text, const char *path);
#endif
