// Any bytes as a tensor of an ONNX model, which may lie in another file: refused with one
// diagnostic, or all its data is read, and is that of files beneath the model's folder that have
// one name.
#include "frontend/onnx/external.h"
#include "frontend/onnx/fact.h"
#include "frontend/onnx/reader.h"
#include "tests/support/wire_writer.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 64, SECRET = 0xee, MOST_BYTES = 8 << 20 };
static char top[] = "/tmp/braid_fuzz_XXXXXX";
static char folder[sizeof top + 8]; // of the model

static const char *path_of(const char *name) {
  static char path[sizeof folder + 32];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void write_file(const char *name, int first) {
  uint8_t bytes[FILE_BYTES];
  for (int i = 0; i < FILE_BYTES; i++)
    bytes[i] = (uint8_t)(first == SECRET ? SECRET : first + i);
  FILE *file = fopen(path_of(name), "w");
  if (!file || fwrite(bytes, 1, sizeof bytes, file) != sizeof bytes || fclose(file) != 0) abort();
}

static void remove_all(void) {
  static const char *const files[] = {"data.bin", "sub/in.bin", "soft.bin",    "hard.bin",
                                      "dir.bin",  "../out.bin", "../hard2.bin"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    unlink(path_of(files[i]));
  rmdir(path_of("sub"));
  rmdir(folder);
  rmdir(top);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  char to[sizeof folder + 32];
  if (!mkdtemp(top)) abort();
  snprintf(folder, sizeof folder, "%s/model", top);
  if (mkdir(folder, 0700) || mkdir(path_of("sub"), 0700) || atexit(remove_all)) abort();
  write_file("data.bin", 0);
  write_file("sub/in.bin", FILE_BYTES);
  write_file("../out.bin", SECRET);
  write_file("hard.bin", SECRET);
  snprintf(to, sizeof to, "%s/hard.bin", folder);
  if (link(to, path_of("../hard2.bin")) || symlink("../out.bin", path_of("soft.bin")) ||
      symlink("..", path_of("dir.bin")))
    abort();
  return 0;
}

static void expect_no_secret(bd_ctx *ctx, const bd_onnx_tensor *tensor) {
  uint8_t *data = bd_arena_alloc(ctx->arena, (size_t)tensor->length_bytes + 1);
  if (bd_onnx_external_read(ctx, "fuzz.onnx", tensor->name, folder, tensor->location,
                            tensor->offset_bytes, (size_t)tensor->length_bytes, data) != BD_OK)
    abort();
  if (memchr(data, SECRET, (size_t)tensor->length_bytes)) abort();
}

static bd_status read_tensors(bd_ctx *ctx, void *argument) {
  const wire_writer *bytes = argument;
  bd_onnx_model model;
  BD_TRY(
      bd_onnx_read(ctx, "fuzz.onnx", folder, (bd_onnx_bytes){bytes->data, bytes->bytes}, &model));
  for (int i = 0; i < model.value_count; i++) {
    const bd_onnx_tensor *tensor = model.values[i].initializer;
    if (!tensor) continue;
    bd_onnx_number *numbers =
        BD_NEW_ARRAY(ctx->arena, bd_onnx_number, (size_t)tensor->elements + 1);
    BD_TRY(bd_onnx_tensor_elements(ctx, &model, tensor, 0, tensor->elements, numbers));
    if (tensor->encoding == BD_ONNX_EXTERNAL) expect_no_secret(ctx, tensor);
  }
  return BD_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  wire_writer model = {NULL, 0, 0}, part = {NULL, 0, 0};
  wire_int(&model, 1, 8);
  wire_int(&part, 2, 17);
  wire_message(&model, 8, &part);
  wire_block(&part, 5, data, size);
  wire_message(&model, 7, &part);
  bd_ctx *ctx = bd_ctx_create();
  if (ctx && bd_ctx_run(ctx, read_tensors, &model) != BD_OK && ctx->error_count != 1) abort();
  if (ctx && bd_arena_used_bytes(ctx->arena) > MOST_BYTES) abort();
  bd_ctx_destroy(ctx);
  wire_free(&model);
  wire_free(&part);
  return 0;
}
