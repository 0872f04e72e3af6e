// Words of JSON read where they stand, without a tree: problems of hundreds of megabytes are tables
// of integers.
#ifndef BD_PLANNER_SELECT_SCAN_H
#define BD_PLANNER_SELECT_SCAN_H
#include "ir/base/context.h"

typedef struct bd_scan {
  bd_ctx *ctx;
  const char *file, *data;
  const char *at, *end;
} bd_scan;

// Records an error at `place` of the text; line and column are counted only now.
bd_status bd_scan_fail(const bd_scan *scan, const char *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The next character that is not space, not taken; '\0' at the end of the text.
char bd_scan_peek(bd_scan *scan);
// Takes `wanted` or fails, saying `what` was expected.
BD_NODISCARD bd_status bd_scan_take(bd_scan *scan, char wanted, const char *what);
// Takes a comma (sets *more), or `close` (clears it).
BD_NODISCARD bd_status bd_scan_next(bd_scan *scan, char close, bool *more);

// An integer of at least `least`; 1e18 and 15.0 count as integers.
BD_NODISCARD bd_status bd_scan_integer(bd_scan *scan, int64_t least, int64_t *out);
// A string; its bytes as written between the quotes.
BD_NODISCARD bd_status bd_scan_string(bd_scan *scan, const char **out_bytes, size_t *out_length);
// Any value, at most 64 levels deep.
BD_NODISCARD bd_status bd_scan_skip(bd_scan *scan);

// An array of arrays of integers.
typedef struct bd_scan_table {
  size_t rows;
  const int64_t **row;
  size_t *length;     // of each row
  const char **place; // of each row, for diagnostics
} bd_scan_table;

// `share`: rows of equal content are stored once. At most INT32_MAX rows, and as many in a row.
BD_NODISCARD bd_status bd_scan_rows(bd_scan *scan, int64_t least, bool share, bd_scan_table *out);
#endif
