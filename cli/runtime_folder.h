// Where the runtime's sources are, which emitted programs carry along.
#ifndef BD_CLI_RUNTIME_FOLDER_H
#define BD_CLI_RUNTIME_FOLDER_H
#include "ir/base/context.h"

// The folder that BRAID_RUNTIME names; else the one installed beside this executable
// (../share/braid/runtime); else the source tree that this braid was built from.
// Errors: BD_INVALID when BRAID_RUNTIME names something else, BD_EXTERNAL when there is none.
BD_NODISCARD bd_status bd_runtime_folder(bd_ctx *ctx, const char **out_folder);
#endif
