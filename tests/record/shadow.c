#include "tests/record/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void record_shadow_clear(record_shadow *shadow) {
  shadow->count = 0;
}

void record_shadow_deinit(record_shadow *shadow) {
  free(shadow->pieces);
  *shadow = (record_shadow){0};
}

// The first piece that ends after `at`.
static int find(const record_shadow *shadow, int64_t at) {
  int low = 0, high = shadow->count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (shadow->pieces[middle].end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Makes room for `fresh` pieces in the place of [first, last).
static record_piece *replace(record_shadow *shadow, int first, int last, int fresh) {
  const int count = shadow->count - (last - first) + fresh;
  if (count > shadow->capacity) {
    shadow->capacity = 2 * count;
    shadow->pieces = realloc(shadow->pieces, (size_t)shadow->capacity * sizeof *shadow->pieces);
    if (!shadow->pieces) {
      fprintf(stderr, "out of memory\n");
      exit(1);
    }
  }
  memmove(shadow->pieces + first + fresh, shadow->pieces + last,
          (size_t)(shadow->count - last) * sizeof *shadow->pieces);
  shadow->count = count;
  return shadow->pieces + first;
}

void record_shadow_set(record_shadow *shadow, int64_t start, int64_t bytes, int value) {
  const int64_t end = start + bytes;
  record_piece pieces[3];
  int count = 0;
  if (bytes <= 0) return;
  const int first = find(shadow, start);
  int last = first;
  while (last < shadow->count && shadow->pieces[last].start < end)
    last++;
  if (first < last && shadow->pieces[first].start < start)
    pieces[count++] =
        (record_piece){shadow->pieces[first].start, start, shadow->pieces[first].value};
  if (value != RECORD_NOBODY) pieces[count++] = (record_piece){start, end, value};
  if (first < last && shadow->pieces[last - 1].end > end)
    pieces[count++] =
        (record_piece){end, shadow->pieces[last - 1].end, shadow->pieces[last - 1].value};
  memcpy(replace(shadow, first, last, count), pieces, (size_t)count * sizeof *pieces);
}

bool record_shadow_holds(const record_shadow *shadow, int64_t start, int64_t bytes, int value,
                         int64_t *out_at, int *out_other) {
  for (int i = find(shadow, start); bytes > 0; i++) {
    const bool missing = i == shadow->count || shadow->pieces[i].start > start;
    if (missing || shadow->pieces[i].value != value) {
      *out_at = start;
      *out_other = missing ? RECORD_NOBODY : shadow->pieces[i].value;
      return false;
    }
    bytes -= shadow->pieces[i].end - start;
    start = shadow->pieces[i].end;
  }
  return true;
}
