// The reader of the textual grammar: a cursor over the bytes, and the rules split over files.
#ifndef BD_IR_PARSE_INTERNAL_H
#define BD_IR_PARSE_INTERNAL_H
#include "ir/name_map.h"
#include "ir/print.h"

#define BD_TEXT_LIMIT_BYTES ((size_t)1 << 28)

typedef struct bd_parser {
  bd_ctx *ctx;
  const char *file;
  const char *at, *end, *line_start;
  int line;
  bd_module *module;
  bd_name_map functions, weights;
  bd_function *function; // the one being read
  bd_name_map values;    // of that function
} bd_parser;

// Tokens. All skip white space and comments first. Errors: BD_INVALID, "expected ..., found ...".
bd_loc bd_parser_loc(bd_parser *p); // of the next token
bool bd_parser_at_end(bd_parser *p);
bool bd_parser_peek(bd_parser *p, char byte);
bool bd_parser_accept(bd_parser *p, char byte);
bool bd_parser_accept_word(bd_parser *p, const char *word);
BD_NODISCARD bd_status bd_parser_expect(bd_parser *p, char byte);
BD_NODISCARD bd_status bd_parser_expect_word(bd_parser *p, const char *word);
BD_NODISCARD bd_status bd_parser_expected(bd_parser *p, const char *what); // always fails
BD_NODISCARD bd_status bd_parser_word(bd_parser *p, const char *what, const char **out_word);
BD_NODISCARD bd_status bd_parser_int(bd_parser *p, const char *what, int64_t min, int64_t max,
                                     int64_t *out_value);
BD_NODISCARD bd_status bd_parser_small(bd_parser *p, const char *what, int min, int max, int *out);
// An integer or, with a point, an exponent or a word (inf, nan), a real.
BD_NODISCARD bd_status bd_parser_number(bd_parser *p, const char *what, bool *out_is_real,
                                        int64_t *out_integer, double *out_real);
BD_NODISCARD bd_status bd_parser_string(bd_parser *p, const char *what, const char **out_string);
// @name or @"any bytes"
BD_NODISCARD bd_status bd_parser_symbol(bd_parser *p, const char *what, const char **out_name);
// %name
BD_NODISCARD bd_status bd_parser_value(bd_parser *p, const char **out_name);
// One of `count` names given by `name_of`; the number goes to *out.
BD_NODISCARD bd_status bd_parser_choice(bd_parser *p, const char *what, const char *const *names,
                                        int count, int *out);

// Rules.
BD_NODISCARD bd_status bd_parser_dtype(bd_parser *p, bd_dtype *out_dtype);
BD_NODISCARD bd_status bd_parser_type(bd_parser *p, bd_type *out_type);
// `[1,2,3]` of any length, in ctx->arena.
BD_NODISCARD bd_status bd_parser_ints(bd_parser *p, const char *what, int64_t min, int64_t max,
                                      int64_t **out_values, int *out_count);
// A type and, after it, the value's sharding and place.
BD_NODISCARD bd_status bd_parser_value_type(bd_parser *p, bd_value *out_value);
// Adds a value (or parameter) to p->function. Errors: the name is taken.
BD_NODISCARD bd_status bd_parser_define(bd_parser *p, bd_loc loc, const char *name,
                                        const bd_value *like, bool is_param, bd_id *out_id);
// The id of a value that is defined above.
BD_NODISCARD bd_status bd_parser_use(bd_parser *p, bd_id *out_id);
BD_NODISCARD bd_status bd_parser_op(bd_parser *p); // of p->function
BD_NODISCARD bd_status bd_parser_function(bd_parser *p, bool is_main);
#endif
