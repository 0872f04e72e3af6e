// One file of saved weights.
#ifndef BD_RT_SAVE_H
#define BD_RT_SAVE_H
#include "runtime/rank.h"

// A stored tensor: the name it is written under, the file it goes to, and one of the weights that
// are parts of it, or that it is a part of, with its number there.
typedef struct bd_rt_stored {
  const bd_rt_weight *weight;
  int number;
  const char *name;
  int file;
} bd_rt_stored;

// Collective: all ranks give the same tensors. The weights' wide copies have been loaded. The file
// takes its place when it is whole. Returns 0 or a status after one rank has spoken.
int bd_rt_save_file(bd_rt *rt, const char *path, int count, const bd_rt_stored *stored);
#endif
