// Any bytes as the index of a folder with two shards: compiler and programs refuse it with one
// message, and programs read every folder that the compiler takes.
#include "frontend/hf/folder.h"
#include "runtime/source.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/braid_fuzz_XXXXXX";
static const char *const files[] = {"a.safetensors", "b.safetensors",
                                    "model.safetensors.index.json"};
static const char *const shards[] = {
    "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
    "{\"y\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}"};

static void write_file(const char *name, size_t parts, const void *const *part,
                       const size_t *bytes) {
  char path[sizeof folder + 64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (!file) abort();
  for (size_t i = 0; i < parts; i++)
    if (fwrite(part[i], 1, bytes[i], file) != bytes[i]) abort();
  if (fclose(file) != 0) abort();
}

static void remove_folder(void) {
  char path[sizeof folder + 64];
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    unlink(path);
  }
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  if (!mkdtemp(folder)) abort();
  atexit(remove_folder);
  for (int i = 0; i < 2; i++) {
    const unsigned char length[8] = {(unsigned char)strlen(shards[i])};
    write_file(files[i], 3, (const void *[]){length, shards[i], "abcd"},
               (const size_t[]){8, strlen(shards[i]), 4});
  }
  return 0;
}

static bd_status load(bd_ctx *ctx, void *argument) {
  bd_hf_folder found;
  bd_status status = bd_hf_folder_open(ctx, folder, &found);
  bd_hf_folder_close(&found);
  *(bool *)argument = status == BD_OK;
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char message[256] = "";
  bd_rt_source source;
  bool compiled = false;
  write_file(files[2], 1, (const void *[]){data}, &size);
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 0;
  if (bd_ctx_run(ctx, load, &compiled) != BD_OK && ctx->error_count != 1) abort();
  bd_ctx_destroy(ctx);
  const int status = bd_rt_source_open(folder, &source, message, sizeof message);
  if (status == 0) {
    int file = -1;
    if (!bd_rt_source_find(&source, "x", &file) || file < 0 || file >= source.count) abort();
    bd_rt_source_close(&source);
  } else if (!message[0] || compiled) {
    abort();
  }
  return 0;
}
