// dropout: zero with probability p, else scaled by 1/(1-p). Its gradient is itself, at the same
// site.
#include "ir/ops/ops.h"

bool bd_dropped(const bd_op *op, const bd_random_key *key, double p, int64_t sample,
                int64_t element) {
  float u = bd_random_uniform(key->seed, key->step, (uint32_t)bd_op_int(op, "site", 0),
                              (uint32_t)key->call, (uint64_t)(key->first_sample + sample),
                              (uint64_t)element);
  return u < (float)p;
}

BD_EVAL(dropout) {
  (void)scratch;
  double p = bd_op_real(op, "p", 0);
  int64_t count = bd_tensor_elements(out);
  int64_t samples = out->type.rank ? out->type.dims[0] : 1;
  int64_t elements = count / samples;
  for (int64_t i = 0; i < count; i++)
    out->data[i] = bd_dropped(op, key, p, i / elements, i % elements) ? 0 : in[0].data[i] / (1 - p);
}

BD_GRADIENT(dropout) {
  return bd_gradient_like(ctx, g, BD_OP_DROPOUT, 1, &g->dout[0], 0, NULL, &g->din[0]);
}
