// An attention while it is recognised, and the masks that its scores get.
#ifndef BD_IR_PASSES_RECOVER_ATTENDING_H
#define BD_IR_PASSES_RECOVER_ATTENDING_H
#include "ir/passes/recover/views.h"

typedef struct bd_attending {
  bd_edit *e;
  bd_id scores; // then what they are made of
  int rank;     // of the scores
  double scale; // of the product of queries and keys
  bool causal;
  double window;                // of keys up to its own that a query sees; 0: all
  bd_lettered hidden;           // what is added to the scores of keys, or BD_NO_ID
  double hidden_scale;          // of that
  bool hides_where;             // it is a condition, for what is hidden
  const bd_op *biases;          // the lookup of what is added by relative position, or NULL
  int64_t far;                  // its row for a query's own position
  double biases_scale;          // of that
  const bd_op *dropout;         // of the probabilities, or NULL
  bd_lettered q, k, v;          // letters are those of the scores' dimensions, and two more
  char score[BD_MAX_RANK + 1];  // letters of the scores: b, heads, t, s
  char result[BD_MAX_RANK + 1]; // letters of the result
  char inner, wide;             // summed over queries and keys; the values' own, in the second rule
} bd_attending;

// A mask that `op`, a sum or a choice, lays over the scores: it goes, and a->scores are what is
// left. Nothing, a triangle, a window's left edge, or what is told by sample and key. False: it is
// none of these.
bool bd_attending_take_sum(bd_attending *a, const bd_op *op);
bool bd_attending_take_select(bd_attending *a, const bd_op *op);
// The same of a bound, max of the scores and next to -inf, which some exporters lay over masks.
bool bd_attending_take_bound(bd_attending *a, const bd_op *op);
// Biases by relative position: `mask`, a value that is added to the scores, is made by `lookup`.
bool bd_attending_take_biases(bd_attending *a, const bd_lettered *mask, const bd_op *lookup);
// Whether there are no more of them than attention takes; once all masks are known.
bool bd_attending_can_bias(const bd_attending *a);
// They as [heads, places], of e->to.
BD_NODISCARD bd_status bd_attending_emit_biases(bd_attending *a, bd_id *out);
// Hides keys by terms that the product of queries and keys has more: `in` are queries, keys and
// values, [b, place, heads, width], of e->to.
BD_NODISCARD bd_status bd_attending_hide_keys(bd_attending *a, bd_id in[3]);
#endif
