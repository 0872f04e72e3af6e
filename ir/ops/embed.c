// embed(table, ids) and the gradient of its table. An id outside the table reads zeros.
#include "ir/ops/ops.h"

BD_EVAL(embed) {
  BD_IGNORE(op, key, scratch);
  int64_t rows = in[0].type.dims[0], c = in[0].type.dims[1], count = bd_tensor_elements(&in[1]);
  for (int64_t t = 0; t < count; t++) {
    int64_t id = (int64_t)in[1].data[t];
    if (id < 0 || id >= rows) continue;
    for (int64_t i = 0; i < c; i++)
      out->data[t * c + i] = in[0].data[id * c + i];
  }
}

BD_EVAL(embed_dw) {
  BD_IGNORE(op, key, scratch);
  int64_t rows = out->type.dims[0], c = out->type.dims[1], count = bd_tensor_elements(&in[1]);
  for (int64_t t = 0; t < count; t++) {
    int64_t id = (int64_t)in[1].data[t];
    if (id < 0 || id >= rows) continue;
    for (int64_t i = 0; i < c; i++)
      out->data[id * c + i] += in[0].data[t * c + i];
  }
}

BD_GRADIENT(embed) {
  const bd_id in[2] = {g->dout[0], bd_gradient_operand(g, 1)};
  bd_attr rows = bd_attr_int(ctx, "rows", bd_gradient_operand_type(g, 0)->dims[0]);
  bd_id dtable;
  BD_TRY(bd_build(ctx, g->backward, BD_OP_EMBED_DW, 2, in, 1, &rows, g->op->loc, &dtable));
  return bd_gradient_as_operand(ctx, g, 0, dtable, &g->din[0]);
}
