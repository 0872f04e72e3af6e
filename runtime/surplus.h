// What the weights of --init hold beside those of the model.
#ifndef BD_RT_SURPLUS_H
#define BD_RT_SURPLUS_H
#include "runtime/rank.h"

// Refuses tensors that are neither weights of any stage, nor buffers and heads that files are known
// to have beside them, nor second copies of a tied weight with the same bytes: they would belong to
// another model. Says nothing of files that lack a weight, which loading does. Uses the scratch.
// 0, or a BD_RT_EXIT status with the reason in `message`.
int bd_rt_surplus_check(const bd_rt *rt, const bd_rt_source *source, char *message,
                        size_t message_bytes);
#endif
