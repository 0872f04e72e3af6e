// Two plans side by side.
#ifndef BD_CLI_DIFFERENCE_H
#define BD_CLI_DIFFERENCE_H
#include "cli/explain.h"

// A choice in words; the two are not the same.
typedef struct bd_choice_row {
  const char *name, *a, *b;
} bd_choice_row;

// A part of the step, or of the fullest stage's bytes; one of the two may be 0.
typedef struct bd_seconds_row {
  const char *name;
  int axis; // -1: none
  double a, b;
} bd_seconds_row;
typedef struct bd_bytes_row {
  const char *name;
  int64_t a, b;
} bd_bytes_row;

enum { BD_MOST_CHOICES = 256 }; // told one by one; more are counted

typedef struct bd_difference {
  const bd_told_plan *a, *b;
  int choice_count, seconds_count, bytes_count;
  int untold_count; // choices beyond BD_MOST_CHOICES
  bd_choice_row *choices;
  bd_seconds_row *seconds; // the whole step first
  bd_bytes_row *bytes;     // the whole arena first, of each plan's fullest stage
} bd_difference;

// A JSON object.
void bd_choice_row_json(const bd_choice_row *row, bd_text *text);

// Adds a choice in words of both plans, unless they are the same.
void bd_difference_add(bd_difference *difference, const char *name, const char *a, const char *b);

// Lives in ctx->arena, and points into the plans.
bd_difference bd_difference_find(bd_ctx *ctx, const bd_told_plan *a, const bd_told_plan *b);
void bd_difference_page(const bd_difference *difference, bd_text *text);
// A JSON object (docs/explain-json.md) without a line end.
void bd_difference_json(const bd_difference *difference, bd_text *text);
#endif
