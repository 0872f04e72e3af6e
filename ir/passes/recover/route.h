// Routing of tokens to experts, found in what exporters write it out in.
#ifndef BD_IR_PASSES_RECOVER_ROUTE_H
#define BD_IR_PASSES_RECOVER_ROUTE_H
#include "ir/passes/recover/edit.h"

// Sums of experts' values, each where a mask says that a token has chosen the expert, and products
// with matrices that are looked up by the tokens' choices, become experts that tokens are sent to
// (ir/routing.h), with as many places as `user`, the bd_recover_options, says. The weights of
// experts are joined along a first dimension.
bd_status bd_recover_routing(bd_edit *e, const void *user);
#endif
