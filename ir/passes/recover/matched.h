// Macro-ops that patterns describe: norms and activations.
#ifndef BD_IR_PASSES_RECOVER_MATCHED_H
#define BD_IR_PASSES_RECOVER_MATCHED_H
#include "ir/passes/recover/edit.h"
#include "ir/passes/recover/pattern.h"

// Rules of match_rules.def. What a match computes on its way must be read by it alone.
int bd_match_rule_count(void);
BD_NODISCARD bd_status bd_recover_matched(bd_ctx *ctx, int rule, bd_function **function,
                                          int *changes);

// Whether every op of the match but that of `root`, and constants, is read by the match alone.
bool bd_match_is_closed(const bd_edit *e, const bd_match *match, bd_id root);
#endif
