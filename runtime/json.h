// The little JSON that safetensors headers, indexes of shards and checkpoints need: a cursor over
// text.
#ifndef BD_RT_JSON_H
#define BD_RT_JSON_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bd_rt_json {
  const char *at, *end;
} bd_rt_json;

// Skips white space, then takes `c` if it is next. Returns whether it was.
int bd_rt_json_take(bd_rt_json *json, char c);
// A string into `out` (at least `end - at` bytes), unescaped, ended with 0. Returns 0 when
// malformed: bad escapes, control bytes, NUL, surrogates that are not pairs.
int bd_rt_json_string(bd_rt_json *json, char *out, size_t *out_length);
// A whole number >= 0 below 2^62, without sign, fraction or exponent.
int bd_rt_json_whole(bd_rt_json *json, int64_t *out_value);
// Passes over a value of any kind, nested at most `depth` deep. `scratch` holds `end - at` bytes.
int bd_rt_json_skip(bd_rt_json *json, char *scratch, int depth);
// Writes `text` as a string, escaped.
void bd_rt_json_write(FILE *out, const char *text);
#endif
