// Runs one fuzz target over files and the files of folders: the corpus, in builds without a fuzzer.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static int run_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  size_t room = 1 << 16, bytes = 0, got;
  uint8_t *data = malloc(room);
  while (data && (got = fread(data + bytes, 1, room - bytes, file)) > 0) {
    bytes += got;
    if (bytes == room) data = realloc(data, room *= 2);
  }
  fclose(file);
  if (!data) abort();
  // A block of the exact size, so that a sanitizer sees reads past its end.
  uint8_t *exact = malloc(bytes ? bytes : 1);
  if (!exact) abort();
  for (size_t i = 0; i < bytes; i++)
    exact[i] = data[i];
  free(data);
  fprintf(stderr, "%s\n", path);
  LLVMFuzzerTestOneInput(exact, bytes);
  free(exact);
  return 1;
}

static int run_path(const char *path) {
  struct stat about;
  if (stat(path, &about) != 0) {
    perror(path);
    exit(1);
  }
  if (!S_ISDIR(about.st_mode)) return run_file(path);
  struct dirent **entries;
  int ran = 0, count = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    char inside[4096];
    if (entries[i]->d_name[0] != '.') {
      snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
      ran += run_path(inside);
    }
    free(entries[i]);
  }
  free(entries);
  return ran;
}

int main(int argc, char **argv) {
  int ran = 0;
  if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
  for (int i = 1; i < argc; i++)
    ran += run_path(argv[i]);
  printf("%d inputs\n", ran);
  return ran == 0;
}
