// The header of a safetensors file that is to be written: its tensors lie one after another in the
// order in which they are added.
#ifndef BD_RT_SAFETENSORS_HEADER_H
#define BD_RT_SAFETENSORS_HEADER_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bd_rt_header {
  FILE *out;
  int64_t data_bytes; // of the tensors so far
  char *text;         // from bd_rt_header_end on: the length word and the header, for free()
  size_t bytes;
} bd_rt_header;

// Whether there was memory for it; if not there is nothing to end.
int bd_rt_header_begin(bd_rt_header *header);
// `dtype`: BD_RT_F32, BD_RT_BF16 or BD_RT_F16.
void bd_rt_header_add(bd_rt_header *header, const char *name, int dtype, int rank,
                      const int64_t *dims);
// Whether there was memory for all; `text` is NULL if not. Data starts at a multiple of 8.
int bd_rt_header_end(bd_rt_header *header);
#endif
