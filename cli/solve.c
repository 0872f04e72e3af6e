// `braid solve`: runs a search on numbers alone. A format is a row of the table below; who adds one
// declares it in planner/bare.h.
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/machine.h"
#include "cli/stop.h"
#include "ir/base/file.h"
#include "ir/base/gzip.h"
#include "planner/bare.h"

#define FILE_LIMIT_BYTES ((size_t)1 << 30)
// Of what a gzip file inflates to: 200 times its bytes, which tables of costs stay well below,
// within these.
#define TEXT_TIMES 200
#define TEXT_LEAST_BYTES ((size_t)1 << 26)
#define TEXT_MOST_BYTES ((size_t)1 << 31)
#define DEFAULT_SECONDS 60

static const bd_bare_format *const formats[] = {
    &bd_bare_chain,
    &bd_bare_graph,
    &bd_bare_sharding,
    &bd_bare_layers,
};
enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

static bd_status unknown_format(bd_ctx *ctx, const char *file) {
  const char *list = "";
  for (int i = 0; i < FORMAT_COUNT; i++)
    list =
        bd_intern_f(ctx, "%s%s%s (%s)", list, i ? "; " : "", formats[i]->name, formats[i]->summary);
  return bd_fail(ctx, BD_INVALID, bd_loc_file(file),
                 "is of no format that 'braid solve' knows: %s; docs/solve.md describes them",
                 list);
}

static const bd_bare_format *find_format(const char *data, size_t bytes) {
  for (int i = 0; i < FORMAT_COUNT; i++)
    if (formats[i]->recognize(data, bytes)) return formats[i];
  return NULL;
}

static bd_status read_request(bd_ctx *ctx, const bd_arguments *arguments, bd_bare_request *out) {
  int64_t budget = 0, threads = bd_machine_cores();
  *out = (bd_bare_request){.file = arguments->operand, .limit_seconds = DEFAULT_SECONDS};
  BD_TRY(bd_argument_real(ctx, arguments, "--time-limit", 0.001, 1e6, &out->limit_seconds));
  BD_TRY(bd_argument_bytes(ctx, arguments, "--budget", &budget));
  BD_TRY(bd_argument_int(ctx, arguments, "--threads", 1, 1024, &threads));
  out->budget = (double)budget;
  out->threads = (int)threads;
  out->stop = bd_stop_wish();
  out->json = bd_argument_flag(arguments, "--json");
  return BD_OK;
}

static size_t text_limit_bytes(size_t packed_bytes) {
  size_t limit = TEXT_TIMES * packed_bytes;
  if (limit < TEXT_LEAST_BYTES) return TEXT_LEAST_BYTES;
  return limit > TEXT_MOST_BYTES ? TEXT_MOST_BYTES : limit;
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  bd_bare_request request;
  char *data;
  BD_TRY(read_request(ctx, arguments, &request));
  BD_TRY(bd_file_read(ctx, request.file, FILE_LIMIT_BYTES, &data, &request.bytes));
  if (bd_gzip_recognize(data, request.bytes)) {
    BD_TRY(bd_gzip_inflate(ctx, request.file, data, request.bytes, text_limit_bytes(request.bytes),
                           &data, &request.bytes));
  }
  request.data = data;
  const bd_bare_format *format = find_format(request.data, request.bytes);
  if (!format) return unknown_format(ctx, request.file);
  if (format->wants_budget && request.budget < 1)
    return bd_usage_fail(
        ctx, arguments,
        "option '--budget' is missing: '%s' is a %s, which has no budget of its own", request.file,
        format->name);
  bd_text text = bd_text_init(ctx->arena);
  const char *path = bd_argument(arguments, "-o");
  if (path) BD_TRY(bd_answer_check_place(ctx, path));
  bd_stop_wish_begin();
  bd_status status = format->solve(ctx, &request, &text);
  bd_stop_wish_end();
  if (status == BD_EXTERNAL && *request.stop) *arguments->exit_code = BD_EXIT_STOPPED + SIGINT;
  BD_TRY(status);
  return bd_answer_write(ctx, &text, path);
}

static const bd_option options[] = {
    {"--budget", "N", "memory, in the file's unit (a size such as 1.5GiB counts bytes)"},
    {"--time-limit", "SECONDS", "of the search (default 60)"},
    {"--threads", "N", "of sharding problems' search, at most two of use (default: one a core)"},
    {"--json", NULL, "as JSON, for programs (docs/solve.md)"},
    {"-o", "FILE", "where to write (default: standard output)"},
    {0},
};
const bd_command bd_command_solve = {
    .name = "solve",
    .summary = "solve a bare problem: numbers alone, in one of several formats",
    .operand = "FILE",
    .options = options,
    .writes = (const char *const[]){"-o", NULL},
    .details = "The format is recognized by the file's first words; docs/solve.md describes each:\n"
               "  chain     recomputation of a chain of layers; needs --budget, in its slots\n"
               "  graph     recomputation of a graph of values\n"
               "  sharding  strategies of nodes and edges, usages over time (google/iopddl)\n"
               "  layers    layers with options, on devices with links\n"
               "Only the search of sharding problems runs on several threads; ended by no limit, "
               "it gives the same\n"
               "answer with any number. Ctrl-C ends the search with the best answer so far; a "
               "second one ends braid.\n\n"
               "example: braid solve chain.txt --budget 500 --json\n",
    .run = run,
};
