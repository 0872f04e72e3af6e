// row_items: who has each row of a pool. Of sample b, arrived[b, i, e] items up to item i have
// chosen group e, and its rows in the group begin at starts[b, e], a number over all samples. The
// item of row b n + r, n rows a sample, as a number over all samples; -1: none has it.
#include "ir/ops/ops.h"

static void seat_group(const bd_tensor *in, bd_tensor *out, int64_t sample, int64_t group) {
  int64_t items = in[0].type.dims[1], groups = in[0].type.dims[2];
  const double *arrived = in[0].data + sample * items * groups + group;
  int64_t before = 0, rows = bd_tensor_elements(out);
  for (int64_t i = 0; i < items; i++) {
    int64_t now = (int64_t)arrived[i * groups];
    int64_t row = (int64_t)in[1].data[sample * groups + group] + before;
    if (now > before && row >= 0 && row < rows) out->data[row] = (double)(sample * items + i);
    before = now;
  }
}

BD_EVAL(row_items) {
  BD_IGNORE(op, key, scratch);
  for (int64_t i = 0; i < bd_tensor_elements(out); i++)
    out->data[i] = -1;
  for (int64_t b = 0; b < in[1].type.dims[0]; b++)
    for (int64_t e = 0; e < in[1].type.dims[1]; e++)
      seat_group(in, out, b, e);
}
