// Checkpoints: everything that training goes on from, so that a run that is started again makes the
// numbers that it would have made, under the same plan bit for bit. Another plan reads them as
// well: what is kept are parts of the model's own tensors. See docs/checkpoints.md.
#ifndef BD_RT_CHECKPOINT_H
#define BD_RT_CHECKPOINT_H
#include "runtime/rank.h"

// All but bd_rt_checkpoint_due are collective. Statuses are 0, or come after one rank has spoken.

// --resume: the newest checkpoint that is whole and undamaged; where there is none and --checkpoint
// names the same folder the run starts from the beginning. *out_resumed: weights, the optimizer's
// state and where training stands are the checkpoint's.
int bd_rt_checkpoint_resume(bd_rt *rt, int *out_resumed);
// --checkpoint, once it is known where training starts: that the folder can be written, and that it
// has no checkpoints of another run. `resumed`: as bd_rt_checkpoint_resume found it.
int bd_rt_checkpoint_check(bd_rt *rt, int resumed);
// Whether --checkpoint-every wants one after the steps that are done.
int bd_rt_checkpoint_due(const bd_rt *rt);
// Between steps. Where it cannot be written it leaves nothing, and older ones stay.
int bd_rt_checkpoint_write(bd_rt *rt);
// What rank 0 says, on all ranks: a number below 2^53.
int64_t bd_rt_checkpoint_tell(bd_rt *rt, int64_t number);
#endif
