// Masks that exporters write as random numbers below a probability, or as Bernoulli of one: what
// drop path and stochastic depth are made of. The graph draws nothing but dropout, so a mask is
// dropout of the kept share.
#ifndef BD_FRONTEND_ONNX_LOWER_DRAWS_H
#define BD_FRONTEND_ONNX_LOWER_DRAWS_H
#include "frontend/onnx/lower/layout.h"

// What a node does with random numbers u, uniform from 0 to 1.
typedef enum bd_onnx_draw_kind {
  BD_ONNX_DRAW_NONE,
  BD_ONNX_DRAW_PART, // u, or u and a probability, which a mask is made of
  BD_ONNX_DRAW_MASK, // 1 with the probability `kept`, else 0
} bd_onnx_draw_kind;

typedef struct bd_onnx_draw {
  bd_onnx_draw_kind kind;
  double kept;
} bd_onnx_draw;

// Per node of the model, in ctx->arena. Errors: BD_UNSUPPORTED for random numbers that are used for
// anything but masks, or that samples have in common.
BD_NODISCARD bd_status bd_onnx_find_draws(bd_onnx_lowering *l, const bool *running,
                                          const bd_onnx_draw **out_draws);
// The node's mask, at a random site of its own.
BD_NODISCARD bd_status bd_onnx_lower_mask(bd_onnx_lowering *l, const bd_onnx_step *step,
                                          double kept);
#endif
