// Hostile text in every name that a file or an argument can carry.
//   hostile BRAID FOLDER [PART...]    FOLDER: of the documents; parts: those of the table below
// Each run ends in success or in exactly one diagnostic with its documented status; whatever is
// printed is printable; nothing is half-written and nothing of a name runs. Sources that are
// emitted hold such text in string literals only, escaped, and compile.
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "tests/hostile/hostile.h"
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void bd_hostile_payloads(bd_ctx *ctx, bd_payload out[BD_PAYLOADS]) {
  enum { LONG_BYTES = 5000 };
  static const bd_payload payloads[BD_PAYLOADS] = {
      {"comment", "*/ system(\"touch pwned\"); /*"},
      {"newline", "a\n#include \"pwned.h\"\nint pwned;"},
      {"quote", "\"; system(\"touch pwned\"); \""},
      {"apostrophe", "'; touch pwned; '"},
      {"backslash", "x\\"},
      {"trigraph", "?\?/?\?\" pwned ?\?/\n"},
      {"path", "../../pwned"},
      {"absolute", "/tmp/pwned"},
      {"escape", "\x1b[2J\x1b]0;pwned\x07\x7f"},
      {"shell", "$(touch pwned)`touch pwned`;touch pwned&|>pwned"},
      {"make", "$(shell touch pwned):#%$@"},
      {"format", "%s%n%1000000d"},
      {"dash", "--pwned"},
      {"bidi", "\xe2\x80\xaepwned\xe2\x81\xa6\xe2\x80\x8b"},
      {"c1", "\xc2\x85\xc2\x9b\x32Jpwned"},
      {"empty", ""},
      {"space", " pwned "},
  };
  memcpy(out, payloads, sizeof payloads);
  char *text = bd_arena_alloc(ctx->arena, LONG_BYTES + 1);
  memset(text, 'p', LONG_BYTES);
  out[BD_PAYLOADS - 1] = (bd_payload){"long", text};
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *place) {
  return remove(path);
}

void bd_hostile_discard(const char *path) {
  nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void bd_hostile_clean(bd_hostile *test) {
  if (chdir("/") == 0 && test->root[0]) bd_hostile_discard(test->root);
}

void bd_hostile_fail(bd_hostile *test, const char *wrong, const char *about) {
  bd_text text = bd_text_init(test->ctx->arena);
  bd_text_add_printable(&text, about, strlen(about));
  fprintf(stderr, "hostile: %s, %s: %s: %s\n", test->place, test->kind, wrong, text.data);
  bd_diags_print(test->ctx, stderr, false);
  bd_hostile_clean(test);
  exit(1);
}

void bd_hostile_write(bd_hostile *test, const char *path, const char *text) {
  if (bd_file_write_unsynced(test->ctx, path, text, strlen(text)) != BD_OK)
    bd_hostile_fail(test, "cannot be written", path);
}

static const struct {
  const char *name;
  void (*run)(bd_hostile *test);
} parts[] = {
    {"graphs", bd_hostile_graphs},     {"texts", bd_hostile_texts},
    {"configs", bd_hostile_configs},   {"plans", bd_hostile_plans},
    {"clusters", bd_hostile_clusters}, {"arguments", bd_hostile_arguments},
    {"programs", bd_hostile_programs},
};

static bool is_wanted(const char *name, char **words) {
  if (!*words) return true;
  for (; *words; words++)
    if (strcmp(*words, name) == 0) return true;
  return false;
}

static void run_part(bd_hostile *test, size_t part) {
  const int before = test->runs;
  test->place = parts[part].name;
  test->kind = "before any text";
  bd_hostile_write_json(test, "model.json", bd_hostile_read(test, "model.json"), 0, NULL, NULL);
  parts[part].run(test);
  printf("%-10s %5d runs\n", parts[part].name, test->runs - before);
  fflush(stdout);
}

static bool open_root(bd_hostile *test) {
  const char *folder = getenv("TMPDIR");
  const int length =
      snprintf(test->root, sizeof test->root, "%s/hostile.XXXXXX", folder ? folder : "/tmp");
  if (length < 0 || (size_t)length >= sizeof test->root) test->root[0] = 0;
  if (!test->root[0] || !mkdtemp(test->root) || chdir(test->root) != 0) return false;
  return mkdir("a", 0700) == 0 && mkdir("a/b", 0700) == 0 && chdir("a/b") == 0;
}

int main(int argc, char **argv) {
  char *braid = argc > 2 ? realpath(argv[1], NULL) : NULL;
  char *folder = argc > 2 ? realpath(argv[2], NULL) : NULL;
  bd_ctx *ctx = bd_ctx_create();
  bd_hostile test = {.ctx = ctx, .braid = braid, .folder = folder, .place = "", .kind = ""};
  int status = 2;
  if (!braid || !folder || !ctx || !open_root(&test)) {
    fprintf(stderr, "usage: hostile BRAID FOLDER [PART...]\n");
    goto cleanup;
  }
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (is_wanted(parts[i].name, argv + 3)) run_part(&test, i);
  status = test.runs == 0;
  if (status) fprintf(stderr, "hostile: nothing was run\n");
cleanup:
  bd_hostile_clean(&test);
  bd_ctx_destroy(ctx);
  free(folder);
  free(braid);
  return status;
}
