// Programs that evaluate: functions of a graph that run once each, whole, on one rank, by the
// kernels and calls that training programs are made of. For holding generated code against the
// interpreter.
#ifndef BD_CODEGEN_EVALUATION_H
#define BD_CODEGEN_EVALUATION_H
#include "ir/module.h"

// An empty module of functions to be evaluated, in which B is `batch`.
bd_module *bd_evaluation_create(bd_ctx *ctx, int64_t batch);
// Adds a copy of `function`, of a graph, in ctx->arena.
BD_NODISCARD bd_status bd_evaluation_add(bd_ctx *ctx, bd_module *evaluation,
                                         const bd_function *function);

// Where the parameters of a function (or its results) lie in the program's input (output): one
// after another, each in bd_memory_value_bytes. Returns the bytes of all `count` values.
int64_t bd_evaluation_bytes(const bd_module *evaluation, const bd_function *function, int count,
                            const bd_id *values);

// Writes main.c, the kernels and a Makefile to `folder`, which exists; runtime/ is to lie beside
// them. `evaluate IN OUT` reads the parameters of all functions in their order from the file IN and
// writes their results to OUT. Errors: BD_UNSUPPORTED for ops that CPUs do not run, with no
// diagnostic of which function it is.
BD_NODISCARD bd_status bd_emit_evaluation(bd_ctx *ctx, const bd_module *evaluation,
                                          const char *folder);
#endif
