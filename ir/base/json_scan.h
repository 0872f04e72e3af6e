// The strict first reading of a JSON text: grammar, depth, encoding, places and exact numbers.
// cJSON is shown only text that passed.
#ifndef BD_IR_BASE_JSON_SCAN_H
#define BD_IR_BASE_JSON_SCAN_H
#include "ir/base/json.h"

typedef struct bd_json_mark {
  bd_json_kind kind;
  int line, column;
  int key_line, key_column; // of the member's key; 0 outside objects
  size_t count;             // members of an array or object
  int64_t integer;
  double real;
} bd_json_mark;

typedef struct bd_json_scan {
  const char *text; // after a byte order mark
  size_t bytes;
  const bd_json_mark *marks; // in document order, a container before its members
  size_t mark_count;
  size_t member_count; // of all objects
  size_t string_bytes; // enough for all strings and keys, with their NULs
} bd_json_scan;

// `file` is in the session. The marks live in ctx->arena.
BD_NODISCARD bd_status bd_json_scan_text(bd_ctx *ctx, const char *file, const char *data,
                                         size_t bytes, bd_json_scan *out_scan);
#endif
