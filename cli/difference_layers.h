// What two plans choose for their layers.
#ifndef BD_CLI_DIFFERENCE_LAYERS_H
#define BD_CLI_DIFFERENCE_LAYERS_H
#include "cli/difference.h"

// Adds a choice for every range of layers that stands elsewhere, and for what differs in how they
// run: each op, and values by what is different of them.
void bd_difference_layers(bd_ctx *ctx, bd_difference *out);
#endif
