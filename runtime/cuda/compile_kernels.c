// Compiles device code by NVRTC, which needs no compiler for the host:
//   compile_kernels SOURCE STEM [OPTION...] ARCHITECTURE...
// For architectures 80 and 90 SOURCE becomes STEM.sm_80.cubin, STEM.sm_90.cubin and, for those that
// come after the first, STEM.ptx. Options are NVRTC's, but for -Werror: then what it says is an
// error. Files are written whole, and none of a source that does not compile for all.
#include <nvrtc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 32, MOST_ARCHITECTURES = 32, PATH_BYTES = 4096 };

// Headers that freestanding.h stands for.
static const char *const empty_names[] = {"math.h", "stddef.h", "stdint.h", "string.h"};
static const char *const empty[] = {"", "", "", ""};
enum { EMPTY = sizeof empty / sizeof *empty };

typedef struct blob {
  char *data;
  size_t bytes;
} blob;

typedef struct task {
  const char *source, *stem;
  char *text; // of the source
  int strict; // what is said is an error
  int option_count, architecture_count;
  const char *options[MOST_OPTIONS + 1]; // and room for the architecture
  const char *architectures[MOST_ARCHITECTURES];
  blob cubins[MOST_ARCHITECTURES], ptx;
} task;

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("compile_kernels: error: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

static void *take(size_t bytes) {
  void *const memory = malloc(bytes ? bytes : 1);
  if (!memory) fail("out of memory");
  return memory;
}

static void check(nvrtcResult result, const char *call) {
  if (result != NVRTC_SUCCESS) fail("%s: %s", call, nvrtcGetErrorString(result));
}
#define CHECK(call) check(call, #call)

static char *read_text(const char *path) {
  FILE *const file = fopen(path, "rb");
  long bytes = -1;
  if (!file || fseek(file, 0, SEEK_END) || (bytes = ftell(file)) < 0 || fseek(file, 0, SEEK_SET))
    fail("%s cannot be read", path);
  char *const text = take((size_t)bytes + 1);
  if (fread(text, 1, (size_t)bytes, file) != (size_t)bytes) fail("%s cannot be read", path);
  text[bytes] = 0;
  fclose(file);
  return text;
}

static void name_output(char *path, const task *t, const char *middle, const char *end) {
  if (snprintf(path, PATH_BYTES, "%s%s%s", t->stem, middle, end) >= PATH_BYTES)
    fail("%s is too long a name", t->stem);
}

static void name_cubin(char *path, const task *t, const char *architecture) {
  char middle[64];
  snprintf(middle, sizeof middle, ".sm_%.32s", architecture);
  name_output(path, t, middle, ".cubin");
}

// The file appears under its name when all of it is there.
static void write_file(const char *path, blob what) {
  char partial[PATH_BYTES + 16];
  snprintf(partial, sizeof partial, "%s.partial", path);
  FILE *const file = fopen(partial, "wb");
  if (!file) fail("%s cannot be written", partial);
  const int whole = fwrite(what.data, 1, what.bytes, file) == what.bytes;
  if ((fclose(file) != 0 || !whole) || rename(partial, path)) {
    remove(partial);
    fail("%s cannot be written", path);
  }
}

static void write_outputs(const task *t) {
  char path[PATH_BYTES];
  for (int i = 0; i < t->architecture_count; i++) {
    name_cubin(path, t, t->architectures[i]);
    write_file(path, t->cubins[i]);
  }
  name_output(path, t, "", ".ptx");
  write_file(path, t->ptx);
}

// Says what the compiler has said; whether that was nothing.
static int tell_log(nvrtcProgram program) {
  size_t bytes = 0;
  CHECK(nvrtcGetProgramLogSize(program, &bytes));
  char *const log = take(bytes + 1);
  if (bytes > 0) CHECK(nvrtcGetProgramLog(program, log));
  log[bytes] = 0;
  const int silent = log[strspn(log, " \n")] == 0;
  if (!silent) fputs(log, stderr);
  free(log);
  return silent;
}

static void get_outputs(task *t, nvrtcProgram program, int number) {
  blob *const cubin = &t->cubins[number];
  CHECK(nvrtcGetCUBINSize(program, &cubin->bytes));
  cubin->data = take(cubin->bytes);
  CHECK(nvrtcGetCUBIN(program, cubin->data));
  if (number > 0) return;
  CHECK(nvrtcGetPTXSize(program, &t->ptx.bytes));
  t->ptx.data = take(t->ptx.bytes);
  CHECK(nvrtcGetPTX(program, t->ptx.data));
  t->ptx.bytes--; // the 0 behind it
}

static void compile(task *t, int number) {
  const char *const architecture = t->architectures[number];
  char option[64];
  nvrtcProgram program;
  snprintf(option, sizeof option, "-arch=sm_%.32s", architecture);
  t->options[t->option_count] = option;
  CHECK(nvrtcCreateProgram(&program, t->text, t->source, EMPTY, empty, empty_names));
  const nvrtcResult result = nvrtcCompileProgram(program, t->option_count + 1, t->options);
  const int silent = tell_log(program);
  if (result != NVRTC_SUCCESS)
    fail("%s is not compiled for sm_%s: %s", t->source, architecture, nvrtcGetErrorString(result));
  if (t->strict && !silent) fail("%s: warnings are errors", t->source);
  get_outputs(t, program, number);
  CHECK(nvrtcDestroyProgram(&program));
}

int main(int argc, char **argv) {
  task t = {0};
  for (int i = 3; i < argc; i++)
    if (strcmp(argv[i], "-Werror") == 0)
      t.strict = 1;
    else if (argv[i][0] == '-' && t.option_count < MOST_OPTIONS)
      t.options[t.option_count++] = argv[i];
    else if (argv[i][0] != '-' && t.architecture_count < MOST_ARCHITECTURES)
      t.architectures[t.architecture_count++] = argv[i];
    else
      fail("there are too many arguments");
  if (t.architecture_count == 0)
    fail("usage: compile_kernels SOURCE STEM [OPTION...] ARCHITECTURE...");
  t.source = argv[1], t.stem = argv[2];
  t.text = read_text(t.source);
  for (int i = 0; i < t.architecture_count; i++)
    compile(&t, i);
  write_outputs(&t);
  return 0;
}
