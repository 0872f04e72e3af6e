// Permutations, reshapes and repetitions: chains of them made short, and taken into contractions,
// whose rules can say them.
#ifndef BD_IR_PASSES_RECOVER_VIEWS_H
#define BD_IR_PASSES_RECOVER_VIEWS_H
#include "ir/passes/recover/edit.h"

// An operand of a contraction: a letter per dimension.
typedef struct bd_lettered {
  bd_id id;
  char letters[BD_MAX_RANK + 1];
} bd_lettered;

// "ab,bc->ac" in its parts. False: it has another form.
bool bd_split_rule(const char *rule, bd_lettered in[2], char result[BD_MAX_RANK + 1]);
// Takes one permutation, or repetition over letters of `keeps`, off the value. False: there is
// none.
bool bd_strip_view(const bd_edit *e, const char *keeps, bd_lettered *value);

// Permutes a value of e->to whose dimensions have `letters` to the order `wanted`.
BD_NODISCARD bd_status bd_emit_turned(bd_edit *e, const char *letters, const char *wanted,
                                      bd_id *id);
// The same elements in another shape; no op where it is the same.
BD_NODISCARD bd_status bd_emit_reshaped(bd_edit *e, int rank, const int64_t *dims, bd_id *id);

// Contractions of permuted and repeated operands become contractions of what these are made of.
bd_status bd_absorb_views(bd_edit *e, const void *user);
// Permutations and reshapes of what was scaled, as exporters write queries, are scaled instead.
bd_status bd_scale_views(bd_edit *e, const void *user);
// Permutations and reshapes of each other become at most a reshape, a permutation and a reshape.
bd_status bd_shorten_views(bd_edit *e, const void *user);
#endif
