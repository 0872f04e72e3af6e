// Checks that a file is one JSON document and prints a line for each value that has no members:
//   results[1].folder = "odd \"name"
// Keys are as they stand in the file, strings escaped. The exit status is not 0 when it is not
// JSON.
//   json_lines FILE
#include "ir/base/json.h"
#include "ir/base/text.h"

static void add_value(bd_text *line, const bd_json *value) {
  switch (value->kind) {
  case BD_JSON_BOOL:
    bd_text_add(line, value->boolean ? "true" : "false");
    break;
  case BD_JSON_INT:
    bd_text_addf(line, "%lld", (long long)value->integer);
    break;
  case BD_JSON_REAL:
    bd_text_add_double(line, value->real);
    break;
  case BD_JSON_STRING:
    bd_text_add_json_string(line, value->string);
    break;
  case BD_JSON_ARRAY:
    bd_text_add(line, "[]");
    break;
  case BD_JSON_OBJECT:
    bd_text_add(line, "{}");
    break;
  case BD_JSON_NULL:
    bd_text_add(line, "null");
    break;
  }
}

// `path` is what leads to the value; the reader bounds how deep that goes.
static void print(bd_ctx *ctx, const char *path, const bd_json *value) {
  for (size_t i = 0; i < value->count; i++) {
    bd_text inner = bd_text_init(ctx->arena);
    bd_text_add(&inner, path);
    if (value->kind == BD_JSON_ARRAY)
      bd_text_addf(&inner, "[%zu]", i);
    else
      bd_text_addf(&inner, "%s%s", *path ? "." : "", value->keys[i]);
    print(ctx, inner.data, &value->items[i]);
  }
  if (value->count) return;
  bd_text line = bd_text_init(ctx->arena);
  bd_text_add(&line, path);
  bd_text_add(&line, " = ");
  add_value(&line, value);
  puts(line.data);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: json_lines FILE\n");
    return 2;
  }
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 2;
  const bd_json *document = NULL;
  const bd_status status = bd_json_read(ctx, argv[1], &document);
  if (status == BD_OK) print(ctx, "", document);
  bd_diags_print(ctx, stderr, false);
  bd_ctx_destroy(ctx);
  return bd_status_exit_code(status);
}
