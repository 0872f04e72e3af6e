// Bare problems: what `braid solve` reads. Numbers alone, no model and no cluster file; each format
// has a reader, a solver and a printer of its own.
#ifndef BD_PLANNER_BARE_H
#define BD_PLANNER_BARE_H
#include "ir/base/context.h"
#include "ir/base/text.h"

typedef struct bd_bare_request {
  const char *file; // for diagnostics
  const char *data;
  size_t bytes;
  double limit_seconds; // of wall time
  double budget;        // of memory, in the file's own unit; 0: the file's, or none
  int threads;          // at most
  bool json;
} bd_bare_request;

typedef struct bd_bare_format {
  const char *name;    // "sharding"
  const char *summary; // for the help
  // Whether the text looks like this format: from its first words, without reading it whole.
  bool (*recognize)(const char *data, size_t bytes);
  // Reads, solves and prints the answer to `out`: JSON when `json` is set, else words. Errors:
  // BD_INVALID with place, BD_INFEASIBLE when nothing satisfies the limits.
  bd_status (*solve)(bd_ctx *ctx, const bd_bare_request *request, bd_text *out);
} bd_bare_format;

// Strategy selection under usages over time, as in the ASPLOS 2025 contest (planner/select).
extern const bd_bare_format bd_bare_sharding;
// Recomputation of chains and of graphs (planner/remat).
extern const bd_bare_format bd_bare_chain, bd_bare_graph;
// Layers with options on devices with links (planner/layers).
extern const bd_bare_format bd_bare_layers;
#endif
