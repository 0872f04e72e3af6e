#include "cli/answer.h"
#include "cli/stop.h"
#include "ir/base/file.h"
#include <stdio.h>

bd_status bd_answer_check_place(bd_ctx *ctx, const char *path) {
  sigset_t mask;
  bd_stop_hold(&mask);
  bd_status status = bd_file_check_place(ctx, path);
  bd_stop_release(&mask);
  return status;
}

bd_status bd_answer_write(bd_ctx *ctx, const bd_text *text, const char *path) {
  if (!path) {
    fwrite(text->data, 1, text->length, stdout);
    return BD_OK;
  }
  sigset_t mask;
  bd_stop_hold(&mask);
  bd_status status = bd_file_write(ctx, path, text->data, text->length);
  bd_stop_release(&mask);
  return status;
}
