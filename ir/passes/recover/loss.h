// The loss of logarithms of a softmax is the loss of what the softmax is taken of.
#ifndef BD_IR_PASSES_RECOVER_LOSS_H
#define BD_IR_PASSES_RECOVER_LOSS_H
#include "ir/passes/recover/edit.h"

bd_status bd_recover_loss(bd_edit *e, const void *user);
#endif
