// JSON in: strict, bounded, located. Wraps cJSON and adds what it lacks (duplicate keys, NUL in
// strings, trailing text, depth, exact 64-bit integers).
#ifndef BD_IR_BASE_JSON_H
#define BD_IR_BASE_JSON_H
#include "ir/base/context.h"

typedef enum bd_json_kind {
  BD_JSON_NULL,
  BD_JSON_BOOL,
  BD_JSON_INT, // written without fraction or exponent and fits in int64
  BD_JSON_REAL,
  BD_JSON_STRING,
  BD_JSON_ARRAY,
  BD_JSON_OBJECT
} bd_json_kind;

typedef struct bd_json bd_json;
struct bd_json {
  bd_json_kind kind;
  bd_loc loc;
  bd_loc key_loc; // of an object's member: of its key
  bool boolean;
  int64_t integer; // BD_JSON_INT
  double real;     // BD_JSON_INT and BD_JSON_REAL
  const char *string;
  size_t count;         // members of an array or object
  const bd_json *items; // `count` of them
  const char **keys;    // of an object, in file order
};

#define BD_JSON_MAX_DEPTH 64

// Parses `bytes` bytes; `file` is for diagnostics. The tree lives in ctx->arena.
// Errors: BD_INVALID with line and column.
BD_NODISCARD bd_status bd_json_parse(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                                     const bd_json **out_json);
BD_NODISCARD bd_status bd_json_read(bd_ctx *ctx, const char *path, const bd_json **out_json);

// The member, or NULL.
const bd_json *bd_json_find(const bd_json *object, const char *key);
// The member, or NULL where it is absent or null.
const bd_json *bd_json_given(const bd_json *object, const char *key);

// A value as diagnostics name it. Lives in ctx->arena.
const char *bd_json_describe(bd_ctx *ctx, const bd_json *value);

// Whether a value is a whole number from `min` to `max`, also where it is written as 8e9.
bool bd_json_whole(const bd_json *value, int64_t min, int64_t max, int64_t *out);

// Typed members. Whole numbers may be written as 8e9 where that is exact. `required` false: *out is
// left alone when the member is absent (or null). Errors: BD_INVALID naming key, wanted kind and
// place.
BD_NODISCARD bd_status bd_json_int(bd_ctx *ctx, const bd_json *object, const char *key,
                                   bool required, int64_t min, int64_t max, int64_t *out);
BD_NODISCARD bd_status bd_json_real(bd_ctx *ctx, const bd_json *object, const char *key,
                                    bool required, double min, double max, double *out);
BD_NODISCARD bd_status bd_json_bool(bd_ctx *ctx, const bd_json *object, const char *key,
                                    bool required, bool *out);
BD_NODISCARD bd_status bd_json_string(bd_ctx *ctx, const bd_json *object, const char *key,
                                      bool required, const char **out);
BD_NODISCARD bd_status bd_json_array(bd_ctx *ctx, const bd_json *object, const char *key,
                                     bool required, const bd_json **out);
BD_NODISCARD bd_status bd_json_object(bd_ctx *ctx, const bd_json *object, const char *key,
                                      bool required, const bd_json **out);
// Refuses members that are not in `keys` (NULL-terminated), with a did-you-mean.
BD_NODISCARD bd_status bd_json_only(bd_ctx *ctx, const bd_json *object, const char *const *keys);
#endif
