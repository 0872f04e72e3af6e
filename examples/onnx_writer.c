#include "onnx_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A message of protocol buffers that grows.
typedef struct message {
  unsigned char *data;
  size_t bytes, room;
} message;

static message graph, node;
static int nodes;

static void add(message *m, const void *data, size_t bytes) {
  if (m->bytes + bytes > m->room) {
    m->room = 2 * (m->bytes + bytes) + 64;
    m->data = realloc(m->data, m->room);
    if (!m->data) abort();
  }
  if (bytes) memcpy(m->data + m->bytes, data, bytes);
  m->bytes += bytes;
}

static void add_varint(message *m, uint64_t value) {
  for (; value > 127; value >>= 7)
    add(m, &(unsigned char){(unsigned char)(value | 128)}, 1);
  add(m, &(unsigned char){(unsigned char)value}, 1);
}

static void add_whole(message *m, int field, int64_t value) {
  add_varint(m, (uint64_t)field << 3);
  add_varint(m, (uint64_t)value);
}

static void add_bytes(message *m, int field, const void *data, size_t bytes) {
  add_varint(m, (uint64_t)field << 3 | 2);
  add_varint(m, bytes);
  add(m, data, bytes);
}

static void add_text(message *m, int field, const char *text) {
  add_bytes(m, field, text, strlen(text));
}

// Adds `inner`, which is used up.
static void add_message(message *m, int field, message *inner) {
  add_bytes(m, field, inner->data, inner->bytes);
  free(inner->data);
  *inner = (message){0};
}

onnx_value onnx_named(const char *format, ...) {
  onnx_value out;
  va_list list;
  va_start(list, format);
  vsnprintf(out.name, sizeof out.name, format, list);
  va_end(list);
  return out;
}

static void add_value(int field, const char *name, int type, int rank, const int64_t *dims) {
  message shape = {0}, tensor = {0}, about = {0}, info = {0};
  for (int d = 0; d < rank; d++) {
    message dim = {0};
    if (dims[d] == ONNX_BATCH)
      add_text(&dim, 2, "batch");
    else
      add_whole(&dim, 1, dims[d]);
    add_message(&shape, 1, &dim);
  }
  add_whole(&tensor, 1, type);
  add_message(&tensor, 2, &shape);
  add_message(&about, 1, &tensor);
  add_text(&info, 1, name);
  add_message(&info, 2, &about);
  add_message(&graph, field, &info);
}

onnx_value onnx_input(const char *name, int type, int rank, const int64_t *dims) {
  add_value(11, name, type, rank, dims);
  return onnx_named("%s", name);
}

void onnx_output(onnx_value value, int type, int rank, const int64_t *dims) {
  add_value(12, value.name, type, rank, dims);
}

static int64_t elements_of(int rank, const int64_t *dims) {
  int64_t elements = 1;
  for (int d = 0; d < rank; d++)
    elements *= dims[d];
  return elements;
}

// Takes over `values`.
static onnx_value add_weight(onnx_value name, int rank, const int64_t *dims, float *values) {
  message tensor = {0};
  for (int d = 0; d < rank; d++)
    add_whole(&tensor, 1, dims[d]);
  add_whole(&tensor, 2, ONNX_FLOAT);
  add_text(&tensor, 8, name.name);
  add_bytes(&tensor, 9, values, (size_t)elements_of(rank, dims) * sizeof *values);
  add_message(&graph, 5, &tensor);
  free(values);
  return name;
}

static float *reserve(int rank, const int64_t *dims) {
  float *const values = malloc((size_t)elements_of(rank, dims) * sizeof *values);
  if (!values) abort();
  return values;
}

onnx_value onnx_filled(onnx_value name, int rank, const int64_t *dims, float value) {
  float *const values = reserve(rank, dims);
  for (int64_t i = 0; i < elements_of(rank, dims); i++)
    values[i] = value;
  return add_weight(name, rank, dims, values);
}

onnx_value onnx_drawn(onnx_value name, int rank, const int64_t *dims, double bound) {
  static uint64_t state = 1;
  float *const values = reserve(rank, dims);
  for (int64_t i = 0; i < elements_of(rank, dims); i++) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    values[i] = (float)(((double)(state >> 40) / 8388608 - 1) * bound);
  }
  return add_weight(name, rank, dims, values);
}

static void add_attribute(const char *name, int count, const int64_t *values, int type) {
  message attribute = {0};
  add_text(&attribute, 1, name);
  for (int i = 0; i < count; i++)
    add_whole(&attribute, type == 2 ? 3 : 8, values[i]);
  add_whole(&attribute, 20, type);
  add_message(&node, 5, &attribute);
}

void onnx_int(const char *name, int64_t value) {
  add_attribute(name, 1, &value, 2);
}

void onnx_ints(const char *name, int count, const int64_t *values) {
  add_attribute(name, count, values, 7);
}

onnx_value onnx_node(const char *op, int count, const onnx_value *operands, int results) {
  const onnx_value first = onnx_named("/%s_%d_output_0", op, nodes);
  for (int i = 0; i < count; i++)
    add_text(&node, 1, operands[i].name);
  for (int i = 0; i < results; i++)
    add_text(&node, 2, i ? onnx_named("/%s_%d_output_%d", op, nodes, i).name : first.name);
  add_text(&node, 3, onnx_named("/%s_%d", op, nodes++).name);
  add_text(&node, 4, op);
  add_message(&graph, 1, &node);
  return first;
}

void onnx_write(const char *path, int opset) {
  message model = {0}, version = {0};
  add_whole(&version, 2, opset);
  add_text(&graph, 2, "main_graph");
  add_whole(&model, 1, 8);
  add_message(&model, 7, &graph);
  add_message(&model, 8, &version);
  FILE *const file = fopen(path, "wb");
  if (!file || fwrite(model.data, 1, model.bytes, file) != model.bytes || fclose(file) != 0) {
    perror(path);
    exit(4);
  }
  free(model.data);
}
