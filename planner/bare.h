// Bare problems: what `braid solve` reads. Numbers alone, no model and no cluster file; each format
// has a reader, a solver and a printer of its own.
#ifndef BD_PLANNER_BARE_H
#define BD_PLANNER_BARE_H
#include "ir/base/clock.h"
#include "ir/base/context.h"
#include "ir/base/text.h"

typedef struct bd_bare_request {
  const char *file; // for diagnostics
  const char *data;
  size_t bytes;
  double limit_seconds; // of wall time
  // Set by a signal handler, it ends the search with what it has; NULL: nobody does.
  const volatile sig_atomic_t *stop;
  double budget; // of memory, in the file's own unit; 0: the file's, or none
  int threads;   // at most
  bool json;
} bd_bare_request;

// When a search that begins now has to end.
bd_deadline bd_bare_deadline(const bd_bare_request *request);

// By how much the cost may lie above the least there is: cost / bound - 1; INFINITY when only the
// bound is 0.
double bd_bare_gap(double cost, double bound);
// "gap 1.234 %", or that the bound, being 0, gives none.
void bd_bare_add_gap(bd_text *text, double cost, double bound);

// Of a search that was cut short: "stopped by the time limit" or "stopped by an interrupt".
const char *bd_bare_ending(const bd_bare_request *request);
// Warns of an answer that is not proven, for the reason that is given or since the time limit or
// the user ended the search. `unit` is that of costs: " s", or "".
void bd_bare_warn_gap(bd_ctx *ctx, const bd_bare_request *request, const char *why, double cost,
                      double bound, const char *unit);
void bd_bare_warn_cut(bd_ctx *ctx, const bd_bare_request *request, double cost, double bound,
                      const char *unit);
// Refuses when the user ended the search before anything was found. Returns BD_EXTERNAL.
bd_status bd_bare_fail_interrupted(bd_ctx *ctx, const bd_bare_request *request);

typedef struct bd_bare_format {
  const char *name;    // "sharding"
  const char *summary; // for the help
  // Whether the text looks like this format: from its first words, without reading it whole.
  bool (*recognize)(const char *data, size_t bytes);
  bool wants_budget; // the file has none of its own, so the request must
  // Reads, solves and prints the answer to `out`: JSON when `json` is set, else words. An answer
  // that is not proven since the search was cut short comes with a warning. Errors: BD_INVALID with
  // place, BD_INFEASIBLE when nothing satisfies the limits, BD_EXTERNAL when nothing was found
  // before the search was cut short.
  bd_status (*solve)(bd_ctx *ctx, const bd_bare_request *request, bd_text *out);
} bd_bare_format;

// Strategy selection under usages over time, as in the ASPLOS 2025 contest (planner/select).
extern const bd_bare_format bd_bare_sharding;
// Recomputation of chains and of graphs (planner/remat).
extern const bd_bare_format bd_bare_chain, bd_bare_graph;
// Layers with options on devices with links (planner/graph).
extern const bd_bare_format bd_bare_layers;
#endif
