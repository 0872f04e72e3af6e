#include "planner/select/scan.h"

#include <string.h>

// How many rows an array of arrays has at most, from its brackets.
static size_t count_rows(const bd_scan *scan) {
  size_t depth = 0, rows = 0;
  for (const char *c = scan->at; c < scan->end; c++) {
    if (*c == '[') rows += depth++ == 1;
    if (*c == '"' || *c == '{' || (*c == ']' && --depth == 0)) break;
  }
  return rows;
}

// How many numbers a row has at most.
static size_t count_values(const bd_scan *scan) {
  size_t values = 1;
  for (const char *c = scan->at; c < scan->end && *c != ']'; c++)
    values += *c == ',';
  return values;
}

enum { BLOCK_VALUES = 1 << 17 };

// Where rows are stored: the current block and what of it is taken.
typedef struct block {
  int64_t *values;
  size_t used, capacity;
} block;

static int64_t *reserve(bd_arena *arena, block *store, size_t values) {
  if (store->capacity - store->used < values) {
    size_t capacity = values > BLOCK_VALUES ? values : BLOCK_VALUES;
    *store = (block){BD_NEW_ARRAY(arena, int64_t, capacity), 0, capacity};
  }
  return store->values + store->used;
}

// Rows seen so far, by content: an open-addressed table of row numbers plus one.
typedef struct pool {
  uint32_t *slot;
  size_t slots; // a power of two, more than twice the rows
} pool;

static uint64_t hash(const int64_t *values, size_t count) {
  uint64_t h = 0x9e3779b97f4a7c15u + count;
  for (size_t i = 0; i < count; i++) {
    h = (h ^ (uint64_t)values[i]) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return h;
}

// Points the row at an earlier equal one; returns whether there was one.
static bool share_row(pool *seen, bd_scan_table *table, size_t row) {
  const int64_t *values = table->row[row];
  size_t length = table->length[row];
  size_t at = (size_t)hash(values, length) & (seen->slots - 1);
  for (; seen->slot[at]; at = (at + 1) & (seen->slots - 1)) {
    size_t other = seen->slot[at] - 1;
    if (table->length[other] == length &&
        memcmp(table->row[other], values, length * sizeof *values) == 0) {
      table->row[row] = table->row[other];
      return true;
    }
  }
  seen->slot[at] = (uint32_t)row + 1;
  return false;
}

static bd_status read_row(bd_scan *scan, int64_t least, block *store, bd_scan_table *table) {
  size_t row = table->rows, count = 0;
  bd_scan_peek(scan);
  const char *place = scan->at;
  BD_TRY(bd_scan_take(scan, '[', "`[`"));
  table->place[row] = place; // there is room for as many rows as there are brackets
  int64_t *values = reserve(scan->ctx->arena, store, count_values(scan));
  if (bd_scan_peek(scan) == ']') {
    scan->at++;
  } else {
    for (bool more = true; more; count++) {
      BD_TRY(bd_scan_integer(scan, least, values + count));
      BD_TRY(bd_scan_next(scan, ']', &more));
    }
  }
  if (count > INT32_MAX) return bd_scan_fail(scan, place, "too many entries");
  table->row[row] = values;
  table->length[row] = count;
  return BD_OK;
}

bd_status bd_scan_rows(bd_scan *scan, int64_t least, bool share, bd_scan_table *out) {
  bd_arena *arena = scan->ctx->arena;
  bd_scan_peek(scan);
  size_t rows = count_rows(scan);
  if (rows > INT32_MAX) return bd_scan_fail(scan, scan->at, "too many rows");
  *out = (bd_scan_table){.row = BD_NEW_ARRAY(arena, const int64_t *, rows),
                         .length = BD_NEW_ARRAY(arena, size_t, rows),
                         .place = BD_NEW_ARRAY(arena, const char *, rows)};
  pool seen = {.slots = 16};
  while (share && seen.slots <= 2 * rows)
    seen.slots *= 2;
  seen.slot = BD_NEW_ARRAY(arena, uint32_t, seen.slots);
  block store = {0};
  BD_TRY(bd_scan_take(scan, '[', "an array"));
  if (bd_scan_peek(scan) == ']') {
    scan->at++;
    return BD_OK;
  }
  for (bool more = true; more; out->rows++) {
    BD_TRY(read_row(scan, least, &store, out));
    if (!share || !share_row(&seen, out, out->rows)) store.used += out->length[out->rows];
    BD_TRY(bd_scan_next(scan, ']', &more));
  }
  return BD_OK;
}
