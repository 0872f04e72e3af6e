// Data for the examples of images and volumes: 64 samples as NumPy's arrays in a folder that
// exists.
//   arrays images FOLDER SIZE     coloured stripes of one of ten slopes, to be told apart
//   arrays volumes FOLDER SIZE    a bright ball and a dim one in noise, to be found: voxels are 0,
//   1 or 2
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 64, CLASSES = 10, MOST_SIZE = 512 };

static FILE *open_array(const char *folder, const char *name, const char *shape) {
  char path[4096], header[128];
  snprintf(path, sizeof path, "%s/%s.npy", folder, name);
  FILE *const file = fopen(path, "wb");
  if (!file) {
    perror(path);
    exit(4);
  }
  // The header ends with a line, at a multiple of 64 bytes.
  const int length =
      snprintf(header, sizeof header,
               "{'descr': '|u1', 'fortran_order': False, 'shape': (%d%s,), }", SAMPLES, shape);
  const int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
  fwrite("\x93NUMPY\x01\x00", 1, 8, file);
  putc(padded & 255, file), putc(padded >> 8, file);
  fprintf(file, "%s%*s\n", header, padded - length - 1, "");
  return file;
}

static void close_array(FILE *file) {
  if (ferror(file) || fclose(file) != 0) {
    perror("arrays");
    exit(4);
  }
}

// The next of a fixed sequence, below `bound`.
static int draw(int bound) {
  static uint64_t state = 1;
  state = state * 6364136223846793005U + 1442695040888963407U;
  return (int)((state >> 33) % (uint64_t)bound);
}

static void write_images(const char *folder, int size) {
  char shape[64];
  snprintf(shape, sizeof shape, ", 3, %d, %d", size, size);
  FILE *const inputs = open_array(folder, "inputs", shape), *const targets =
                                                                open_array(folder, "targets", "");
  for (int sample = 0; sample < SAMPLES; sample++) {
    const int class = draw(CLASSES), phase = draw(32);
    putc(class, targets);
    for (int colour = 0; colour < 3; colour++)
      for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++)
          putc((((class + 1) * x + (CLASSES - class) * y + phase + 8 * colour) % 32) * 7 + draw(32),
               inputs);
  }
  close_array(inputs);
  close_array(targets);
}

typedef struct ball {
  int at[3], radius;
} ball;

static ball draw_ball(int size, int radius) {
  ball b = {.radius = radius};
  for (int d = 0; d < 3; d++)
    b.at[d] = draw(size);
  return b;
}

static int is_inside(const ball *b, int z, int y, int x) {
  const int dz = z - b->at[0], dy = y - b->at[1], dx = x - b->at[2];
  return dz * dz + dy * dy + dx * dx <= b->radius * b->radius;
}

static void write_volumes(const char *folder, int size) {
  char inputs_shape[64], shape[64];
  snprintf(inputs_shape, sizeof inputs_shape, ", 1, %d, %d, %d", size, size, size);
  snprintf(shape, sizeof shape, ", %d, %d, %d", size, size, size);
  FILE *const inputs = open_array(folder, "inputs", inputs_shape), *const targets = open_array(
                                                                       folder, "targets", shape);
  for (int sample = 0; sample < SAMPLES; sample++) {
    const ball dim = draw_ball(size, size / 3), bright = draw_ball(size, size / 4);
    for (int i = 0; i < size * size * size; i++) {
      const int z = i / size / size, y = i / size % size, x = i % size;
      const int class = is_inside(&bright, z, y, x) ? 2 : is_inside(&dim, z, y, x);
      putc(class, targets);
      putc(60 * class + draw(64), inputs);
    }
  }
  close_array(inputs);
  close_array(targets);
}

int main(int argc, char **argv) {
  const int size = argc == 4 ? atoi(argv[3]) : 0;
  if (size < 4 || size > MOST_SIZE || (strcmp(argv[1], "images") && strcmp(argv[1], "volumes"))) {
    fprintf(stderr, "usage: arrays images|volumes FOLDER SIZE\n");
    return 2;
  }
  (argv[1][0] == 'i' ? write_images : write_volumes)(argv[2], size);
  return 0;
}
