// One test of an ONNX suite: a model, its inputs and the outputs that are expected, as the suite's
// folders hold them (model.onnx, test_data_set_0/input_0.pb, ..).
#ifndef SUITE_CASE_H
#define SUITE_CASE_H
#include "frontend/onnx/lower.h"
#include "ir/interpret.h"

enum { SUITE_MOST_INPUTS = 64 };

typedef struct suite_case {
  const char *name, *folder;
  bd_ctx *ctx;     // of this case alone, as long as the case; its diagnostics say why it fails
  const char *why; // it fails, where ctx has no diagnostic; NULL: it does not
  bd_onnx_model model;
  // Once it has run on the interpreter; `function` is NULL where all outputs were known beforehand.
  bd_onnx_program program;
  bd_tensor *in; // per parameter of the function
} suite_case;

// Reads the case in `folder`, holds inferred types and shapes and what is folded against the
// expected outputs, and so the interpreter's. False: it fails.
bool suite_case_interpret(suite_case *test, const char *name, const char *folder);
// Holds the function's results against the expected outputs. False: it fails, now at least.
bool suite_case_compare(suite_case *test, const bd_tensor *results);
void suite_case_end(suite_case *test);
#endif
