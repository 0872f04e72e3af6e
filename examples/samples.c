// Data for the examples that do not read plain text, as a safetensors file of 256 samples:
//   samples masked FILE TEXT LENGTH   pieces of bytes, a sixth of them hidden, to be told again
//   samples copied FILE TEXT LENGTH   pieces of bytes, to be written down by a decoder
//   samples images FILE SIZE          stripes of one of ten slopes, to be told apart
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 256, MOST_TENSORS = 3, MOST_TEXT = 1 << 22, MOST_LENGTH = 1 << 12 };
enum { PADDING = 0, START = 0, HIDDEN = 1, NONE = -100, CLASSES = 10 };

// Numbers are written as this machine keeps them: little-endian, as the format wants.
typedef struct tensor {
  const char *name, *dtype; // of 4 bytes an element
  char dims[64];            // of a sample, each behind a comma
  long elements;            // of a sample
  void *data;
} tensor;

static void *reserve(long elements) {
  void *const data = calloc((size_t)(SAMPLES * elements), 4);
  if (!data) {
    fputs("samples: out of memory\n", stderr);
    exit(1);
  }
  return data;
}

static tensor make_ids(const char *name, long length) {
  tensor made = {.name = name, .dtype = "I32", .elements = length, .data = reserve(length)};
  snprintf(made.dims, sizeof made.dims, ",%ld", length);
  return made;
}

// The next of a fixed sequence of numbers.
static uint32_t draw(void) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

// Where a piece of text ends and padding begins.
static long draw_end(long length) {
  return length - (long)draw() % (length / 2);
}

static int mask(const unsigned char *text, long bytes, long length, tensor *out) {
  static const char *const names[] = {"tokens", "token_types", "targets"};
  for (int i = 0; i < 3; i++)
    out[i] = make_ids(names[i], length);
  int32_t *const tokens = out[0].data, *const types = out[1].data, *const targets = out[2].data;
  for (long s = 0; s < SAMPLES; s++) {
    const long start = draw() % (bytes - length), end = draw_end(length);
    for (long i = 0, at = s * length; i < length; i++, at++) {
      const int hidden = i < end && draw() % 6 == 0;
      tokens[at] = hidden ? HIDDEN : i < end ? text[start + i] : PADDING;
      types[at] = i >= length / 2;
      targets[at] = hidden ? text[start + i] : NONE;
    }
  }
  return 3;
}

static int copy(const unsigned char *text, long bytes, long length, tensor *out) {
  static const char *const names[] = {"tokens", "decoder_tokens", "targets"};
  for (int i = 0; i < 3; i++)
    out[i] = make_ids(names[i], length);
  int32_t *const tokens = out[0].data, *const behind = out[1].data, *const targets = out[2].data;
  for (long s = 0; s < SAMPLES; s++) {
    const long start = draw() % (bytes - length), end = draw_end(length);
    for (long i = 0, at = s * length; i < length; i++, at++) {
      tokens[at] = i < end ? text[start + i] : PADDING;
      behind[at] = i == 0 ? START : text[start + i - 1];
      targets[at] = i < end ? text[start + i] : NONE;
    }
  }
  return 3;
}

static int draw_images(long size, tensor *out) {
  const long pixels = size * size;
  out[0] = (tensor){.name = "inputs", .dtype = "F32", .elements = pixels, .data = reserve(pixels)};
  snprintf(out[0].dims, sizeof out[0].dims, ",1,%ld,%ld", size, size);
  out[1] = (tensor){.name = "targets", .dtype = "I32", .elements = 1, .data = reserve(1)};
  float *const inputs = out[0].data;
  int32_t *const targets = out[1].data;
  for (long s = 0; s < SAMPLES; s++) {
    targets[s] = (int32_t)(draw() % CLASSES);
    const double slope = 3.14159265 * targets[s] / CLASSES, shift = draw() % 64 / 10.0;
    for (long i = 0; i < pixels; i++) {
      const double along = cos(slope) * (double)(i / size) + sin(slope) * (double)(i % size);
      inputs[s * pixels + i] = (float)(sin(1.5 * along + shift) + draw() % 256 / 512.0);
    }
  }
  return 2;
}

static int write_file(const char *path, int count, const tensor *tensors) {
  char header[1024] = "{";
  size_t length = 1;
  long at = 0;
  for (int i = 0; i < count; i++) {
    const tensor *const t = &tensors[i];
    const long end = at + SAMPLES * t->elements * 4;
    length += (size_t)snprintf(header + length, sizeof header - length,
                               "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d%s],"
                               "\"data_offsets\":[%ld,%ld]}",
                               i ? "," : "", t->name, t->dtype, SAMPLES, t->dims, at, end);
    at = end;
  }
  header[length++] = '}';
  while (length % 8)
    header[length++] = ' ';
  FILE *const file = fopen(path, "wb");
  if (!file) return 1;
  const uint64_t header_bytes = length;
  fwrite(&header_bytes, sizeof header_bytes, 1, file);
  fwrite(header, length, 1, file);
  for (int i = 0; i < count; i++)
    fwrite(tensors[i].data, (size_t)(SAMPLES * tensors[i].elements), 4, file);
  const int bad = ferror(file);
  return fclose(file) || bad;
}

static long read_text(const char *path, unsigned char *text) {
  FILE *const file = fopen(path, "rb");
  if (!file) return 0;
  const long bytes = (long)fread(text, 1, MOST_TEXT, file);
  fclose(file);
  return bytes;
}

int main(int argc, char **argv) {
  static unsigned char text[MOST_TEXT];
  const int images = argc == 4 && !strcmp(argv[1], "images");
  const int masked = argc == 5 && !strcmp(argv[1], "masked");
  const int copied = argc == 5 && !strcmp(argv[1], "copied");
  const long length = images || masked || copied ? strtol(argv[argc - 1], NULL, 10) : 0;
  if (length < 2 || length > (images ? 256 : MOST_LENGTH)) {
    fputs("usage: samples masked|copied FILE TEXT LENGTH, or samples images FILE SIZE\n", stderr);
    return 2;
  }
  tensor tensors[MOST_TENSORS];
  const long bytes = images ? 0 : read_text(argv[3], text);
  if (!images && bytes <= length) {
    fprintf(stderr, "samples: %s: is shorter than a sample, or cannot be read\n", argv[3]);
    return 1;
  }
  const int count = images   ? draw_images(length, tensors)
                    : masked ? mask(text, bytes, length, tensors)
                             : copy(text, bytes, length, tensors);
  if (!write_file(argv[2], count, tensors)) return 0;
  perror(argv[2]);
  return 1;
}
