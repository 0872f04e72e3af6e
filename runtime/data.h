// Training data: token files, read window by window, or arrays of samples.
#ifndef BD_RT_DATA_H
#define BD_RT_DATA_H
#include "runtime/braid_rt_abi.h"
#include "runtime/safetensors.h"

// The first dimension counts samples.
typedef struct bd_rt_array {
  int present, own; // there is such an array; the descriptor is its own
  int fd;
  int element_bytes;   // 0: of a type that is not read
  bd_rt_tensor tensor; // its name is the file's
} bd_rt_array;

typedef struct bd_rt_data {
  int fd;          // of a token file, -1 otherwise
  int token_bytes; // 1, 2, 4 or 8
  int64_t offset;  // of the first token, bytes
  int64_t count;   // tokens, or samples
  // Of sample data: one file of all arrays, or a folder with a file for each.
  bd_rt_file arrays;
  bd_rt_array inputs, targets, ids[BD_RT_MAX_IDS];
} bd_rt_data;

// What stands for no data.
#define BD_RT_NO_DATA ((bd_rt_data){.fd = -1, .arrays = {.fd = -1}})

// Opens --data for a program. `check`: read every token or target and compare it with the bound
// (one rank does). 0, or a BD_RT_EXIT status with the reason in `message`.
int bd_rt_data_open(const bd_rt_program *program, const char *path, int tokenizer, int check,
                    bd_rt_data *out_data, char *message, size_t message_bytes);
void bd_rt_data_close(bd_rt_data *data);

// Where sample `sample` of step `step` starts: a token, or an index of the arrays. A function of
// the seed and the sample alone, so every plan sees the same data.
int64_t bd_rt_data_position(const bd_rt_program *program, const bd_rt_data *data, uint64_t seed,
                            uint64_t step, int64_t sample);
// Reads `count` tokens from position `at`. 0 on success.
int bd_rt_data_tokens(const bd_rt_data *data, int64_t at, int64_t count, int32_t *out);

// Arrays: elements [first, first + count) of the real inputs, the targets or the integers `input`
// of one sample, which has `elements`. 0 on success.
int bd_rt_data_open_arrays(const bd_rt_program *program, const char *path, int check,
                           bd_rt_data *out_data, char *message, size_t message_bytes);
void bd_rt_data_close_arrays(bd_rt_data *data);
int bd_rt_data_inputs(const bd_rt_data *data, int64_t at, int64_t elements, int64_t first,
                      int64_t count, float *out);
int bd_rt_data_ids(const bd_rt_data *data, int input, int64_t at, int64_t elements, int32_t *out);
int bd_rt_data_targets(const bd_rt_data *data, int64_t at, int64_t elements, int32_t *out);
#endif
