// The best rate OpenBLAS reaches on the products of GPT-2 124M, in GFLOP/s, with its own threads:
// the ceiling of scripts/bench-cpu.sh. Usage: sgemm TOKENS THREADS
#include <cblas.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WIDTH = 768, VOCABULARY = 50257, SHAPES = 5, REPEATS = 5 };

typedef struct weight_shape {
  const char *name;
  int in, out;
} weight_shape;

static const weight_shape shapes[SHAPES] = {
    {"attention", WIDTH, WIDTH}, {"query, key, value", WIDTH, 3 * WIDTH}, {"up", WIDTH, 4 * WIDTH},
    {"down", 4 * WIDTH, WIDTH},  {"vocabulary", WIDTH, VOCABULARY},
};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *matrix(size_t elements) {
  float *const data = malloc(elements * sizeof *data);
  if (!data) {
    fputs("sgemm: out of memory\n", stderr);
    exit(1);
  }
  for (size_t i = 0; i < elements; i++)
    data[i] = (float)(i % 17) * 0.0625f - 0.5f;
  return data;
}

typedef struct operands {
  int tokens, in, out;
  float *x, *w, *y; // [tokens, in], [in, out], [tokens, out]
} operands;

// The three products of a linear layer: y = x w, dx = dy w', dw = x' dy.
static void multiply(const operands *o, int which) {
  if (which == 0)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, o->tokens, o->out, o->in, 1, o->x, o->in,
                o->w, o->out, 0, o->y, o->out);
  else if (which == 1)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, o->tokens, o->in, o->out, 1, o->y, o->out,
                o->w, o->out, 0, o->x, o->in);
  else
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, o->in, o->out, o->tokens, 1, o->x, o->in,
                o->y, o->out, 0, o->w, o->out);
}

static double rate_of(const operands *o, int which) {
  double best = 0;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    const double start = seconds();
    multiply(o, which);
    const double rate =
        2e-9 * (double)o->tokens * (double)o->in * (double)o->out / (seconds() - start);
    best = rate > best ? rate : best;
  }
  return best;
}

int main(int argc, char **argv) {
  const int tokens = argc == 3 ? atoi(argv[1]) : 0, threads = argc == 3 ? atoi(argv[2]) : 0;
  if (tokens < 1 || tokens > 1 << 16 || threads < 1) {
    fputs("usage: sgemm TOKENS THREADS\n", stderr);
    return 2;
  }
  openblas_set_num_threads(threads);
  double best = 0;
  for (int s = 0; s < SHAPES; s++) {
    const size_t in = (size_t)shapes[s].in, out = (size_t)shapes[s].out, rows = (size_t)tokens;
    const operands o = {tokens,           shapes[s].in,      shapes[s].out, matrix(rows * in),
                        matrix(in * out), matrix(rows * out)};
    for (int which = 0; which < 3; which++) {
      const double rate = rate_of(&o, which);
      fprintf(stderr, "%-18s %-3s %7.1f GFLOP/s\n", shapes[s].name,
              (const char *[]){"y", "dx", "dw"}[which], rate);
      best = rate > best ? rate : best;
    }
    free(o.x);
    free(o.w);
    free(o.y);
  }
  printf("%.1f\n", best);
  return 0;
}
