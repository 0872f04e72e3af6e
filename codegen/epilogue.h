// Which matrix products of a CUDA program do, in the same kernel, the work of another step of the
// function: a bias, GELU or its gradient, a sum with another tensor, the gradient of a bias. The
// other step's kernel stays in the program, for devices whose library cannot (bd_rt_matmul_with),
// and every buffer stays where memory planning has put it.
#ifndef BD_CODEGEN_EPILOGUE_H
#define BD_CODEGEN_EPILOGUE_H
#include "ir/fuse.h"

typedef struct bd_epilogue {
  int kind; // BD_RT_EPILOGUE_* of runtime/braid_rt_abi.h; NONE: a product, or a step, by itself
  int step; // the other step
  bd_id out, bias, other, sums; // as bd_rt_epilogue has them; BD_NO_ID where there is none
} bd_epilogue;

typedef struct bd_epilogues {
  bd_epilogue *of; // per step
  bool *taken;     // per step: a product does its work
} bd_epilogues;

// Of a function of an exec module, the fusion of which is `fusion`. What forward does in one kernel
// backward computes again in one, or neither does, so that recomputing changes no bit.
void bd_epilogue_find(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                      const bd_fusion *fusion, bd_epilogues *out_epilogues);
#endif
