// Makes the ONNX file of a GPT-2 as PyTorch's exporter writes it: one flat graph, shapes computed
// from the inputs' shapes, layer norms, GELU, attention and its mask in their parts, weights in
// another file.
//   make_gpt_onnx LAYERS WIDTH HEADS VOCABULARY POSITIONS (logits|loss) OUT.onnx WEIGHTS.bin
// OUT.onnx and WEIGHTS.bin are written into the working folder. Weights above 64 MiB are a hole.
#include "tests/support/wire_writer.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLOAT = 1, UINT8 = 2, INT64 = 7, BOOL = 9, NAME = 96 };
static const int64_t most_filled_bytes = 64 << 20;

typedef struct name {
  char text[NAME];
} name;

static wire_writer graph, node, inner, deeper;
static char scope[NAME];
static const char *weights_file;
static int64_t weight_bytes, width, heads, vocabulary, positions, numbers;

static name fresh(const char *op) {
  name out;
  snprintf(out.text, NAME, "%.40s/%s_%lld_output_0", scope, op, (long long)numbers++);
  return out;
}

static void begin(const char *op) {
  char text[NAME];
  snprintf(text, NAME, "%.40s/%s_%lld", scope, op, (long long)numbers);
  wire_string(&node, 3, text);
  wire_string(&node, 4, op);
}

static void attribute_int(const char *key, int64_t value) {
  wire_string(&inner, 1, key);
  wire_int(&inner, 3, value);
  wire_int(&inner, 20, 2);
  wire_message(&node, 5, &inner);
}

static void attribute_ints(const char *key, int count, const int64_t *values) {
  wire_string(&inner, 1, key);
  for (int i = 0; i < count; i++)
    wire_int(&inner, 8, values[i]);
  wire_int(&inner, 20, 7);
  wire_message(&node, 5, &inner);
}

// The operands of the node that was begun; its one result.
static name finish(const char *op, int count, const name *operands) {
  name out = fresh(op);
  for (int i = 0; i < count; i++)
    wire_string(&node, 1, operands[i].text);
  wire_string(&node, 2, out.text);
  wire_message(&graph, 1, &node);
  return out;
}

static name one(const char *op, name x) {
  begin(op);
  return finish(op, 1, &x);
}

static name two(const char *op, name x, name y) {
  begin(op);
  return finish(op, 2, (name[]){x, y});
}

static name constant(int dtype, int rank, int64_t count, const void *data, size_t bytes) {
  begin("Constant");
  if (rank == 1) wire_int(&deeper, 1, count);
  wire_int(&deeper, 2, dtype);
  wire_block(&deeper, 9, data, bytes);
  wire_string(&inner, 1, "value");
  wire_message(&inner, 5, &deeper);
  wire_int(&inner, 20, 4);
  wire_message(&node, 5, &inner);
  return finish("Constant", 0, NULL);
}

static name whole(int64_t value) {
  return constant(INT64, 0, 1, &value, sizeof value);
}

static name list(int64_t value) {
  return constant(INT64, 1, 1, &value, sizeof value);
}

static name real(float value) {
  return constant(FLOAT, 0, 1, &value, sizeof value);
}

static void add_entry(const char *key, const char *value) {
  wire_string(&deeper, 1, key);
  wire_string(&deeper, 2, value);
  wire_message(&inner, 13, &deeper);
}

static name weight(const char *suffix, int64_t rows, int64_t columns) {
  name out;
  char number[32];
  int64_t bytes = 4 * columns * (rows ? rows : 1);
  snprintf(out.text, NAME, "%.60s.%s", scope + 1, suffix);
  if (rows) wire_int(&inner, 1, rows);
  wire_int(&inner, 1, columns);
  wire_int(&inner, 2, FLOAT);
  wire_string(&inner, 8, out.text);
  wire_int(&inner, 14, 1);
  add_entry("location", weights_file);
  snprintf(number, sizeof number, "%lld", (long long)weight_bytes);
  add_entry("offset", number);
  snprintf(number, sizeof number, "%lld", (long long)bytes);
  add_entry("length", number);
  wire_message(&graph, 5, &inner);
  weight_bytes += (bytes + 4095) / 4096 * 4096;
  return out;
}

// Extent `d` of x, as a scalar.
static name extent(name x, int64_t d) {
  name shape = one("Shape", x), index = whole(d);
  begin("Gather");
  attribute_int("axis", 0);
  return finish("Gather", 2, (name[]){shape, index});
}

static name reshape(name x, int count, const name *extents) {
  name parts[4];
  for (int i = 0; i < count; i++)
    parts[i] = two("Unsqueeze", extents[i], list(0));
  begin("Concat");
  attribute_int("axis", 0);
  name shape = finish("Concat", count, parts);
  return two("Reshape", x, shape);
}

static name transpose(name x, const int64_t order[4]) {
  begin("Transpose");
  attribute_ints("perm", 4, order);
  return finish("Transpose", 1, &x);
}

static name mean(name x) {
  begin("ReduceMean");
  attribute_ints("axes", 1, (int64_t[]){-1});
  return finish("ReduceMean", 1, &x);
}

static name layer_norm(name x, const char *gain, const char *bias) {
  name centred = two("Sub", x, mean(x));
  name variance = mean(two("Pow", centred, real(2)));
  name deviation = one("Sqrt", two("Add", variance, real(1e-5F)));
  name normal = two("Div", centred, deviation);
  return two("Add", two("Mul", normal, weight(gain, 0, width)), weight(bias, 0, width));
}

// transformers' Conv1D: a product of the last dimension.
static name linear(name x, const char *matrix, const char *bias, int64_t from, int64_t to) {
  char key[NAME];
  snprintf(key, NAME, "%s", matrix);
  name batch = extent(x, 0), length = extent(x, 1);
  name flat = reshape(x, 2, (name[]){whole(-1), whole(from)});
  name w = weight(key, from, to), b = weight(bias, 0, to);
  begin("Gemm");
  name product = finish("Gemm", 3, (name[]){flat, w, b});
  return reshape(product, 3, (name[]){batch, length, whole(to)});
}

static name split_heads(name x, const int64_t order[4]) {
  name batch = extent(x, 0), length = extent(x, 1);
  name split = reshape(x, 4, (name[]){batch, length, whole(heads), whole(width / heads)});
  return transpose(split, order);
}

static name slice(name x, name from, name to, int64_t axis) {
  name axes = list(axis), steps = list(1);
  begin("Slice");
  return finish("Slice", 5, (name[]){x, from, to, axes, steps});
}

static name masked(name scores, name q, name mask) {
  name length = two("Unsqueeze", extent(q, 2), list(0));
  name rows = slice(mask, list(0), length, 2);
  name square = slice(rows, list(0), length, 3);
  begin("Cast");
  attribute_int("to", BOOL);
  name allowed = finish("Cast", 1, &square), least = real(-3.4028235e38F);
  begin("Where");
  return finish("Where", 3, (name[]){allowed, scores, least});
}

static name softmax(name x) {
  begin("Softmax");
  attribute_int("axis", -1);
  return finish("Softmax", 1, &x);
}

static name attention(name x, name mask) {
  static const int64_t by_head[] = {0, 2, 1, 3}, turned[] = {0, 2, 3, 1};
  name qkv = linear(x, "attn.c_attn.weight", "attn.c_attn.bias", width, 3 * width);
  name sizes = constant(INT64, 1, 3, (int64_t[]){width, width, width}, 3 * sizeof width), part[3];
  begin("Split");
  attribute_int("axis", 2);
  for (int i = 0; i < 3; i++)
    part[i] = fresh("Split");
  wire_string(&node, 1, qkv.text);
  wire_string(&node, 1, sizes.text);
  for (int i = 0; i < 3; i++)
    wire_string(&node, 2, part[i].text);
  wire_message(&graph, 1, &node);
  name q = split_heads(part[0], by_head), k = split_heads(part[1], turned);
  name v = split_heads(part[2], by_head);
  float root = 1;
  while (root * root * (float)heads < (float)width) // heads are of widths that are squares here
    root *= 2;
  name scores = two("Div", two("MatMul", q, k), real(root));
  name mixed = two("MatMul", softmax(masked(scores, q, mask)), v);
  name joined = transpose(mixed, by_head);
  name merged = reshape(joined, 3, (name[]){extent(joined, 0), extent(joined, 1), whole(width)});
  return linear(merged, "attn.c_proj.weight", "attn.c_proj.bias", width, width);
}

static name gelu(name x) {
  name half = two("Mul", x, real(0.5F)), cube = two("Pow", x, real(3));
  name inside = two("Add", x, two("Mul", cube, real(0.044715F)));
  name turned = one("Tanh", two("Mul", inside, real(0.7978846F)));
  return two("Mul", half, two("Add", turned, real(1)));
}

static name block(name x, int layer, name mask) {
  snprintf(scope, NAME, "/transformer.h.%d", layer);
  name h = two("Add", attention(layer_norm(x, "ln_1.weight", "ln_1.bias"), mask), x);
  name normal = layer_norm(h, "ln_2.weight", "ln_2.bias");
  name wide = gelu(linear(normal, "mlp.c_fc.weight", "mlp.c_fc.bias", width, 4 * width));
  return two("Add", h, linear(wide, "mlp.c_proj.weight", "mlp.c_proj.bias", 4 * width, width));
}

static name named(const char *text) {
  name out;
  snprintf(out.text, NAME, "%s", text);
  return out;
}

static name gather(name table, name indices) {
  begin("Gather");
  return finish("Gather", 2, (name[]){table, indices});
}

static name embed(void) {
  snprintf(scope, NAME, "/transformer");
  name ids = named("input_ids"), length = extent(ids, 1);
  name from = whole(0), by = whole(1);
  begin("Range");
  name range = finish("Range", 3, (name[]){from, length, by});
  name places = reshape(two("Unsqueeze", range, list(0)), 2, (name[]){whole(-1), length});
  name flat = reshape(ids, 2, (name[]){whole(-1), extent(ids, 1)});
  name tokens = gather(weight("wte.weight", vocabulary, width), flat);
  return two("Add", tokens, gather(weight("wpe.weight", positions, width), places));
}

static name mask_buffer(void) {
  name out = named("transformer.mask");
  int64_t bytes = positions * positions;
  unsigned char *data = calloc(1, (size_t)bytes);
  if (!data) abort();
  for (int64_t i = 0; i < bytes; i++)
    data[i] = i % positions <= i / positions;
  for (int d = 0; d < 4; d++)
    wire_int(&inner, 1, d < 2 ? 1 : positions);
  wire_int(&inner, 2, UINT8);
  wire_string(&inner, 8, out.text);
  wire_block(&inner, 9, data, (size_t)bytes);
  wire_message(&graph, 5, &inner);
  free(data);
  return out;
}

static void add_dim(wire_writer *shape, const char *symbol, int64_t value) {
  wire_writer dim = {NULL, 0, 0};
  if (symbol)
    wire_string(&dim, 2, symbol);
  else
    wire_int(&dim, 1, value);
  wire_message(shape, 1, &dim);
  wire_free(&dim);
}

// An input (11) or output (12) of the graph: [batch, sequence(, last)], or a scalar.
static void add_value(int field, const char *text, int dtype, int rank, int64_t last) {
  wire_writer shape = {NULL, 0, 0};
  if (rank > 0) add_dim(&shape, "batch", 0);
  if (rank > 1) add_dim(&shape, "sequence", 0);
  if (rank > 2) add_dim(&shape, NULL, last);
  wire_int(&deeper, 1, dtype);
  wire_message(&deeper, 2, &shape);
  wire_string(&inner, 1, text);
  wire_message(&node, 1, &deeper);
  wire_message(&inner, 2, &node);
  wire_message(&graph, field, &inner);
  wire_free(&shape);
}

// Each position's scores against the next one's token.
static name loss(name logits) {
  name labels = named("labels");
  name before = slice(logits, list(0), list(-1), 1);
  name after = slice(labels, list(1), list(INT64_MAX), 1);
  name scores = reshape(before, 2, (name[]){whole(-1), whole(vocabulary)});
  name targets = reshape(after, 1, (name[]){whole(-1)});
  begin("SoftmaxCrossEntropyLoss");
  attribute_int("ignore_index", -100);
  return finish("SoftmaxCrossEntropyLoss", 2, (name[]){scores, targets});
}

static void make_graph(int layers, bool with_loss) {
  add_value(11, "input_ids", INT64, 2, 0);
  if (with_loss) add_value(11, "labels", INT64, 2, 0);
  name x = embed(), mask = mask_buffer();
  for (int i = 0; i < layers; i++)
    x = block(x, i, mask);
  snprintf(scope, NAME, "/transformer");
  name normal = layer_norm(x, "ln_f.weight", "ln_f.bias");
  snprintf(scope, NAME, "/lm_head");
  name matrix = weight("weight", vocabulary, width);
  begin("Transpose");
  attribute_ints("perm", 2, (int64_t[]){1, 0});
  name logits = two("MatMul", normal, finish("Transpose", 1, &matrix));
  if (with_loss) logits = loss(logits);
  add_value(12, logits.text, FLOAT, with_loss ? 0 : 3, vocabulary);
  wire_string(&graph, 2, "main_graph");
}

static void fail(const char *path) {
  perror(path);
  exit(1);
}

static void write_weights(void) {
  FILE *file = fopen(weights_file, "wb");
  if (!file) fail(weights_file);
  uint32_t state = 12345;
  for (int64_t i = 0; i < weight_bytes / 4 && weight_bytes <= most_filled_bytes; i++) {
    state = state * 1664525 + 1013904223;
    float value = ((float)(state >> 8) / 8388608.0F - 1) * 0.05F;
    if (fwrite(&value, sizeof value, 1, file) != 1) fail(weights_file);
  }
  if (fflush(file) != 0 || ftruncate(fileno(file), weight_bytes) != 0 || fclose(file) != 0)
    fail(weights_file);
}

int main(int argc, char **argv) {
  if (argc != 9) return 2;
  width = atoll(argv[2]), heads = atoll(argv[3]);
  vocabulary = atoll(argv[4]), positions = atoll(argv[5]);
  weights_file = argv[8];
  make_graph(atoi(argv[1]), strcmp(argv[6], "loss") == 0);
  wire_writer model = {NULL, 0, 0};
  wire_int(&model, 1, 8);
  wire_string(&model, 2, "pytorch");
  wire_int(&inner, 2, 14);
  wire_message(&model, 8, &inner);
  wire_message(&model, 7, &graph);
  FILE *file = fopen(argv[7], "wb");
  if (!file || fwrite(model.data, 1, model.bytes, file) != model.bytes || fclose(file) != 0)
    fail(argv[7]);
  write_weights();
  wire_writer *all[] = {&graph, &node, &inner, &deeper, &model};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    wire_free(all[i]);
  return 0;
}
