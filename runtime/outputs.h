// The files that a run writes.
#ifndef BRAID_RT_OUTPUTS_H
#define BRAID_RT_OUTPUTS_H
#include "runtime/options.h"

// Whether --metrics, --save, --report and --profile can be written and none of them is another,
// one of the program's own, the file of --tune, the data or, --save aside, the file of --init,
// asked before training so that its end does not fail. Leaves nothing behind. Returns 0, or a
// BD_RT_EXIT status and a message.
int bd_rt_outputs_check(const bd_rt_options *options, char *message, size_t size);

// How a file is written: where it stands, or whole beside it and renamed, which is for
// regular files alone.
typedef enum bd_rt_writing { BD_RT_IN_PLACE, BD_RT_REPLACED } bd_rt_writing;

// Whether a file of this name can be made or written again; else the reason is in `message`.
int bd_rt_outputs_writable(const char *path, bd_rt_writing writing, char *message, size_t size);
// The same of a folder that files are written to; one that is not there is made by who writes them.
int bd_rt_outputs_folder_writable(const char *path, char *message, size_t size);
#endif
