// What an op of the exec module asks of the runtime.
#ifndef BD_RECORD_TERMS_H
#define BD_RECORD_TERMS_H
#include "ir/module.h"
#include "tests/record/event.h"

// The kind of event of an op that is a call of the runtime; RECORD_MARK: it is none.
record_kind record_kind_of(bd_op_kind kind);
// Bytes of one rank's part of a value, padding included.
int64_t record_value_bytes(const bd_module *module, const bd_value *value);
// Of a collective, send or receive of a function.
record_terms record_terms_of(const bd_module *module, const bd_function *function, const bd_op *op);
#endif
