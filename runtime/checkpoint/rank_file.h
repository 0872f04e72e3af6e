// A rank's file of a checkpoint: a safetensors file with its cuts, flat, each called by the
// weight's number in the model and what it is: "17.weight".
#ifndef BD_RT_RANK_FILE_H
#define BD_RT_RANK_FILE_H
#include "runtime/rank.h"
#include "runtime/safetensors.h"

enum { BD_RT_CUT_NAME = 48 };

// How a file is known again.
typedef struct bd_rt_seal {
  int64_t bytes;
  uint64_t digest; // runtime/checkpoint/digest.h
} bd_rt_seal;

void bd_rt_cut_name(int global_index, int kind, char out_name[BD_RT_CUT_NAME]);
// Writes what this rank writes (bd_rt_cut_written), of weights that no lower stage has, and waits
// until it is safe. 0, or an errno; the file may be there by half then.
int bd_rt_rank_file_write(bd_rt *rt, const char *path, bd_rt_seal *out_seal);
// Whether the file is the one that was sealed: 0, or a BD_RT_EXIT status and a message. Uses the
// rank's scratch.
int bd_rt_rank_file_check(bd_rt *rt, const char *path, bd_rt_seal seal, char *message,
                          size_t message_bytes);
#endif
