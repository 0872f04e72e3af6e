// A folder of checkpoints: step-00000100 and so on, each whole by its name alone. One that is being
// written, or removed, is called step-00000100.partial.
#ifndef BD_RT_CHECKPOINT_FOLDER_H
#define BD_RT_CHECKPOINT_FOLDER_H
#include <stddef.h>
#include <stdint.h>

enum { BD_RT_PATH = 4096 };

// Paths; 0 where one is too long.
int bd_rt_checkpoint_path(const char *folder, int64_t step, char out_path[BD_RT_PATH]);
int bd_rt_checkpoint_partial_path(const char *folder, int64_t step, char out_path[BD_RT_PATH]);
int bd_rt_checkpoint_manifest_path(const char *checkpoint, char out_path[BD_RT_PATH]);
int bd_rt_checkpoint_file_path(const char *checkpoint, int rank, char out_path[BD_RT_PATH]);

// Whether both name one folder. A NULL names none.
int bd_rt_checkpoint_same(const char *folder, const char *other);
// The steps that the folder has checkpoints of, ascending, for the caller to free, and how many. 0
// or an errno; a folder that is not there has none.
int bd_rt_checkpoint_list(const char *folder, int64_t **out_steps, int *out_count);
// Makes the folder where there is none, and in it an empty one for the files of a step, `partial`.
// 0 or an errno.
int bd_rt_checkpoint_begin(const char *folder, const char *partial);
// Its files are safe: it gets its name, in the place of one that has it. 0 or an errno.
int bd_rt_checkpoint_commit(const char *folder, int64_t step);
// What is there by half is removed, as far as it can be.
void bd_rt_checkpoint_abandon(const char *folder, int64_t step);
// All but the newest `keep` are removed, as far as they can be.
void bd_rt_checkpoint_prune(const char *folder, int64_t keep);
#endif
