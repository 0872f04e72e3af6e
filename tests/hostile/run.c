// One run of braid, and what every run must keep to.
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "ir/base/utf8.h"
#include "tests/hostile/hostile.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUN_SECONDS = 120, PRINTED_BYTES = 1 << 24 };

// Control and format characters, and what separates lines and paragraphs (Unicode: Cc, Cf, Zl, Zp).
static bool is_printable(uint32_t character) {
  static const struct {
    uint32_t first, last;
  } unprintable[] = {
      {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},
      {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
      {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
      {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
      {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
      {0xe0001, 0xe007f},
  };
  for (size_t i = 0; i < sizeof unprintable / sizeof *unprintable; i++)
    if (character >= unprintable[i].first && character <= unprintable[i].last) return false;
  return true;
}

static void check_printable(bd_hostile *test, const char *printed, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    uint32_t character;
    const size_t length = bd_utf8_decode(printed + at, bytes - at, &character);
    if (length == 0) bd_hostile_fail(test, "prints what is not UTF-8", printed);
    if (character != '\n' && !is_printable(character))
      bd_hostile_fail(test, "prints a control character", printed);
    at += length;
  }
}

static int count_errors(const char *printed) {
  int errors = 0;
  for (const char *line = printed; line;) {
    const char *end = strchr(line, '\n');
    const size_t length = end ? (size_t)(end - line) : strlen(line);
    if (memmem(line, length, "error:", 6) || strncmp(line, "braid:", 6) == 0) errors++;
    line = end ? end + 1 : NULL;
  }
  return errors;
}

typedef struct names {
  struct dirent **entries;
  int count;
} names;

static names list_names(bd_hostile *test) {
  names names;
  names.count = scandir(".", &names.entries, NULL, alphasort);
  if (names.count < 0)
    bd_hostile_fail(test, "the working folder cannot be listed", strerror(errno));
  return names;
}

static void free_names(names names) {
  for (int i = 0; i < names.count; i++)
    free(names.entries[i]);
  free(names.entries);
}

static bool has_name(names names, const char *name) {
  for (int i = 0; i < names.count; i++)
    if (strcmp(names.entries[i]->d_name, name) == 0) return true;
  return false;
}

// `produces` may be NULL.
static void check_left(bd_hostile *test, names before, const char *produces) {
  const names now = list_names(test);
  for (int i = 0; i < now.count; i++) {
    const char *name = now.entries[i]->d_name;
    if (!has_name(before, name) && !(produces && strcmp(name, produces) == 0))
      bd_hostile_fail(test, "leaves a file", name);
  }
  free_names(now);
  if (bd_file_exists("pwned") || bd_file_exists("/tmp/pwned") || bd_file_exists("../../pwned"))
    bd_hostile_fail(test, "something ran", "");
}

// The child: never returns.
static _Noreturn void start(const char *braid, const char *const *arguments, const char *out,
                            const char *err) {
  enum { MOST = 30 };
  char *words[MOST + 2] = {(char *)braid};
  for (int i = 0; i < MOST && arguments[i]; i++)
    words[i + 1] = (char *)arguments[i];
  const int files[] = {open("/dev/null", O_RDONLY), open(out, O_CREAT | O_TRUNC | O_WRONLY, 0600),
                       open(err, O_CREAT | O_TRUNC | O_WRONLY, 0600)};
  for (int i = 0; i < 3; i++)
    if (files[i] < 0 || dup2(files[i], i) < 0) _exit(126);
  for (int i = 0; i < 3; i++)
    close(files[i]);
  alarm(RUN_SECONDS);
  execv(braid, words);
  _exit(126);
}

static char *read_printed(bd_hostile *test, const char *path) {
  char *printed;
  size_t bytes;
  if (bd_file_read(test->ctx, path, PRINTED_BYTES, &printed, &bytes) != BD_OK)
    bd_hostile_fail(test, "its output cannot be read", path);
  check_printable(test, printed, bytes);
  return printed;
}

int bd_hostile_run(bd_hostile *test, unsigned statuses, const char *produces,
                   const char *const *arguments) {
  test->runs++;
  const char *out = bd_path_join(test->ctx, test->root, "stdout");
  const char *err = bd_path_join(test->ctx, test->root, "stderr");
  const names before = list_names(test);
  const pid_t child = fork();
  if (child == 0) start(test->braid, arguments, out, err);
  int ended;
  while (child > 0 && waitpid(child, &ended, 0) < 0)
    if (errno != EINTR) bd_hostile_fail(test, "waitpid", strerror(errno));
  if (child < 0) bd_hostile_fail(test, "fork", strerror(errno));
  read_printed(test, out);
  const char *said = read_printed(test, err);
  if (!WIFEXITED(ended)) bd_hostile_fail(test, "ended by a signal", said);
  const int status = WEXITSTATUS(ended);
  if (status > 31 || !(statuses & BD_STATUS(status)))
    bd_hostile_fail(test, bd_intern_f(test->ctx, "status %d", status), said);
  if (count_errors(said) != (status ? 1 : 0)) bd_hostile_fail(test, "not one diagnostic", said);
  check_left(test, before, status ? NULL : produces);
  free_names(before);
  return status;
}

void bd_hostile_compile(bd_hostile *test, const char *model) {
  const unsigned any = BD_STATUS(0) | BD_STATUS(1);
  if (BD_RUN(test, any, "out", "compile", model, BD_CLUSTER, "--emit", "graph", "-o", "out"))
    return;
  bd_hostile_discard("out");
  if (BD_RUN(test, any, "out", "compile", model, BD_CLUSTER, "--emit", "c", "-o", "out") == 0) {
    bd_hostile_check_sources(test, "out");
    BD_RUN(test, BD_STATUS(0), NULL, "explain", "out");
    bd_hostile_discard("out");
  }
  if (BD_RUN(test, any, "init.safetensors", "init", model, "-o", "init.safetensors") == 0)
    bd_hostile_discard("init.safetensors");
}
