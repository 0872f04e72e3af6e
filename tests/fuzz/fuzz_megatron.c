// Any bytes as Megatron's index of 64 bytes of tokens: refused with a message, or all tokens are
// read and below the vocabulary.
#include "runtime/data.h"
#include "runtime/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TOKENS_BYTES = 64 };
static char folder[] = "/tmp/braid_fuzz_XXXXXX";

static void name_file(char *path, size_t bytes, const char *name) {
  snprintf(path, bytes, "%s/%s", folder, name);
}

static void write_file(const char *name, const uint8_t *data, size_t bytes) {
  char path[sizeof folder + 8];
  name_file(path, sizeof path, name);
  FILE *file = fopen(path, "w");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static void remove_folder(void) {
  char path[sizeof folder + 8];
  name_file(path, sizeof path, "d.bin");
  unlink(path);
  name_file(path, sizeof path, "d.idx");
  unlink(path);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  const uint8_t tokens[TOKENS_BYTES] = {1, 2, 3, 4};
  if (!mkdtemp(folder)) abort();
  atexit(remove_folder);
  write_file("d.bin", tokens, sizeof tokens);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const bd_rt_program program = {.vocabulary = INT64_C(1) << 31, .sequence = 4};
  char path[sizeof folder + 8], message[256] = "";
  int32_t tokens[TOKENS_BYTES];
  bd_rt_data opened;
  write_file("d.idx", data, size);
  name_file(path, sizeof path, size % 2 ? "d.bin" : "d.idx");
  if (bd_rt_data_open(&program, path, BD_RT_TOKENS_BY_NAME, 1, &opened, message, sizeof message)) {
    if (!message[0] || opened.fd >= 0) abort();
    return 0;
  }
  if (opened.count * opened.token_bytes != TOKENS_BYTES ||
      bd_rt_data_tokens(&opened, 0, opened.count, tokens))
    abort();
  for (int64_t i = 0; i < opened.count; i++)
    if (tokens[i] < 0) abort();
  bd_rt_data_close(&opened);
  return 0;
}
