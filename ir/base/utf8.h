// Strict UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF.
#ifndef BD_IR_BASE_UTF8_H
#define BD_IR_BASE_UTF8_H
#include <stddef.h>
#include <stdint.h>

// Bytes of the character at `bytes`, of which `available` may be read; 0 when it is malformed.
// `*out_character` is set only when the result is not 0.
size_t bd_utf8_decode(const char *bytes, size_t available, uint32_t *out_character);
#endif
