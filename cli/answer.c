#include "cli/answer.h"
#include "ir/base/file.h"
#include <stdio.h>

bd_status bd_answer_write(bd_ctx *ctx, const bd_text *text, const char *path) {
  if (path) return bd_file_write(ctx, path, text->data, text->length);
  fwrite(text->data, 1, text->length, stdout);
  return BD_OK;
}
