// Makes ONNX files of their text, in the text format of protocol buffers:
//   make_onnx [--tensor] TEXT OUT
// The text is that of a model, or of a tensor alone.
// A value is a number, a name of an element or attribute type, a string with C's escapes, a message
// in braces, or a list in brackets (packed). Bytes of elements are written f32 [..] and i64 [..].
// For files that are damaged, a field may be a number, and `bytes: "..."` stands for itself.
#include "tests/support/wire_writer.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct field {
  const char *message, *name;
  int number;
  const char *type; // of message: its fields'; "": a number or bytes
} field;

static const field fields[] = {
    {"Model", "ir_version", 1, ""},
    {"Model", "producer_name", 2, ""},
    {"Model", "graph", 7, "Graph"},
    {"Model", "opset_import", 8, "Opset"},
    {"Model", "functions", 25, "Function"},
    {"Opset", "domain", 1, ""},
    {"Opset", "version", 2, ""},
    {"Function", "name", 1, ""},
    {"Function", "input", 4, ""},
    {"Function", "output", 5, ""},
    {"Function", "attribute", 6, ""},
    {"Function", "node", 7, "Node"},
    {"Function", "opset_import", 9, "Opset"},
    {"Function", "domain", 10, ""},
    {"Function", "attribute_proto", 11, "Attribute"},
    {"Graph", "node", 1, "Node"},
    {"Graph", "name", 2, ""},
    {"Graph", "initializer", 5, "Tensor"},
    {"Graph", "input", 11, "ValueInfo"},
    {"Graph", "output", 12, "ValueInfo"},
    {"Graph", "sparse_initializer", 15, "Sparse"},
    {"Node", "input", 1, ""},
    {"Node", "output", 2, ""},
    {"Node", "name", 3, ""},
    {"Node", "op_type", 4, ""},
    {"Node", "attribute", 5, "Attribute"},
    {"Node", "domain", 7, ""},
    {"Attribute", "name", 1, ""},
    {"Attribute", "f", 2, ""},
    {"Attribute", "i", 3, ""},
    {"Attribute", "s", 4, ""},
    {"Attribute", "t", 5, "Tensor"},
    {"Attribute", "g", 6, "Graph"},
    {"Attribute", "floats", 7, ""},
    {"Attribute", "ints", 8, ""},
    {"Attribute", "strings", 9, ""},
    {"Attribute", "type", 20, ""},
    {"Attribute", "ref_attr_name", 21, ""},
    {"Tensor", "dims", 1, ""},
    {"Tensor", "data_type", 2, ""},
    {"Tensor", "float_data", 4, ""},
    {"Tensor", "int32_data", 5, ""},
    {"Tensor", "int64_data", 7, ""},
    {"Tensor", "name", 8, ""},
    {"Tensor", "raw_data", 9, ""},
    {"Tensor", "double_data", 10, ""},
    {"Tensor", "external_data", 13, "Entry"},
    {"Tensor", "data_location", 14, ""},
    {"Entry", "key", 1, ""},
    {"Entry", "value", 2, ""},
    {"Sparse", "values", 1, "Tensor"},
    {"Sparse", "indices", 2, "Tensor"},
    {"Sparse", "dims", 3, ""},
    {"ValueInfo", "name", 1, ""},
    {"ValueInfo", "type", 2, "Type"},
    {"Type", "tensor_type", 1, "TensorType"},
    {"Type", "sequence_type", 4, "Type"},
    {"TensorType", "elem_type", 1, ""},
    {"TensorType", "shape", 2, "Shape"},
    {"Shape", "dim", 1, "Dim"},
    {"Dim", "dim_value", 1, ""},
    {"Dim", "dim_param", 2, ""},
};

static const struct {
  const char *name;
  int value;
} words[] = {{"FLOAT", 1},  {"UINT8", 2},    {"INT32", 6},   {"INT64", 7},    {"STRING", 8},
             {"BOOL", 9},   {"FLOAT16", 10}, {"DOUBLE", 11}, {"EXTERNAL", 1}, {"INT", 2},
             {"TENSOR", 4}, {"GRAPH", 5},    {"FLOATS", 6},  {"INTS", 7},     {"STRINGS", 8}};

static const char *begin, *at;

static void fail(const char *what) {
  int line = 1;
  for (const char *byte = begin; byte < at; byte++)
    line += *byte == '\n';
  fprintf(stderr, "make_onnx: line %d: %s\n", line, what);
  exit(1);
}

static void skip(void) {
  for (;; at++) {
    if (*at == '#') at += strcspn(at, "\n");
    if (!isspace((unsigned char)*at) && *at != ',') return;
  }
}

static bool take(char byte) {
  skip();
  if (*at != byte) return false;
  at++;
  return true;
}

static void read_word(char *word, size_t room) {
  skip();
  size_t length = 0;
  while (isalnum((unsigned char)*at) || *at == '_') {
    if (length + 1 < room) word[length++] = *at;
    at++;
  }
  word[length] = '\0';
  if (length == 0) fail("a name is missing");
}

static void read_string(wire_writer *out) {
  for (at++; *at != '"'; at++) {
    char byte = *at;
    if (byte == '\0') fail("a string has no end");
    if (byte == '\\') {
      at++;
      char hex[3] = {at[1], at[1] ? at[2] : '\0', '\0'};
      byte = *at == 'n' ? '\n' : *at == '0' ? '\0' : *at == 'x' ? (char)strtol(hex, NULL, 16) : *at;
      if (*at == 'x') at += 2;
    }
    wire_bytes(out, &byte, 1);
  }
  at++;
}

// A number, or the word for one; whether it is written with a fraction.
static bool read_number(double *real, int64_t *integer) {
  skip();
  if (isalpha((unsigned char)*at)) {
    char word[64];
    read_word(word, sizeof word);
    if (strcmp(word, "nan") == 0 || strcmp(word, "inf") == 0) {
      *real = strtod(word, NULL);
      return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
      if (strcmp(words[i].name, word) == 0) {
        *integer = words[i].value;
        return false;
      }
    fail("an unknown word");
  }
  char *end, *real_end;
  *integer = strtoll(at, &end, 10);
  *real = strtod(at, &real_end);
  if (real_end == at) fail("a value is missing");
  at = real_end;
  return real_end != end;
}

static void add_number(wire_writer *out, int number) {
  double real;
  int64_t integer;
  if (read_number(&real, &integer))
    wire_float(out, number, (float)real);
  else
    wire_int(out, number, integer);
}

// Members of a list as bytes: floats and 64-bit integers, or (packed) varints.
static void read_list(wire_writer *out, bool varints) {
  while (!take(']')) {
    double real;
    int64_t integer;
    if (*at == '\0') fail("a list has no end");
    if (read_number(&real, &integer)) {
      float value = (float)real;
      wire_bytes(out, &value, sizeof value);
    } else if (varints) {
      wire_varint(out, (uint64_t)integer);
    } else {
      wire_bytes(out, &integer, sizeof integer);
    }
  }
}

static void read_message(wire_writer *out, const char *type);

static void read_value(wire_writer *out, int number, const char *type) {
  wire_writer inner = {NULL, 0, 0};
  skip();
  bool typed = strncmp(at, "f32", 3) == 0 || strncmp(at, "i64", 3) == 0;
  if (typed) at += 3;
  if (take('{')) {
    read_message(&inner, type);
    if (!take('}')) fail("a brace is missing");
    wire_message(out, number, &inner);
  } else if (take('[')) {
    read_list(&inner, !typed);
    wire_message(out, number, &inner);
  } else if (*at == '"') {
    read_string(&inner);
    wire_message(out, number, &inner);
  } else {
    add_number(out, number);
  }
  wire_free(&inner);
}

static void read_message(wire_writer *out, const char *type) {
  for (skip(); *at && *at != '}'; skip()) {
    char name[64];
    read_word(name, sizeof name);
    take(':');
    skip();
    if (strcmp(name, "bytes") == 0) {
      read_string(out);
      continue;
    }
    const field *known = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
      if (strcmp(fields[i].message, type) == 0 && strcmp(fields[i].name, name) == 0)
        known = &fields[i];
    if (!known && !isdigit((unsigned char)name[0])) fail("an unknown field");
    read_value(out, known ? known->number : atoi(name), known ? known->type : "");
  }
}

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 1 << 20);
  if (!file || !text || fread(text, 1, (1 << 20) - 1, file) == 0) {
    perror(path);
    exit(1);
  }
  fclose(file);
  return text;
}

int main(int argc, char **argv) {
  bool tensor = argc > 1 && strcmp(argv[1], "--tensor") == 0;
  if (argc != 3 + tensor) return 2;
  argv += tensor;
  char *text = read_file(argv[1]);
  wire_writer out = {NULL, 0, 0};
  begin = at = text;
  read_message(&out, tensor ? "Tensor" : "Model");
  if (*at) fail("a brace too many");
  FILE *file = fopen(argv[2], "wb");
  if (!file || fwrite(out.data, 1, out.bytes, file) != out.bytes || fclose(file) != 0) {
    perror(argv[2]);
    return 1;
  }
  wire_free(&out);
  free(text);
  return 0;
}
