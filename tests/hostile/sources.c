// What emitted sources must keep to when names are hostile.
#include "ir/base/file.h"
#include "tests/hostile/hostile.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The end of the string literal that begins at the quote `at`, or 0 when it is not closed on its
// line.
static size_t literal_end(const char *source, size_t at, size_t bytes) {
  for (at++; at < bytes && source[at] != '\n'; at++) {
    if (source[at] == '"') return at + 1;
    if (source[at] == '\\' && (++at == bytes || source[at] == '\n')) return 0;
  }
  return 0;
}

static bool starts(const char *source, size_t bytes, const char *word) {
  const size_t length = strlen(word);
  return bytes >= length && memcmp(source, word, length) == 0;
}

static void check_source(bd_hostile *test, const char *path, const char *source, size_t bytes) {
  for (size_t at = 0; at < bytes; at++) {
    const unsigned char byte = (unsigned char)source[at];
    if (byte != '\n' && byte != '\t' && (byte < 32 || byte >= 127))
      bd_hostile_fail(test, "unprintable source", path);
    if (starts(source + at, bytes - at, "??")) bd_hostile_fail(test, "a trigraph", path);
  }
  for (size_t at = 0; at < bytes;) {
    const size_t end = source[at] == '"' ? literal_end(source, at, bytes) : 0;
    if (!end &&
        (starts(source + at, bytes - at, "pwned") || starts(source + at, bytes - at, "system")))
      bd_hostile_fail(test, "a name is outside of strings", path);
    at = end ? end : at + 1;
  }
}

static bool is_source(const char *name) {
  static const char *const endings[] = {".c", ".h", ".s", ".ll"};
  const size_t length = strlen(name);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const size_t ending = strlen(endings[i]);
    if (length > ending && strcmp(name + length - ending, endings[i]) == 0) return true;
  }
  return strcmp(name, "Makefile") == 0;
}

static void check_compiles(bd_hostile *test, const char *folder, const char *name) {
  const char *said = bd_path_join(test->ctx, test->root, "compiler");
  const pid_t child = fork();
  if (child == 0) {
    const int file = open(said, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (file < 0 || dup2(file, STDERR_FILENO) < 0 || chdir(folder) != 0) _exit(126);
    execlp("cc", "cc", "-std=c11", "-D_GNU_SOURCE", "-Werror", "-Wall", "-Wextra", "-fsyntax-only",
           "-I.", name, (char *)NULL);
    _exit(126);
  }
  int ended;
  if (child < 0 || waitpid(child, &ended, 0) != child)
    bd_hostile_fail(test, "the compiler cannot be run", strerror(errno));
  char *words = "";
  size_t bytes;
  if (ended == 0) return;
  if (bd_file_read(test->ctx, said, 1 << 24, &words, &bytes) != BD_OK) words = "";
  bd_hostile_fail(test, "does not compile", words);
}

void bd_hostile_check_sources(bd_hostile *test, const char *folder) {
  DIR *entries = opendir(folder);
  if (!entries) bd_hostile_fail(test, "there is no folder", folder);
  int seen = 0;
  for (const struct dirent *entry; (entry = readdir(entries));) {
    if (!is_source(entry->d_name)) continue;
    bd_map map;
    if (bd_map_open(test->ctx, bd_path_join(test->ctx, folder, entry->d_name), &map) != BD_OK)
      bd_hostile_fail(test, "a source cannot be read", entry->d_name);
    check_source(test, entry->d_name, (const char *)map.data, map.bytes);
    bd_map_close(&map);
    seen++;
  }
  closedir(entries);
  if (seen < 4) bd_hostile_fail(test, "there are no sources", folder);
  check_compiles(test, folder, "main.c");
  check_compiles(test, folder, "stage0.c");
}
