// A program with the weights of every stage written out.
#ifndef BRAID_RT_PROGRAM_H
#define BRAID_RT_PROGRAM_H
#include "runtime/braid_rt_abi.h"

// A copy of `program` whose stages list all their weights, each with its name and addresses; NULL
// when memory ran out. One block: free() it.
bd_rt_program *bd_rt_program_expand(const bd_rt_program *program);
#endif
