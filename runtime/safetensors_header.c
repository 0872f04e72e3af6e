#include "runtime/safetensors_header.h"

#include "runtime/json.h"
#include "runtime/safetensors.h"

#include <stdlib.h>

int bd_rt_header_begin(bd_rt_header *header) {
  *header = (bd_rt_header){0};
  header->out = open_memstream(&header->text, &header->bytes);
  if (!header->out) return 0;
  fputs("........{\"__metadata__\":{\"format\":\"pt\"}", header->out);
  return 1;
}

void bd_rt_header_add(bd_rt_header *header, const char *name, int dtype, int rank,
                      const int64_t *dims) {
  FILE *const out = header->out;
  int64_t bytes = bd_rt_dtype_bytes(dtype);
  fputc(',', out);
  bd_rt_json_write(out, name);
  fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[",
          dtype == BD_RT_F32    ? "F32"
          : dtype == BD_RT_BF16 ? "BF16"
                                : "F16");
  for (int d = 0; d < rank; d++) {
    fprintf(out, "%s%lld", d ? "," : "", (long long)dims[d]);
    bytes *= dims[d];
  }
  const int64_t end = header->data_bytes + bytes;
  fprintf(out, "],\"data_offsets\":[%lld,%lld]}", (long long)header->data_bytes, (long long)end);
  header->data_bytes = end;
}

int bd_rt_header_end(bd_rt_header *header) {
  fputc('}', header->out);
  while (ftell(header->out) % 8)
    fputc(' ', header->out);
  if (fclose(header->out)) {
    free(header->text);
    header->text = NULL;
    return 0;
  }
  for (int i = 0; i < 8; i++)
    header->text[i] = (char)((uint64_t)(header->bytes - 8) >> (8 * i));
  return 1;
}
