#include "planner/select/problem.h"
#include "planner/select/scan.h"

#include <string.h>

typedef enum key { PROBLEM, NAME, NODES, EDGES, LIMIT, INTERVALS, COSTS, USAGES, OTHER } key;

static const char *const key_names[] = {"problem",     "name",      "nodes", "edges",
                                        "usage_limit", "intervals", "costs", "usages"};

typedef struct reader {
  bd_scan scan;
  bd_select_problem *problem;
  bd_scan_table intervals, costs, usages, joins, matrices;
  const char *nodes_place, *edges_place;
} reader;

// Takes a key and its colon. `seen` has a bit per known key of the object.
static bd_status take_key(bd_scan *scan, unsigned *seen, key *out) {
  const char *text = NULL;
  size_t length = 0;
  bd_scan_peek(scan);
  const char *place = scan->at;
  BD_TRY(bd_scan_string(scan, &text, &length));
  key found = PROBLEM;
  while (found < OTHER &&
         (strlen(key_names[found]) != length || memcmp(key_names[found], text, length) != 0)) {
    found++;
  }
  if (found < OTHER && *seen & 1u << found) {
    return bd_scan_fail(scan, place, "`%s` stands twice", key_names[found]);
  }
  *seen |= 1u << found;
  *out = found;
  return bd_scan_take(scan, ':', "`:`");
}

typedef bd_status (*member_fn)(reader *r, key which);

// Reads an object; `member` reads the values of the keys in `known`, others are skipped. All of
// `required` must be there.
static bd_status read_object(reader *r, unsigned known, unsigned required, member_fn member) {
  unsigned seen = 0;
  BD_TRY(bd_scan_take(&r->scan, '{', "an object"));
  const char *place = r->scan.at - 1;
  bool more = bd_scan_peek(&r->scan) != '}';
  if (!more) r->scan.at++;
  while (more) {
    key which = OTHER;
    BD_TRY(take_key(&r->scan, &seen, &which));
    BD_TRY(known & 1u << which ? member(r, which) : bd_scan_skip(&r->scan));
    BD_TRY(bd_scan_next(&r->scan, '}', &more));
  }
  for (key k = PROBLEM; k < OTHER; k++) {
    if (required & ~seen & 1u << k) {
      return bd_scan_fail(&r->scan, place, "this object lacks `%s`", key_names[k]);
    }
  }
  return BD_OK;
}

static bd_status node_member(reader *r, key which) {
  if (which == INTERVALS) return bd_scan_rows(&r->scan, INT64_MIN, false, &r->intervals);
  return bd_scan_rows(&r->scan, 0, false, which == COSTS ? &r->costs : &r->usages);
}

static bd_status edge_member(reader *r, key which) {
  return which == COSTS ? bd_scan_rows(&r->scan, 0, true, &r->matrices)
                        : bd_scan_rows(&r->scan, 0, false, &r->joins);
}

static bd_status problem_member(reader *r, key which) {
  bd_scan_peek(&r->scan);
  if (which == NODES) {
    unsigned keys = 1u << INTERVALS | 1u << COSTS | 1u << USAGES;
    r->nodes_place = r->scan.at;
    return read_object(r, keys, keys, node_member);
  }
  if (which == EDGES) {
    unsigned keys = 1u << NODES | 1u << COSTS;
    r->edges_place = r->scan.at;
    return read_object(r, keys, keys, edge_member);
  }
  if (which == LIMIT) return bd_scan_integer(&r->scan, 0, &r->problem->limit);
  const char *name = NULL;
  size_t length = 0;
  BD_TRY(bd_scan_string(&r->scan, &name, &length));
  r->problem->name = bd_intern(r->scan.ctx, name, length);
  return BD_OK;
}

static bd_status file_member(reader *r, key which) {
  (void)which;
  return read_object(r, 1u << NAME | 1u << NODES | 1u << EDGES | 1u << LIMIT,
                     1u << NODES | 1u << EDGES, problem_member);
}

// The rows one after the other.
static int64_t *gather(bd_arena *arena, const bd_scan_table *table, size_t total) {
  int64_t *all = BD_NEW_ARRAY(arena, int64_t, total), *next = all;
  for (size_t i = 0; i < table->rows; i++) {
    memcpy(next, table->row[i], table->length[i] * sizeof *next);
    next += table->length[i];
  }
  return all;
}

static bd_status build_nodes(reader *r) {
  bd_select_problem *p = r->problem;
  bd_arena *arena = r->scan.ctx->arena;
  size_t n = r->costs.rows;
  if (r->usages.rows != n || r->intervals.rows != n) {
    return bd_scan_fail(&r->scan, r->nodes_place,
                        "%zu intervals, %zu rows of costs and %zu of usages: each node has one",
                        r->intervals.rows, n, r->usages.rows);
  }
  p->nodes = (int)n;
  p->lower = BD_NEW_ARRAY(arena, int64_t, n);
  p->upper = BD_NEW_ARRAY(arena, int64_t, n);
  p->start = BD_NEW_ARRAY(arena, size_t, n + 1);
  for (size_t i = 0; i < n; i++) {
    size_t strategies = r->costs.length[i];
    p->start[i + 1] = p->start[i] + strategies;
    if (r->intervals.length[i] != 2) {
      return bd_scan_fail(&r->scan, r->intervals.place[i],
                          "the interval of node %zu has %zu numbers, not 2", i,
                          r->intervals.length[i]);
    }
    p->lower[i] = r->intervals.row[i][0];
    p->upper[i] = r->intervals.row[i][1];
    if (strategies == 0) {
      return bd_scan_fail(&r->scan, r->costs.place[i], "node %zu has no strategy", i);
    }
    if (r->usages.length[i] != strategies) {
      return bd_scan_fail(&r->scan, r->usages.place[i],
                          "node %zu has %zu usages and %zu costs: each strategy has one", i,
                          r->usages.length[i], strategies);
    }
  }
  int64_t total = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t most = 0;
    for (size_t s = 0; s < r->usages.length[i]; s++)
      most = r->usages.row[i][s] > most ? r->usages.row[i][s] : most;
    if (__builtin_add_overflow(total, most, &total) || total >= (int64_t)1 << 62) {
      return bd_scan_fail(&r->scan, r->usages.place[i],
                          "the usages add up to 2^62 or more; state them in a larger unit");
    }
  }
  p->cost = gather(arena, &r->costs, p->start[n]);
  p->usage = gather(arena, &r->usages, p->start[n]);
  return BD_OK;
}

static bd_status build_edges(reader *r) {
  bd_select_problem *p = r->problem;
  size_t m = r->joins.rows;
  if (r->matrices.rows != m) {
    return bd_scan_fail(&r->scan, r->edges_place,
                        "%zu pairs of nodes and %zu rows of costs: each edge has one", m,
                        r->matrices.rows);
  }
  p->edges = (int)m;
  p->edge = BD_NEW_ARRAY(r->scan.ctx->arena, bd_select_edge, m);
  for (size_t e = 0; e < m; e++) {
    const int64_t *pair = r->joins.row[e];
    if (r->joins.length[e] != 2) {
      return bd_scan_fail(&r->scan, r->joins.place[e], "edge %zu joins %zu nodes, not 2", e,
                          r->joins.length[e]);
    }
    if (pair[0] >= p->nodes || pair[1] >= p->nodes) {
      return bd_scan_fail(&r->scan, r->joins.place[e],
                          "edge %zu joins nodes %lld and %lld; the nodes are 0 to %d", e,
                          (long long)pair[0], (long long)pair[1], p->nodes - 1);
    }
    p->edge[e] = (bd_select_edge){(int)pair[0], (int)pair[1], r->matrices.row[e]};
    size_t rows = (size_t)bd_select_strategies(p, p->edge[e].from);
    size_t columns = (size_t)bd_select_strategies(p, p->edge[e].to);
    if (r->matrices.length[e] / rows != columns || r->matrices.length[e] % rows != 0) {
      return bd_scan_fail(&r->scan, r->matrices.place[e],
                          "edge %zu has %zu costs; its nodes have %zu and %zu strategies", e,
                          r->matrices.length[e], rows, columns);
    }
  }
  return BD_OK;
}

bd_status bd_select_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                         bd_select_problem *out_problem) {
  *out_problem = (bd_select_problem){.name = "", .limit = INT64_MAX};
  reader r = {.scan = {.ctx = ctx, .file = file, .data = data, .at = data, .end = data + bytes},
              .problem = out_problem};
  BD_TRY(read_object(&r, 1u << PROBLEM, 1u << PROBLEM, file_member));
  bd_scan_peek(&r.scan);
  if (r.scan.at != r.scan.end) {
    return bd_scan_fail(&r.scan, r.scan.at, "text after the end of the problem");
  }
  BD_TRY(build_nodes(&r));
  BD_TRY(build_edges(&r));
  out_problem->forbidden = bd_select_forbidden(out_problem);
  return BD_OK;
}

bool bd_select_recognize(const char *data, size_t bytes) {
  bd_scan scan = {.data = data, .at = data, .end = data + bytes};
  static const char first[] = "\"problem\"";
  if (bd_scan_peek(&scan) != '{') return false;
  scan.at++;
  bd_scan_peek(&scan);
  return (size_t)(scan.end - scan.at) >= sizeof first - 1 &&
         memcmp(scan.at, first, sizeof first - 1) == 0;
}
