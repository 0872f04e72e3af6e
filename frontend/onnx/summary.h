// What was recognised in a model, for people.
#ifndef BD_FRONTEND_ONNX_SUMMARY_H
#define BD_FRONTEND_ONNX_SUMMARY_H
#include "frontend/onnx/fact.h"
#include "ir/base/text.h"

// Inputs, outputs, parameters, what runs by kind and what was folded away, as lines of text.
void bd_onnx_summarize(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_fact *facts,
                       bd_text *text);

// Whether a node takes the elements of operand `i`, and not its type or shape alone, or elements
// that are known beforehand. An If takes the results of one branch.
bool bd_onnx_takes(const bd_onnx_fact *facts, const bd_onnx_node *node, int i);

// Per node, whether it runs: an output of the model needs it, and its results are not known
// beforehand. In ctx->arena.
const bool *bd_onnx_running(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_fact *facts);
#endif
