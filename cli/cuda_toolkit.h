// The CUDA toolkit of this machine.
#ifndef BD_CLI_CUDA_TOOLKIT_H
#define BD_CLI_CUDA_TOOLKIT_H
#include "ir/base/context.h"

// The folder that CUDA_HOME names; else /usr/local/cuda; else the one that holds a ptxas on PATH:
// the first that holds all that programs are built with. Errors: BD_EXTERNAL, naming what to
// install.
BD_NODISCARD bd_status bd_cuda_toolkit_find(bd_ctx *ctx, const char **out_folder);
#endif
