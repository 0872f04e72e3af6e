#include "ir/base/suggest.h"

#include <stddef.h>
#include <string.h>

enum { LONGEST = 64 };

static int least(int a, int b) {
  return a < b ? a : b;
}

// Edits (insert, delete, replace) from one word to the other, both at most LONGEST long.
static int distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  int row[LONGEST + 1];
  for (size_t j = 0; j <= b_length; ++j)
    row[j] = (int)j;
  for (size_t i = 1; i <= a_length; ++i) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= b_length; ++j) {
      int replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
    }
  }
  return row[b_length];
}

// The one name that begins with the word; NULL: there is none, or more.
static const char *completed(const char *word, size_t length, const char *const *names) {
  const char *only = NULL;
  for (; *names; ++names) {
    if (strncmp(*names, word, length) != 0) continue;
    if (only) return NULL;
    only = *names;
  }
  return only;
}

const char *bd_suggest(const char *word, const char *const *names) {
  size_t length = strlen(word);
  if (length > LONGEST) return NULL;
  const char *nearest = length > 1 ? completed(word, length, names) : NULL;
  if (nearest) return nearest;
  // A third of the word may be wrong.
  int bound = (int)(length + 2) / 3 + 1;
  for (; *names; ++names) {
    size_t name_length = strlen(*names);
    if (name_length > LONGEST) continue;
    int edits = distance(word, length, *names, name_length);
    if (edits >= bound) continue;
    bound = edits;
    nearest = *names;
  }
  return nearest;
}
