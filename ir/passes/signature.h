// When two ops compute alike: the same kind, attributes and types.
#ifndef BD_IR_PASSES_SIGNATURE_H
#define BD_IR_PASSES_SIGNATURE_H
#include "ir/module.h"

// FNV-1a over `bytes`, continuing `hash`.
uint64_t bd_hash_bytes(uint64_t hash, const void *data, size_t bytes);
#define BD_HASH_START ((uint64_t)0xcbf29ce484222325u)

// Whether two attributes have the same value; names do not count.
bool bd_attr_equal(const bd_attr *a, const bd_attr *b);

// Of kind, attributes in any order (without `site`, when told so) and operand and result types.
uint64_t bd_op_signature(const bd_function *function, const bd_op *op, bool with_site);
bool bd_op_alike(const bd_function *function, const bd_op *a, const bd_op *b, bool with_site);
#endif
