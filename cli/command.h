// The subcommands of `braid` and how their arguments are read.
#ifndef BD_CLI_COMMAND_H
#define BD_CLI_COMMAND_H
#include "ir/base/context.h"

// Exit status of a misused command line; the others follow bd_status_exit_code.
#define BD_EXIT_USAGE 2

typedef struct bd_option {
  const char *name;  // "--seq", or "-o"
  const char *value; // what its value is called in the help; NULL for a flag
  const char *summary;
} bd_option;

typedef struct bd_arguments bd_arguments;

typedef struct bd_command {
  const char *name, *summary;
  const char *operand;       // what its one operand is called; NULL when it takes none
  const char *second;        // the same of a second one
  const char *needs;         // options that have to be given, for the usage line; NULL: none
  const bd_option *options;  // ends with a NULL name
  const char *const *reads;  // options that name files to read, beside the operand; NULL: none
  const char *const *writes; // options that name files to write; both end with NULL
  const char *details;       // printed after the options
  bool passes_on;            // unknown options are kept for a program that the command starts
  bd_status (*run)(bd_ctx *ctx, const bd_arguments *arguments);
} bd_command;

struct bd_arguments {
  const bd_command *command;
  const char *operand, *second;
  const char **values; // per option of the command: its value, "" for a flag that is set, or NULL
  int rest_count;      // with passes_on
  const char **rest;
  int *exit_code; // set to other than 0 by a wrong usage, and to the status of a program that was
                  // run
};

extern const bd_command bd_command_compile, bd_command_run, bd_command_explain, bd_command_opt,
    bd_command_init, bd_command_presets, bd_command_solve, bd_command_simulate, bd_command_diff,
    bd_command_probe, bd_command_import, bd_command_tune;

// Records a wrong usage: exit status 2. Returns BD_INVALID.
bd_status bd_usage_fail(bd_ctx *ctx, const bd_arguments *arguments, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Reads argv[2..] into `*out_arguments`, whose exit_code is set. Errors: wrong usage, one
// diagnostic.
BD_NODISCARD bd_status bd_arguments_read(bd_ctx *ctx, const bd_command *command, int argc,
                                         char **argv, bd_arguments *out_arguments);
void bd_command_help(const bd_command *command, FILE *stream);

// Option `name`, declared by the command, or NULL.
const char *bd_argument(const bd_arguments *arguments, const char *name);
// The same, also of an option with a value that is passed on.
const char *bd_argument_given(const bd_arguments *arguments, const char *name);
static inline bool bd_argument_flag(const bd_arguments *arguments, const char *name) {
  return bd_argument(arguments, name) != NULL;
}
// Typed options. Absent: *out is left alone. Errors: wrong usage, naming option and range.
BD_NODISCARD bd_status bd_argument_int(bd_ctx *ctx, const bd_arguments *arguments, const char *name,
                                       int64_t min, int64_t max, int64_t *out);
BD_NODISCARD bd_status bd_argument_real(bd_ctx *ctx, const bd_arguments *arguments,
                                        const char *name, double min, double max, double *out);
// "1.5GiB", "800MB", "4096": bytes.
BD_NODISCARD bd_status bd_argument_bytes(bd_ctx *ctx, const bd_arguments *arguments,
                                         const char *name, int64_t *out);
// One of `words` (NULL-terminated); *out is its index.
BD_NODISCARD bd_status bd_argument_choice(bd_ctx *ctx, const bd_arguments *arguments,
                                          const char *name, const char *const *words, int *out);
#endif
