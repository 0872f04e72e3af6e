#ifndef BD_IR_CLUSTER_READ_H
#define BD_IR_CLUSTER_READ_H
#include "ir/base/json.h"
#include "ir/cluster.h"

// The file's content, checked. Errors: BD_INVALID at its place.
BD_NODISCARD bd_status bd_cluster_read(bd_ctx *ctx, const bd_json *json, bd_cluster *out_cluster);
#endif
