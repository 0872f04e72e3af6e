// Dynamic loss scaling of f16 programs (Micikevicius et al. 2018, Mixed Precision Training, section
// 3.2; the rule and its constants are those of PyTorch's GradScaler). The gradient of the loss is
// multiplied by a scale, so that small gradients are numbers that f16 has, and what the optimizer
// reads is divided by it. A step whose loss or gradient is not finite changes nothing but the
// scale.
#ifndef BD_RT_SCALE_H
#define BD_RT_SCALE_H
#include "runtime/rank.h"

#include <stddef.h>

// Whether the options suit the program; fills in the scaling ones that were not given. 0, or a
// usage error in `message`.
int bd_rt_scale_start(bd_rt *rt, char *message, size_t message_bytes);

// After a step, of which all ranks say the same: the scale of the next. 0, or where the loss is not
// scaled or its scale is at its least already: a status for a step that is not finite.
int bd_rt_scale_next(bd_rt *rt, int finite);
#endif
