// The library segment: what cuDNN's backward attention works in.
#include "ir/balance.h"
#include "ir/memory.h"

#include <string.h>

// Of heads that cuDNN takes; of gradients of scores, queries by keys; beside what is counted.
enum { WIDTH_UNIT = 8, MOST_WIDTH = 256 };
enum { QUERY_TILE = 64, KEY_TILE = 128 };
enum { REST_BYTES = 256 };
// Blocks that one run of it should have: three for each multiprocessor of an H100. And what runs of
// more heads than one may take for that.
enum { WANTED_BLOCKS = 3 * 132 };
static const int64_t most_shared_bytes = (int64_t)256 << 20;
// What the gradients of a tile's scores may take, and the rows of a tile of one query head.
static const int64_t most_tile_bytes = (int64_t)512 << 20;
enum { MOST_TILE = 16384 };
enum { SEGMENT_UNIT = 1 << 20 };

static int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// a x b x c x d; BD_LIBRARY_MOST_BYTES + 1 where it is more than the most. All are positive.
static int64_t product(int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t most = BD_LIBRARY_MOST_BYTES;
  if (b > most / a || c > most / (a * b) || d > most / (a * b * c)) return most + 1;
  return a * b * c * d;
}

// What each key-value head wants; more than BD_LIBRARY_MOST_BYTES: too much.
static int64_t head_bytes(int64_t group, int64_t tq, int64_t tk, int64_t d, int64_t d_v) {
  const int64_t most = BD_LIBRARY_MOST_BYTES;
  if (group > most || tq > most || tk > most || d > most || d_v > most) return most + 1;
  int64_t scores = product(2, group, round_up(tq, QUERY_TILE), round_up(tk, KEY_TILE));
  return scores + (group > 1 ? product(2, group, tk, d + d_v) : 0);
}

int64_t bd_memory_attention_bytes(int64_t heads, int64_t group, int64_t tq, int64_t tk, int64_t d,
                                  int64_t d_v) {
  const int64_t most = BD_LIBRARY_MOST_BYTES - BD_LIBRARY_KEPT_BYTES - REST_BYTES;
  int64_t each = head_bytes(group, tq, tk, d, d_v);
  return each > most / heads ? 0 : heads * each + REST_BYTES;
}

// The keys of a tile.
static int64_t tile_keys(int64_t rows, int64_t window) {
  return window > 0 ? rows + window - 1 : rows;
}

// As many rows as make up the op and whose scores, `group` times, have their bytes; 0: too few.
static int64_t tile_rows(int64_t group, int64_t tq, int64_t tk, int64_t window) {
  int64_t rows = tq < MOST_TILE ? tq : MOST_TILE;
  if (window > MOST_TILE) return 0;
  for (; rows >= BD_MEMORY_LEAST_TILE && rows >= window - 1; --rows)
    if (tq % rows == 0 && (window > 0 || tk % rows == 0) &&
        group <= most_tile_bytes / (2 * rows * tile_keys(rows, window)))
      return rows;
  return 0;
}

int64_t bd_memory_attention_tiles_bytes(int64_t group, int64_t tq, int64_t tk, int64_t d,
                                        int64_t d_v, int64_t window) {
  const int64_t rows = tile_rows(group, tq, tk, window), keys = tile_keys(rows, window),
                most = BD_LIBRARY_MOST_BYTES;
  if (rows == 0 || d > most || d_v > most || tk > most) return 0;
  // Sums of dk and dv; the sum of dq; what a tile makes of the three.
  const int64_t parts[] = {head_bytes(group, rows, keys, d, d_v),
                           product(4, tk, d + d_v, 1),
                           product(4, group, rows, d),
                           product(2, group, rows, d),
                           product(2, keys, d + d_v, 1),
                           7 * REST_BYTES};
  int64_t bytes = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
    bytes += parts[i];
  return bytes > most - BD_LIBRARY_KEPT_BYTES ? 0 : bytes;
}

int64_t bd_memory_attention_heads(int64_t group, int64_t tq, int64_t tk, int64_t d, int64_t d_v) {
  int64_t each = head_bytes(group, tq, tk, d, d_v);
  if (each > most_shared_bytes) return 1;
  int64_t blocks = group * (round_up(tk, KEY_TILE) / KEY_TILE);
  int64_t wanted = (WANTED_BLOCKS + blocks - 1) / blocks;
  int64_t within = most_shared_bytes / each;
  return wanted < within ? wanted : within;
}

// A gradient's of heads whole, of as many as run at once or of one, or else of tiles of one. Of
// half of the queries what all want, so that whether ranks swap them changes nothing.
static int64_t wanted_bytes(const bd_function *function, const bd_op *op, bool one_head) {
  const int64_t *q = function->values[op->in[1]].type.dims;
  const int64_t *k = function->values[op->in[2]].type.dims;
  int64_t group = q[2] / k[2], tq = bd_balance_queries(op, q[1]), tk = k[1], d = q[3];
  int64_t d_v = function->values[op->in[3]].type.dims[3];
  int64_t heads = one_head ? 1 : bd_memory_attention_heads(group, tq, tk, d, d_v);
  int64_t bytes = bd_memory_attention_bytes(heads, group, tq, tk, d, d_v);
  if (bytes > 0) return bytes;
  return bd_memory_attention_tiles_bytes(group, tq, tk, d, d_v, bd_op_int(op, "window", 0));
}

bool bd_attention_suits_library(const bd_function *function, const bd_op *op) {
  bool gradient = op->kind == BD_OP_ATTENTION_GRAD;
  bool forward = op->kind == BD_OP_ATTENTION || op->kind == BD_OP_SINK_ATTENTION;
  if (!forward && !gradient) return false;
  const bd_value *values = function->values;
  bd_dtype dtype = values[op->in[0]].type.dtype;
  if ((dtype != BD_BF16 && dtype != BD_F16) || bd_op_real(op, "dropout", 0) > 0) return false;
  for (int i = 0; i < op->in_count - gradient; ++i)
    if (values[op->in[i]].type.dtype != dtype) return false;
  for (int i = 0; i < op->out_count - !gradient; ++i)
    if (values[op->out[i]].type.dtype != dtype) return false;
  return true;
}

// Whether cuDNN takes heads of such a value.
static bool is_width(const bd_function *function, bd_id value) {
  int64_t width = function->values[value].type.dims[3];
  return width % WIDTH_UNIT == 0 && width <= MOST_WIDTH;
}

bool bd_attention_in_library(const bd_function *function, const bd_op *op) {
  if (!bd_attention_suits_library(function, op)) return false;
  bool gradient = op->kind == BD_OP_ATTENTION_GRAD;
  if (!is_width(function, op->in[gradient]) || !is_width(function, op->in[gradient + 2]))
    return false;
  return !gradient || wanted_bytes(function, op, true) > 0;
}

// What the function's longest attention wants of the segment; 0: nothing.
static int64_t longest_bytes(const bd_function *function, bool one_head) {
  int64_t longest = 0;
  for (int i = 0; i < function->op_count; ++i) {
    const bd_op *op = &function->ops[i];
    if (op->kind != BD_OP_ATTENTION_GRAD || !bd_attention_in_library(function, op)) continue;
    int64_t bytes = wanted_bytes(function, op, one_head);
    if (bytes > longest) longest = bytes;
  }
  return longest;
}

static bool is_called(const bd_module *module, const bd_function *function) {
  for (int i = 0; i < module->main->op_count; ++i) {
    const bd_op *op = &module->main->ops[i];
    if (op->kind == BD_OP_CALL && strcmp(op->callee, function->name) == 0) return true;
  }
  return false;
}

int64_t bd_memory_library_bytes(const bd_module *module) {
  int64_t most = BD_LIBRARY_LEAST_BYTES;
  if (!module->cuda) return 0;
  for (int i = 0; i < module->function_count; ++i) {
    const bd_function *function = module->functions[i];
    int64_t longest = longest_bytes(function, module->one_head);
    if (longest == 0) continue;
    int64_t bytes = round_up(longest + BD_LIBRARY_KEPT_BYTES, SEGMENT_UNIT);
    if (bytes > most && is_called(module, function)) most = bytes;
  }
  return most;
}
