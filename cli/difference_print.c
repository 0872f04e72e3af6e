#include "cli/difference.h"

// Bytes in the columns of the names and of the first plan: these in any case, as many as the widest
// word in them has up to MOST_WIDTH. Numbers are narrower.
enum { NAME_WIDTH = 24, WIDTH = 24, MOST_WIDTH = 64 };

typedef struct page {
  bd_text *text;
  int name_width, width;
} page;

static void pad(const page *p, size_t start, int width) {
  while (p->text->length < start + (size_t)width)
    bd_text_add(p->text, " ");
}

static void widen(bd_text *scratch, const char *words, int *width) {
  scratch->length = 0;
  bd_explain_add_name(scratch, words);
  int wide = scratch->length < MOST_WIDTH ? (int)scratch->length : MOST_WIDTH;
  if (wide > *width) *width = wide;
}

static page open_page(const bd_difference *d, bd_text *text) {
  page p = {text, NAME_WIDTH, WIDTH};
  bd_text scratch = bd_text_init(text->arena);
  widen(&scratch, d->a->path, &p.width);
  for (int i = 0; i < d->choice_count; i++) {
    widen(&scratch, d->choices[i].name, &p.name_width);
    widen(&scratch, d->choices[i].a, &p.width);
  }
  return p;
}

static void add_row_name(const page *p, const char *name, int axis) {
  size_t start = p->text->length;
  bd_text_add(p->text, "  ");
  bd_explain_add_name(p->text, name);
  if (axis >= 0) bd_text_addf(p->text, ", axis %d", axis);
  pad(p, start, p->name_width + 2);
  bd_text_add(p->text, " ");
}

static void add_words(const page *p, const char *name, const char *a, const char *b) {
  add_row_name(p, name, -1);
  size_t start = p->text->length;
  bd_explain_add_name(p->text, a);
  pad(p, start, p->width);
  bd_text_add(p->text, " ");
  bd_explain_add_name(p->text, b);
}

// Ends a row whose last cell begins at `start`.
static void add_change(const page *p, size_t start, double a, double b) {
  if (a > 0 && b != a) {
    pad(p, start, WIDTH + 1);
    bd_text_add_change(p->text, a, b, 1);
  }
  bd_text_add(p->text, "\n");
}

void bd_difference_page(const bd_difference *d, bd_text *text) {
  page p = open_page(d, text);
  add_words(&p, "", d->a->path, d->b->path);
  bd_text_add(text, d->choice_count ? "\nchoices\n" : "\nchoices: the same\n");
  for (int i = 0; i < d->choice_count; i++) {
    add_words(&p, d->choices[i].name, d->choices[i].a, d->choices[i].b);
    bd_text_add(text, "\n");
  }
  bd_text_add(text, "seconds\n");
  for (int i = 0; i < d->seconds_count; i++) {
    const bd_seconds_row *row = &d->seconds[i];
    add_row_name(&p, row->name, row->axis);
    size_t start = text->length;
    bd_explain_add_seconds(text, row->a);
    pad(&p, start, p.width + 1);
    start = text->length;
    bd_explain_add_seconds(text, row->b);
    add_change(&p, start, row->a, row->b);
  }
  bd_text_add(text, "bytes per rank, on the fullest stage\n");
  for (int i = 0; i < d->bytes_count; i++) {
    const bd_bytes_row *row = &d->bytes[i];
    add_row_name(&p, row->name, -1);
    bd_text_addf(text, "%-*lld ", p.width, (long long)row->a);
    size_t start = text->length;
    bd_text_addf(text, "%lld", (long long)row->b);
    add_change(&p, start, (double)row->a, (double)row->b);
  }
}

static void add_string(bd_text *text, const char *key, const char *value) {
  bd_text_addf(text, "\"%s\": ", key);
  bd_text_add_json_string(text, value);
}

void bd_choice_row_json(const bd_choice_row *row, bd_text *text) {
  bd_text_add(text, "{");
  add_string(text, "name", row->name);
  bd_text_add(text, ", ");
  add_string(text, "a", row->a);
  bd_text_add(text, ", ");
  add_string(text, "b", row->b);
  bd_text_add(text, "}");
}

void bd_difference_json(const bd_difference *d, bd_text *text) {
  bd_text_add(text, "{\n  \"braid_diff\": 1,\n  ");
  add_string(text, "a", d->a->path);
  bd_text_add(text, ",\n  ");
  add_string(text, "b", d->b->path);
  bd_text_add(text, ",\n  \"choices\": [");
  for (int i = 0; i < d->choice_count; i++) {
    bd_text_add(text, i ? ",\n    " : "\n    ");
    bd_choice_row_json(&d->choices[i], text);
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
