// This machine as a cluster: `--devices N`.
#ifndef BD_CLI_MACHINE_H
#define BD_CLI_MACHINE_H
#include "ir/cluster.h"

// Cores that this process may use.
int bd_machine_cores(void);

// One node of `devices` CPU ranks that share cores and memory evenly. Rates are nominal per core,
// not timed: the same machine always gives the same plan.
BD_NODISCARD bd_status bd_machine_probe(bd_ctx *ctx, int devices, bd_cluster *out_cluster);

// Whether a cluster's name in a plan says "machine:N": some machine, not always this one.
bool bd_machine_is_named(const char *cluster);

// The cluster that the plan file `plan` names, as it is to be loaded: of a file that lies where the
// name leads from the plan's folder its path from here, else the name.
const char *bd_machine_beside(bd_ctx *ctx, const char *plan, const char *cluster);

// A cluster as plans name it: that, or what bd_cluster_load takes. `file`: the plan that names it.
BD_NODISCARD bd_status bd_machine_load(bd_ctx *ctx, const char *cluster, bd_loc file,
                                       bd_cluster *out_cluster);
#endif
