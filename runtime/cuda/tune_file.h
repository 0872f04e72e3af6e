// The file of --tune: which algorithm each matrix product was fastest with, on one kind of GPU and
// with one version of cuBLASLt. Its bytes are hostile; knows nothing of CUDA.
#ifndef BD_RT_CUDA_TUNE_FILE_H
#define BD_RT_CUDA_TUNE_FILE_H
#include <stddef.h>
#include <stdint.h>

enum {
  BD_TUNE_PRODUCT_BYTES = 320, // of a name, its end included
  BD_TUNE_DEVICE_BYTES = 256,
  BD_TUNE_ALGORITHM_BYTES = 64, // of cublasLtMatmulAlgo_t
  BD_TUNE_MOST = 1 << 16,       // choices of a file
};

typedef struct bd_tune_choice {
  char product[BD_TUNE_PRODUCT_BYTES]; // all that an algorithm is chosen by, printable ASCII
  unsigned char algorithm[BD_TUNE_ALGORITHM_BYTES]; // as the library's own version lays it out
  // Of one product, with this algorithm and with the library's first. Not read: 0.
  double seconds, first_seconds;
} bd_tune_choice;

// What algorithms hold for.
typedef struct bd_tune_maker {
  char device[BD_TUNE_DEVICE_BYTES]; // the GPU's name, printable ASCII
  int64_t library;                   // version of cuBLASLt
} bd_tune_maker;

// In ascending order of products, each once. Freed by bd_tune_free.
typedef struct bd_tune_table {
  int64_t count;
  bd_tune_choice *choices;
} bd_tune_table;

// Reads a file that was made by `maker`. 0 and *out_exists, which tells whether there is such a
// file; an absent one gives an empty table. Else BD_RT_EXIT_EXTERNAL or, for one that is damaged or
// another maker's, BD_RT_EXIT_DATA, with the reason and what to do in `message`.
int bd_tune_read(const char *path, const bd_tune_maker *maker, bd_tune_table *out_table,
                 int *out_exists, char *message, size_t message_bytes);
// Writes PATH.partial, then gives it its name. 0, or BD_RT_EXIT_EXTERNAL with the reason in
// `message`; then there is no new file.
int bd_tune_write(const char *path, const bd_tune_maker *maker, const bd_tune_table *table,
                  char *message, size_t message_bytes);
// Puts choices in order; of several for one product the first stays. 0: memory is out, nothing has
// changed.
int bd_tune_sort(bd_tune_table *table);
// NULL: there is none.
const bd_tune_choice *bd_tune_find(const bd_tune_table *table, const char *product);
void bd_tune_free(bd_tune_table *table);
#endif
