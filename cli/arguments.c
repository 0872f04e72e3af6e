// Reading a command line against a command's table of options.
#include "cli/command.h"
#include "ir/base/number.h"
#include "ir/base/suggest.h"
#include "ir/base/text.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bd_status bd_usage_fail(bd_ctx *ctx, const bd_arguments *arguments, const char *format, ...) {
  bd_text message = bd_text_init(ctx->arena);
  va_list values;
  va_start(values, format);
  bd_text_addv(&message, format, values);
  va_end(values);
  *arguments->exit_code = BD_EXIT_USAGE;
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "%s", message.data);
}

static int option_count(const bd_command *command) {
  int count = 0;
  while (command->options[count].name)
    count++;
  return count;
}

static int find_option(const bd_command *command, const char *name, size_t length) {
  for (int i = 0; command->options[i].name; i++)
    if (strlen(command->options[i].name) == length &&
        memcmp(command->options[i].name, name, length) == 0)
      return i;
  return -1;
}

static bd_status unknown_option(bd_ctx *ctx, const bd_arguments *arguments, const char *word,
                                size_t length) {
  const bd_command *command = arguments->command;
  int count = option_count(command);
  const char **names = BD_NEW_ARRAY(ctx->arena, const char *, count + 1);
  for (int i = 0; i < count; i++)
    names[i] = command->options[i].name;
  const char *name = bd_intern(ctx, word, length);
  const char *near = bd_suggest(name, names);
  if (near)
    return bd_usage_fail(ctx, arguments, "unknown option '%s'; did you mean '%s'?", name, near);
  return bd_usage_fail(ctx, arguments, "unknown option '%s'; 'braid %s --help' lists the options",
                       name, command->name);
}

// Options that are handed on take their value along when the next word is no option.
static void pass_on(int argc, char **argv, int *at, bd_arguments *out) {
  out->rest[out->rest_count++] = argv[*at];
  if (strchr(argv[*at], '=') || *at + 1 >= argc || argv[*at + 1][0] == '-') return;
  out->rest[out->rest_count++] = argv[++*at];
}

static bd_status read_option(bd_ctx *ctx, int argc, char **argv, int *at, bd_arguments *out) {
  const bd_command *command = out->command;
  const char *word = argv[*at];
  const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  int option = find_option(command, word, length);
  if (option < 0) {
    if (!command->passes_on) return unknown_option(ctx, out, word, length);
    pass_on(argc, argv, at, out);
    return BD_OK;
  }
  const char *name = command->options[option].name;
  if (out->values[option]) return bd_usage_fail(ctx, out, "option '%s' is given twice", name);
  if (!command->options[option].value) {
    if (equals) return bd_usage_fail(ctx, out, "option '%s' takes no value", name);
    out->values[option] = "";
    return BD_OK;
  }
  if (equals) {
    out->values[option] = equals + 1;
    return BD_OK;
  }
  bool is_output = strcmp(name, "-o") == 0;
  if (*at + 1 >= argc || (is_output && !*argv[*at + 1]))
    return bd_usage_fail(ctx, out, "option '%s' needs a value (%s)", name,
                         command->options[option].value);
  if (is_output && strcmp(argv[*at + 1], "-") == 0)
    return bd_usage_fail(ctx, out,
                         "option '-o' takes no '-': what goes to standard output goes "
                         "there without -o (a file of that name is './-')");
  out->values[option] = argv[++*at];
  return BD_OK;
}

static bool is_missing(const char *operand) {
  return !operand || !*operand;
}

bd_status bd_arguments_read(bd_ctx *ctx, const bd_command *command, int argc, char **argv,
                            bd_arguments *out) {
  *out = (bd_arguments){.command = command, .exit_code = out->exit_code};
  out->values = BD_NEW_ARRAY(ctx->arena, const char *, option_count(command) + 1);
  out->rest = BD_NEW_ARRAY(ctx->arena, const char *, argc + 1);
  bool only_operands = false;
  for (int i = 2; i < argc; i++) {
    if (!only_operands && strcmp(argv[i], "--") == 0) {
      only_operands = true;
    } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
      BD_TRY(read_option(ctx, argc, argv, &i, out));
    } else if (out->operand && command->second && !out->second) {
      out->second = argv[i];
    } else if (!command->operand || out->operand) {
      return bd_usage_fail(ctx, out, "unexpected argument '%s'", argv[i]);
    } else {
      out->operand = argv[i];
    }
  }
  if (command->operand && is_missing(out->operand))
    return bd_usage_fail(ctx, out, "%s is missing; usage: braid %s %s ...", command->operand,
                         command->name, command->operand);
  if (command->second && is_missing(out->second))
    return bd_usage_fail(ctx, out, "%s is missing; usage: braid %s %s %s ...", command->second,
                         command->name, command->operand, command->second);
  return BD_OK;
}

void bd_command_help(const bd_command *command, FILE *stream) {
  fprintf(stream, "braid %s: %s\n\nusage: braid %s", command->name, command->summary,
          command->name);
  const char *const words[] = {command->operand, command->second, command->needs,
                               command->options->name ? "[options]" : NULL};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (words[i]) fprintf(stream, " %s", words[i]);
  fprintf(stream, "\n\noptions:\n");
  for (const bd_option *option = command->options; option->name; option++) {
    int width = fprintf(stream, "  %s%s%s", option->name, option->value ? " " : "",
                        option->value ? option->value : "");
    fprintf(stream, "%*s%s\n", width < 32 ? 32 - width : 1, "", option->summary);
  }
  fprintf(stream, "  %-30s%s\n", "--help", "print this text");
  if (command->details) fprintf(stream, "\n%s", command->details);
}

const char *bd_argument(const bd_arguments *arguments, const char *name) {
  int option = find_option(arguments->command, name, strlen(name));
  return option < 0 ? NULL : arguments->values[option];
}

const char *bd_argument_given(const bd_arguments *arguments, const char *name) {
  const char *value = bd_argument(arguments, name);
  size_t length = strlen(name);
  for (int i = 0; i < arguments->rest_count; i++) {
    const char *word = arguments->rest[i];
    if (strncmp(word, name, length)) continue;
    if (word[length] == '=')
      value = word + length + 1;
    else if (!word[length] && i + 1 < arguments->rest_count && arguments->rest[i + 1][0] != '-')
      value = arguments->rest[i + 1];
  }
  return value;
}

bd_status bd_argument_int(bd_ctx *ctx, const bd_arguments *arguments, const char *name, int64_t min,
                          int64_t max, int64_t *out) {
  const char *text = bd_argument(arguments, name);
  if (!text) return BD_OK;
  int64_t value;
  if (!bd_whole_read(text, &value) || value < min || value > max)
    return bd_usage_fail(ctx, arguments,
                         "option '%s' wants a whole number from %lld to %lld, not '%s'", name,
                         (long long)min, (long long)max, text);
  *out = value;
  return BD_OK;
}

// A number and nothing else, in decimal: strtod also takes blanks, hexadecimal numbers and words.
static bool read_number(const char *text, const char **out_end, double *out) {
  size_t length = strspn(text, "0123456789.eE+-");
  char *end;
  *out = strtod(text, &end);
  *out_end = end;
  return end != text && (size_t)(end - text) <= length;
}

bd_status bd_argument_real(bd_ctx *ctx, const bd_arguments *arguments, const char *name, double min,
                           double max, double *out) {
  const char *text = bd_argument(arguments, name), *end;
  double value;
  if (!text) return BD_OK;
  if (!read_number(text, &end, &value) || *end || !(value >= min && value <= max))
    return bd_usage_fail(ctx, arguments, "option '%s' wants a number from %g to %g, not '%s'", name,
                         min, max, text);
  *out = value;
  return BD_OK;
}

static bool read_bytes(const char *text, int64_t *out) {
  static const struct {
    const char *suffix;
    double factor;
  } units[] = {{"kB", 1e3},     {"KB", 1e3},        {"MB", 1e6},     {"GB", 1e9},    {"TB", 1e12},
               {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  const char *end;
  double value;
  if (!read_number(text, &end, &value)) return false;
  if (!*end || strcmp(end, "B") == 0)
    return *end ? bd_whole_of(value, out) : bd_whole_read(text, out);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    double bytes = value * units[i].factor;
    if (strcmp(end, units[i].suffix) || !(bytes < 0x1p60)) continue;
    *out = (int64_t)bytes;
    return true;
  }
  return false;
}

bd_status bd_argument_bytes(bd_ctx *ctx, const bd_arguments *arguments, const char *name,
                            int64_t *out) {
  const char *text = bd_argument(arguments, name);
  int64_t bytes;
  if (!text) return BD_OK;
  if (!read_bytes(text, &bytes) || bytes < 1 || bytes >= (int64_t)1 << 60)
    return bd_usage_fail(ctx, arguments,
                         "option '%s' wants a whole number of 1 or more, or a size such as 1.5GiB "
                         "or 800MB, not '%s'",
                         name, text);
  *out = bytes;
  return BD_OK;
}

bd_status bd_argument_choice(bd_ctx *ctx, const bd_arguments *arguments, const char *name,
                             const char *const *words, int *out) {
  const char *text = bd_argument(arguments, name);
  if (!text) return BD_OK;
  for (int i = 0; words[i]; i++)
    if (strcmp(text, words[i]) == 0) {
      *out = i;
      return BD_OK;
    }
  const char *list = words[0];
  for (int i = 1; words[i]; i++)
    list = bd_intern_f(ctx, "%s, %s", list, words[i]);
  return bd_usage_fail(ctx, arguments, "option '%s' is one of %s, not '%s'", name, list, text);
}
