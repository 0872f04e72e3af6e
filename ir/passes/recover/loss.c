#include "ir/passes/recover/loss.h"
#include "ir/passes/recover/matched.h"

// The exponentials of the logarithms of a softmax add up to 1, so that lse is 0 up to rounding; the
// difference of lse and target is the same for what all elements are less a number of their row.
static const char of_logs[] =
    "xent(?z:sub(?d:sub(?x,rows(most(?x))),rows(log(sum(exp(?d))))),?t,lse(?z))";

bd_status bd_recover_loss(bd_edit *e, const void *user) {
  (void)user;
  const bd_op *op = &e->from->ops[e->at];
  bd_match match;
  bd_id lse, loss;
  if (op->kind != BD_OP_XENT ||
      !bd_pattern_match(bd_pattern_read(e->ctx, of_logs), e->from, op->out[0], &match) ||
      !bd_match_is_closed(e, &match, op->out[0]))
    return BD_OK;
  bd_id x = bd_edit_value(e, match.value['x' - 'a']), t = bd_edit_value(e, match.value['t' - 'a']);
  BD_TRY(bd_edit_emit(e, BD_OP_LSE, 1, &x, 0, NULL, &lse));
  BD_TRY(bd_edit_emit(e, BD_OP_XENT, 3, (bd_id[]){x, t, lse}, 0, NULL, &loss));
  bd_edit_stand(e, op->out[0], loss);
  return BD_OK;
}
