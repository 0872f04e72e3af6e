// This machine as a cluster: `--devices N`.
#ifndef BD_CLI_MACHINE_H
#define BD_CLI_MACHINE_H
#include "ir/cluster.h"

// Cores that this process may use.
int bd_machine_cores(void);

// One node of `devices` CPU ranks that share cores and memory evenly. Rates are nominal per core,
// not timed: the same machine always gives the same plan.
BD_NODISCARD bd_status bd_machine_probe(bd_ctx *ctx, int devices, bd_cluster *out_cluster);
#endif
