// Text files of one record a line: words between blanks, `#` begins a comment. The readers of
// chains and of graphs share it.
#ifndef BD_PLANNER_REMAT_LINES_H
#define BD_PLANNER_REMAT_LINES_H
#include "planner/bare.h"

enum { BD_LINE_WORDS = 16 };

typedef struct bd_lines {
  bd_ctx *ctx;
  const char *file, *data;
  size_t bytes, at; // `at`: where the next line begins
  int line;         // of the words below, from 1
  int words;        // at most BD_LINE_WORDS are kept, the rest is counted
  const char *word[BD_LINE_WORDS];
  int length[BD_LINE_WORDS], column[BD_LINE_WORDS];
} bd_lines;

bd_lines bd_lines_init(bd_ctx *ctx, const char *file, const char *data, size_t bytes);
// The next line that holds a word; false at the end.
bool bd_lines_next(bd_lines *lines);
// Whether word `index` of the line is `text`.
bool bd_lines_is(const bd_lines *lines, int index, const char *text);
// The place of word `index`, or of the line's end behind its last word.
bd_loc bd_lines_loc(const bd_lines *lines, int index);

// Errors of the following: BD_INVALID with the word's place, naming `what` and the range.
BD_NODISCARD bd_status bd_lines_count(const bd_lines *lines, int words, const char *form);
BD_NODISCARD bd_status bd_lines_int(const bd_lines *lines, int index, const char *what, int64_t min,
                                    int64_t max, int64_t *out);
// A number from 0 to 1e15.
BD_NODISCARD bd_status bd_lines_real(const bd_lines *lines, int index, const char *what,
                                     double *out);

// Whether the first words of a text are `first`, for recognizing a format.
bool bd_lines_begin(const char *data, size_t bytes, const char *first);
#endif
