#include "cli/difference.h"

enum { NAME_WIDTH = 26, WIDTH = 24 };

static void pad(bd_text *text, size_t start, int width) {
  while (text->length < start + (size_t)width)
    bd_text_add(text, " ");
}

// A cell of at least `width` columns.
static void add_cell(bd_text *text, const char *words, int width) {
  size_t start = text->length;
  bd_explain_add_name(text, words);
  pad(text, start, width);
}

// Ends a row whose last cell begins at `start`.
static void add_change(bd_text *text, size_t start, double a, double b) {
  if (a > 0 && b != a) {
    pad(text, start, WIDTH + 1);
    bd_text_add_change(text, a, b, 1);
  }
  bd_text_add(text, "\n");
}

static void add_row_name(bd_text *text, const char *name, int axis) {
  size_t start = text->length;
  bd_text_add(text, "  ");
  bd_explain_add_name(text, name);
  if (axis >= 0) bd_text_addf(text, ", axis %d", axis);
  pad(text, start, NAME_WIDTH);
  bd_text_add(text, " ");
}

void bd_difference_page(const bd_difference *d, bd_text *text) {
  add_row_name(text, "", -1);
  add_cell(text, d->a->path, WIDTH);
  bd_text_add(text, " ");
  bd_explain_add_name(text, d->b->path);
  bd_text_add(text, d->choice_count ? "\nchoices\n" : "\nchoices: the same\n");
  for (int i = 0; i < d->choice_count; i++) {
    add_row_name(text, d->choices[i].name, -1);
    add_cell(text, d->choices[i].a, WIDTH);
    bd_text_add(text, " ");
    bd_explain_add_name(text, d->choices[i].b);
    bd_text_add(text, "\n");
  }
  bd_text_add(text, "seconds\n");
  for (int i = 0; i < d->seconds_count; i++) {
    const bd_seconds_row *row = &d->seconds[i];
    add_row_name(text, row->name, row->axis);
    size_t start = text->length;
    bd_explain_add_seconds(text, row->a);
    pad(text, start, WIDTH + 1);
    start = text->length;
    bd_explain_add_seconds(text, row->b);
    add_change(text, start, row->a, row->b);
  }
  bd_text_add(text, "bytes per rank, on the fullest stage\n");
  for (int i = 0; i < d->bytes_count; i++) {
    const bd_bytes_row *row = &d->bytes[i];
    add_row_name(text, row->name, -1);
    bd_text_addf(text, "%-*lld ", WIDTH, (long long)row->a);
    size_t start = text->length;
    bd_text_addf(text, "%lld", (long long)row->b);
    add_change(text, start, (double)row->a, (double)row->b);
  }
}

static void add_string(bd_text *text, const char *key, const char *value) {
  bd_text_addf(text, "\"%s\": ", key);
  bd_text_add_json_string(text, value);
}

void bd_difference_json(const bd_difference *d, bd_text *text) {
  bd_text_add(text, "{\n  \"braid_diff\": 1,\n  ");
  add_string(text, "a", d->a->path);
  bd_text_add(text, ",\n  ");
  add_string(text, "b", d->b->path);
  bd_text_add(text, ",\n  \"choices\": [");
  for (int i = 0; i < d->choice_count; i++) {
    bd_text_add(text, i ? ",\n    {" : "\n    {");
    add_string(text, "name", d->choices[i].name);
    bd_text_add(text, ", ");
    add_string(text, "a", d->choices[i].a);
    bd_text_add(text, ", ");
    add_string(text, "b", d->choices[i].b);
    bd_text_add(text, "}");
  }
  bd_text_add(text, "],\n  \"seconds\": [");
  for (int i = 0; i < d->seconds_count; i++) {
    const bd_seconds_row *row = &d->seconds[i];
    bd_text_addf(text, "%s\n    {\"name\": \"%s\", \"axis\": ", i ? "," : "", row->name);
    if (row->axis < 0)
      bd_text_add(text, "null");
    else
      bd_text_addf(text, "%d", row->axis);
    bd_text_add(text, ", \"a\": ");
    bd_text_add_json_number(text, row->a);
    bd_text_add(text, ", \"b\": ");
    bd_text_add_json_number(text, row->b);
    bd_text_add(text, "}");
  }
  bd_text_add(text, "],\n  \"bytes\": [");
  for (int i = 0; i < d->bytes_count; i++)
    bd_text_addf(text, "%s\n    {\"name\": \"%s\", \"a\": %lld, \"b\": %lld}", i ? "," : "",
                 d->bytes[i].name, (long long)d->bytes[i].a, (long long)d->bytes[i].b);
  bd_text_add(text, "]\n}");
}
