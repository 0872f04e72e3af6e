// Every gradient against central differences: for random r, the gradient of sum(r * f(x)) that the
// backward function gives is compared with the interpreter's differences in float64.
#include "ir/interpret.h"
#include "ir/passes/autodiff.h"
#include "ir/pool.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MAX_ATTRS = 8, MOST_OPERANDS = 4, SAMPLES = 3 };

typedef struct gradient_case {
  bd_op_kind kind;
  bd_type in[MOST_OPERANDS];
  bd_attr attrs[MAX_ATTRS]; // up to the first without a name
  bool positive;            // operands in 0.5 to 1.5, else in -1.5 to 1.5
  int64_t indices;          // integer operands run from -1 or 0 to below this
  int zeros;                // at every so manieth element, 0: at none
} gradient_case;

#define F(...)                                                                                     \
  {                                                                                                \
    BD_F32, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {                                   \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#define I(...)                                                                                     \
  {                                                                                                \
    BD_I32, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {                                   \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#define T(...)                                                                                     \
  {                                                                                                \
    BD_BOOL, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {                                  \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#define SCALAR                                                                                     \
  {                                                                                                \
    BD_F32, 0, {                                                                                   \
      0                                                                                            \
    }                                                                                              \
  }
#define INT(label, number)                                                                         \
  { .name = label, .kind = BD_ATTR_INT, .integer = number }
#define REAL(label, number)                                                                        \
  { .name = label, .kind = BD_ATTR_REAL, .real = number }
#define TEXT(label, text)                                                                          \
  { .name = label, .kind = BD_ATTR_STRING, .string = text }
#define INTS(label, ...)                                                                           \
  {                                                                                                \
    .name = label, .kind = BD_ATTR_INTS, .ints = (const int64_t[]){__VA_ARGS__},                   \
    .count = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))                             \
  }
#define REALS(label, ...)                                                                          \
  {                                                                                                \
    .name = label, .kind = BD_ATTR_REALS, .reals = (const double[]){__VA_ARGS__},                  \
    .count = (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))                               \
  }
#define WINDOW(sh, sw, ph, pw) INTS("strides", sh, sw), INTS("pads", ph, pw, ph, pw)

static const gradient_case cases[] = {
    {.kind = BD_OP_TRACK, .in = {F(5), F(5)}},
    {.kind = BD_OP_ADD, .in = {F(2, 3), F(2, 3)}},
    {.kind = BD_OP_ADD, .in = {F(2, 3, 4), F(4)}},
    {.kind = BD_OP_ADD, .in = {F(4), F(2, 3, 4)}},
    {.kind = BD_OP_SUB, .in = {F(2, 3), F(2, 3)}},
    {.kind = BD_OP_SUB, .in = {F(2, 3, 4), F(3, 4)}},
    {.kind = BD_OP_SUB, .in = {F(3), F(2, 3)}},
    {.kind = BD_OP_MUL, .in = {F(2, 3), F(2, 3)}},
    {.kind = BD_OP_MUL, .in = {F(2, 3, 4), F(4)}},
    {.kind = BD_OP_MUL, .in = {F(4), F(2, 4)}},
    {.kind = BD_OP_MUL, .in = {SCALAR, F(2, 4)}},
    {.kind = BD_OP_DIV, .in = {F(2, 3), F(2, 3)}, .positive = true},
    {.kind = BD_OP_DIV, .in = {F(2, 3, 4), F(4)}, .positive = true},
    {.kind = BD_OP_DIV, .in = {F(4), F(3, 4)}, .positive = true},
    {.kind = BD_OP_NEG, .in = {F(5)}},
    {.kind = BD_OP_SCALE, .in = {F(2, 3)}, {REAL("value", -1.7)}},
    {.kind = BD_OP_OFFSET, .in = {F(2, 3)}, {REAL("value", 0.3)}},
    {.kind = BD_OP_EXP, .in = {F(2, 3)}},
    {.kind = BD_OP_LOG, .in = {F(2, 3)}, .positive = true},
    {.kind = BD_OP_SQRT, .in = {F(2, 3)}, .positive = true},
    {.kind = BD_OP_TANH, .in = {F(2, 3)}},
    {.kind = BD_OP_SIGMOID, .in = {F(2, 3)}},
    {.kind = BD_OP_RELU, .in = {F(4, 5)}},
    {.kind = BD_OP_GELU, .in = {F(4, 5)}},
    {.kind = BD_OP_GELU_ERF, .in = {F(4, 5)}},
    {.kind = BD_OP_SILU, .in = {F(4, 5)}},
    {.kind = BD_OP_ABS, .in = {F(2, 3)}},
    {.kind = BD_OP_SIN, .in = {F(2, 3)}},
    {.kind = BD_OP_COS, .in = {F(2, 3)}},
    {.kind = BD_OP_ERF, .in = {F(2, 3)}},
    {.kind = BD_OP_MIN, .in = {F(2, 3), F(3)}},
    {.kind = BD_OP_MAX, .in = {F(3), F(2, 3)}},
    {.kind = BD_OP_POW, .in = {F(2, 3), F(2, 3)}, .positive = true},
    {.kind = BD_OP_POW, .in = {F(3), F(2, 3)}, .positive = true},
    {.kind = BD_OP_POW, .in = {F(2, 3), SCALAR}, .positive = true},
    {.kind = BD_OP_MOD, .in = {F(2, 3), F(3)}},
    {.kind = BD_OP_MOD, .in = {F(3), F(2, 3)}, {INT("fmod", 1)}},
    {.kind = BD_OP_SELECT, .in = {T(2, 3), F(2, 3), F(3)}},
    {.kind = BD_OP_SELECT, .in = {T(3), F(3), F(2, 3)}},
    {.kind = BD_OP_DROPOUT, .in = {F(3, 4, 5)}, {REAL("p", 0.3), INT("site", 7)}},
    {.kind = BD_OP_DROPOUT, .in = {F(9)}, {REAL("p", 0.5), INT("site", 8)}},
    {.kind = BD_OP_CAST, .in = {F(2, 3)}, {TEXT("dtype", "f64")}},
    {.kind = BD_OP_REDUCE_SUM, .in = {F(2, 3, 4)}, {TEXT("rule", "ABC->C")}},
    {.kind = BD_OP_REDUCE_SUM, .in = {F(2, 3, 4)}, {TEXT("rule", "ABC->BA")}},
    {.kind = BD_OP_REDUCE_SUM, .in = {F(2, 3)}, {TEXT("rule", "AB->")}},
    {.kind = BD_OP_REDUCE_MAX, .in = {F(2, 3, 4)}, {TEXT("rule", "ABC->C")}},
    {.kind = BD_OP_REDUCE_MIN, .in = {F(2, 3, 4)}, {TEXT("rule", "ABC->BA")}},
    {.kind = BD_OP_REDUCE_PROD, .in = {F(2, 3)}, {TEXT("rule", "AB->A")}},
    {.kind = BD_OP_REDUCE_PROD, .in = {F(3, 4)}, {TEXT("rule", "AB->B")}, .zeros = 3},
    {.kind = BD_OP_REDUCE_PROD, .in = {F(3, 4)}, {TEXT("rule", "AB->")}, .zeros = 2},
    {.kind = BD_OP_CUMSUM, .in = {F(2, 4, 3)}, {INT("dim", 1)}},
    {.kind = BD_OP_CUMSUM, .in = {F(4)}, {INT("dim", 0), INT("exclusive", 1), INT("reverse", 1)}},
    {.kind = BD_OP_BROADCAST, .in = {F(3)}, {TEXT("rule", "B->ABC"), INTS("dims", 2, 3, 4)}},
    {.kind = BD_OP_BROADCAST, .in = {F(2, 3)}, {TEXT("rule", "ab->bca"), INTS("dims", 3, 2, 2)}},
    {.kind = BD_OP_PERMUTE, .in = {F(2, 3, 4)}, {TEXT("rule", "abc->cab")}},
    {.kind = BD_OP_RESHAPE, .in = {F(2, 3, 4)}, {INTS("dims", 2, 12)}},
    {.kind = BD_OP_RESHAPE, .in = {F(2, 12)}, {INTS("dims", 2, 3, 4)}},
    {.kind = BD_OP_SLICE, .in = {F(2, 5, 3)}, {INT("dim", 1), INT("start", 2), INT("size", 2)}},
    {.kind = BD_OP_SLICE, .in = {F(4)}, {INT("dim", 0), INT("start", 0), INT("size", 3)}},
    {.kind = BD_OP_PAD, .in = {F(2, 2, 3)}, {INT("dim", 1), INT("start", 2), INT("size", 5)}},
    {.kind = BD_OP_SLICE,
     .in = {F(2, 5, 3)},
     {INT("dim", 1), INT("start", 4), INT("size", 3), INT("step", -2)}},
    {.kind = BD_OP_PAD,
     .in = {F(2, 3)},
     {INT("dim", 1), INT("start", 1), INT("size", 6), INT("step", 2), REAL("value", 0.5)}},
    {.kind = BD_OP_CONCAT, .in = {F(2, 3), F(2, 1), F(2, 2)}, {INT("dim", 1)}},
    {.kind = BD_OP_UNFOLD, .in = {F(2, 5)}, {INTS("kernel", 2)}},
    {.kind = BD_OP_UNFOLD,
     .in = {F(2, 4, 5)},
     {INTS("kernel", 2, 3), INTS("strides", 2, 1), INTS("dilations", 1, 2),
      INTS("pads", 1, 0, 0, 1)}},
    {.kind = BD_OP_FOLD, .in = {F(2, 2, 4)}, {INTS("kernel", 2), INTS("dims", 5)}},
    {.kind = BD_OP_FOLD,
     .in = {F(6, 2, 2)},
     {INTS("kernel", 2, 3), INTS("strides", 2, 1), INTS("dilations", 1, 2),
      INTS("pads", 1, 0, 0, 1), INTS("dims", 4, 5)}},
    {.kind = BD_OP_GATHER, .in = {F(2, 5, 3), I(2, 2)}, {INT("dim", 1)}, .indices = 6},
    {.kind = BD_OP_GATHER,
     .in = {F(2, 5), I(2, 3)},
     {INT("dim", 1), INT("batch", 1)},
     .indices = 5},
    {.kind = BD_OP_SCATTER,
     .in = {F(5, 3), I(4), F(4, 3)},
     {INT("dim", 0), TEXT("reduction", "add")},
     .indices = 5},
    {.kind = BD_OP_SCATTER, .in = {F(5, 3), I(1), F(1, 3)}, {INT("dim", 0)}, .indices = 5},
    {.kind = BD_OP_ROUTE,
     .in = {F(2, 5, 3), I(2, 4, 2), I(2, 5, 8)},
     {INT("rows", 1)},
     .indices = 7},
    {.kind = BD_OP_ROUTE,
     .in = {F(2, 2, 3, 2), I(2, 5, 3), I(2, 2, 3, 15)},
     {INT("rows", 2), INT("inverse", 1)},
     .indices = 6},
    {.kind = BD_OP_ROUTE,
     .in = {F(3, 4), I(3, 2, 3, 1), I(3, 4, 6)},
     {INT("rows", 1)},
     .indices = 4},
    {.kind = BD_OP_ROUTE,
     .in = {F(BD_DIM_BATCH, 5, 3), I(BD_DIM_BATCH, 4, 2), I(BD_DIM_BATCH, 5, 24)},
     {INT("rows", 1), INT("pooled", 1)},
     .indices = 17},
    {.kind = BD_OP_ROUTE,
     .in = {F(BD_DIM_BATCH, 4, 2), I(BD_DIM_BATCH, 3, 1), I(BD_DIM_BATCH, 4, 9)},
     {INT("rows", 1), INT("inverse", 1), INT("pooled", 1)},
     .indices = 12},
    {.kind = BD_OP_TOPK, .in = {F(3, 5)}, {INT("k", 2)}},
    {.kind = BD_OP_TOPK, .in = {F(4)}, {INT("k", 3), INT("largest", 0)}},
    {.kind = BD_OP_CONTRACT, .in = {F(2, 3, 4), F(4, 5)}, {TEXT("rule", "btc,cn->btn")}},
    {.kind = BD_OP_CONTRACT, .in = {F(2, 3, 4), F(5, 4)}, {TEXT("rule", "btc,nc->btn")}},
    {.kind = BD_OP_CONTRACT, .in = {F(2, 3, 4), F(4, 3, 2, 2)}, {TEXT("rule", "btc,cshd->btshd")}},
    {.kind = BD_OP_CONTRACT, .in = {F(2, 3, 2, 2), F(2, 2, 5)}, {TEXT("rule", "bthd,hdc->btc")}},
    {.kind = BD_OP_CONTRACT, .in = {F(2, 3, 4), F(2, 4, 5)}, {TEXT("rule", "bmk,bkn->bnm")}},
    {.kind = BD_OP_LAYERNORM, .in = {F(2, 3, 6), F(6), F(6)}, {REAL("eps", 1e-5)}},
    {.kind = BD_OP_LAYERNORM, .in = {F(3, 5), F(5), F(5)}, {REAL("eps", 1e-2)}},
    {.kind = BD_OP_RMSNORM, .in = {F(2, 3, 6), F(6)}, {REAL("eps", 1e-5)}},
    {.kind = BD_OP_RMSNORM, .in = {F(5), F(5)}, {REAL("eps", 1e-2)}},
    {.kind = BD_OP_RMSNORM, .in = {F(2, 5), F(5)}, {REAL("eps", 1e-2), REAL("base", 1)}},
    {.kind = BD_OP_GROUPED_CONTRACT, .in = {F(3, 5, 2), F(3, 2, 4), I(3, 3)}, .indices = 18},
    {.kind = BD_OP_GROUPED_CONTRACT,
     .in = {F(3, 5, 4), F(3, 2, 4), I(3, 3)},
     {INT("transpose", 1)},
     .indices = 18},
    {.kind = BD_OP_EMBED, .in = {F(5, 3), I(2, 4)}, .indices = 5},
    {.kind = BD_OP_EMBED, .in = {F(4, 2), I(7)}, .indices = 4},
    {.kind = BD_OP_ROPE, .in = {F(2, 3, 2, 6)}, {REAL("theta", 100)}},
    {.kind = BD_OP_ROPE, .in = {F(1, 3, 2, 4)}, {REAL("theta", 100), INT("inverse", 1)}},
    {.kind = BD_OP_ROPE, .in = {F(2, 3, 2, 7)}, {REAL("theta", 100), INT("turned", 4)}},
    {.kind = BD_OP_ROPE,
     .in = {F(2, 3, 2, 7)},
     {REAL("theta", 100), INT("turned", 4), INT("last", 1), INT("interleaved", 1)}},
    {.kind = BD_OP_ROPE,
     {F(1, 5, 1, 8)},
     {REAL("theta", 50), REAL("factor", 8), REAL("ramp_low", 1), REAL("ramp_high", 3)}},
    {.kind = BD_OP_ROPE,
     {F(1, 5, 1, 8)},
     {REAL("theta", 50), REAL("factor", 8), REAL("low_freq_factor", 1), REAL("high_freq_factor", 4),
      REAL("original_positions", 16)}},
    {.kind = BD_OP_ROPE,
     {F(1, 5, 1, 8)},
     {REAL("theta", 50), REAL("factor", 8), REAL("ramp_low", 0.5), REAL("ramp_high", 2.5)}},
    {.kind = BD_OP_ROPE,
     {F(1, 5, 1, 8)},
     {REAL("theta", 50), INT("turned", 4), REALS("divisors", 3, 0.5), REAL("amplitude", 1.7)}},
    {.kind = BD_OP_ATTENTION,
     .in = {F(2, 3, 2, 4), F(2, 3, 2, 4), F(2, 3, 2, 4)},
     {REAL("scale", 0.5)}},
    {.kind = BD_OP_ATTENTION,
     .in = {F(2, 3, 2, 4), F(2, 5, 2, 4), F(2, 5, 2, 4)},
     {REAL("scale", 0.5)}},
    {.kind = BD_OP_ATTENTION,
     {F(2, 4, 4, 2), F(2, 4, 2, 2), F(2, 4, 2, 2)},
     {REAL("scale", 0.7), INT("causal", 1)}},
    {.kind = BD_OP_ATTENTION,
     {F(2, 4, 6, 2), F(2, 4, 2, 2), F(2, 4, 2, 2)},
     {REAL("scale", 0.7), INT("causal", 1), REAL("dropout", 0.3), INT("site", 3)}},
    {.kind = BD_OP_ATTENTION,
     {F(2, 6, 2, 2), F(2, 6, 2, 2), F(2, 6, 2, 2)},
     {REAL("scale", 0.7), INT("causal", 1), INT("window", 3)}},
    {.kind = BD_OP_ATTENTION,
     {F(1, 5, 4, 2), F(1, 7, 2, 2), F(1, 7, 2, 2)},
     {REAL("scale", 0.7), INT("causal", 1), INT("window", 2), REAL("dropout", 0.3), INT("site", 3)}},
    {.kind = BD_OP_ATTENTION,
     {F(2, 3, 4, 4), F(2, 5, 2, 4), F(2, 5, 2, 3)},
     {REAL("scale", 0.5)}},
    {.kind = BD_OP_ATTENTION,
     {F(1, 5, 2, 2), F(1, 5, 2, 2), F(1, 5, 2, 5)},
     {REAL("scale", 0.7), INT("causal", 1), INT("window", 2), REAL("dropout", 0.3), INT("site", 3)}},
    {.kind = BD_OP_RELATIVE_ATTENTION,
     {F(2, 5, 4, 2), F(2, 5, 2, 2), F(2, 5, 2, 3), F(4, 3)},
     {REAL("scale", 0.7), INT("causal", 1)}},
    {.kind = BD_OP_ATTENTION,
     {F(2, 3, 2, 4), F(2, 5, 2, 4), F(2, 5, 2, 4)},
     {REAL("scale", 0.9), REAL("softcap", 0.8)}},
    {.kind = BD_OP_ATTENTION,
     {F(1, 5, 4, 2), F(1, 5, 2, 2), F(1, 5, 2, 2)},
     {REAL("scale", 0.9), INT("causal", 1), INT("window", 3), REAL("softcap", 0.6), REAL("dropout", 0.3),
      INT("site", 3)}},
    {.kind = BD_OP_SINK_ATTENTION,
     {F(2, 3, 2, 4), F(2, 3, 2, 4), F(2, 3, 2, 4), F(2)},
     {REAL("scale", 0.5)}},
    {.kind = BD_OP_SINK_ATTENTION,
     {F(2, 5, 6, 2), F(2, 5, 2, 2), F(2, 5, 2, 2), F(6)},
     {REAL("scale", 0.7), INT("causal", 1), INT("window", 3)}},
    {.kind = BD_OP_SINK_ATTENTION,
     {F(2, 4, 4, 2), F(2, 4, 4, 2), F(2, 4, 4, 2), F(4)},
     {REAL("scale", 0.7), INT("causal", 1), REAL("dropout", 0.3), INT("site", 3)}},
    {.kind = BD_OP_RELATIVE_ATTENTION,
     {F(2, 3, 2, 4), F(2, 3, 2, 4), F(2, 3, 2, 4), F(2, 3)},
     {REAL("scale", 0.5)}},
    {.kind = BD_OP_RELATIVE_ATTENTION,
     {F(1, 3, 2, 2), F(1, 4, 2, 2), F(1, 4, 2, 2), F(2, 9)},
     {REAL("scale", 0.5)}},
    {.kind = BD_OP_RELATIVE_ATTENTION,
     {F(2, 5, 4, 2), F(2, 5, 2, 2), F(2, 5, 2, 2), F(4, 3)},
     {REAL("scale", 0.7), INT("causal", 1), REAL("dropout", 0.3), INT("site", 3)}},
    {.kind = BD_OP_RELATIVE_ATTENTION,
     {F(1, 3, 2, 2), F(1, 3, 1, 2), F(1, 3, 1, 2), F(2, 1)},
     {REAL("scale", 0.7)}},
    {.kind = BD_OP_LSE, .in = {F(2, 3, 5)}},
    {.kind = BD_OP_LSE, .in = {F(7)}},
    {.kind = BD_OP_XENT, .in = {F(2, 3, 5), I(2, 3)}, .indices = 5},
    {.kind = BD_OP_XENT, .in = {F(6, 4), I(6)}, .indices = 4},
    {.kind = BD_OP_CONV, .in = {F(2, 3, 5, 6), F(4, 3, 3, 2)}},
    {.kind = BD_OP_CONV, .in = {F(2, 3, 6, 5), F(2, 3, 3, 3)}, {WINDOW(2, 2, 1, 1)}},
    {.kind = BD_OP_CONV,
     .in = {F(1, 4, 5, 5), F(6, 2, 3, 3)},
     {WINDOW(1, 2, 1, 0), INT("groups", 2)}},
    {.kind = BD_OP_CONV,
     .in = {F(2, 2, 7), F(3, 2, 2)},
     {INTS("strides", 2), INTS("dilations", 3), INTS("pads", 0, 1)}},
    {.kind = BD_OP_CONV,
     .in = {F(1, 2, 3, 4, 3), F(2, 2, 2, 3, 2)},
     {INTS("strides", 1, 2, 1), INTS("dilations", 2, 1, 1), INTS("pads", 1, 0, 1, 0, 1, 0)}},
    {.kind = BD_OP_CONV_DX,
     .in = {F(2, 4, 3, 2), F(4, 1, 3, 2)},
     {INTS("dims", 6, 5), WINDOW(2, 2, 1, 0), INT("groups", 2)}},
    {.kind = BD_OP_CONV_DW,
     .in = {F(2, 4, 5, 4), F(2, 2, 2, 4)},
     {INTS("kernel", 2, 2), INTS("strides", 2, 1), INTS("pads", 0, 1, 0, 0), INT("groups", 2)}},
    {.kind = BD_OP_CONV,
     .in = {F(1, 5, 6, 4), F(6, 2, 3, 2)},
     {WINDOW(1, 2, 1, 0), INT("groups", 2), INT("channels_last", 1)}},
    {.kind = BD_OP_CONV_DX,
     .in = {F(2, 3, 2, 4), F(4, 1, 3, 2)},
     {INTS("dims", 6, 5), WINDOW(2, 2, 1, 0), INT("groups", 2), INT("channels_last", 1)}},
    {.kind = BD_OP_MAXPOOL,
     .in = {F(1, 5, 5, 2)},
     {INTS("kernel", 3, 3), WINDOW(2, 1, 1, 1), INT("channels_last", 1)}},
    {.kind = BD_OP_MAXPOOL, .in = {F(2, 2, 4, 6)}, {INTS("kernel", 2, 2), WINDOW(2, 2, 0, 0)}},
    {.kind = BD_OP_MAXPOOL, .in = {F(1, 2, 5, 5)}, {INTS("kernel", 3, 3), WINDOW(2, 1, 1, 1)}},
    {.kind = BD_OP_MAXPOOL,
     .in = {F(1, 2, 3, 3, 4)},
     {INTS("kernel", 2, 1, 2), INTS("dilations", 1, 1, 2), INTS("pads", 0, 0, 0, 1, 0, 1)}},
};
enum { CASES = sizeof cases / sizeof *cases };

static const bd_random_key fixed_key = {.seed = 11, .step = 3, .call = 2};

static double random_real(int *position, double low, double high) {
  return low + (high - low) * bd_random_uniform(42, 0, 0, 0, 0, (uint64_t)(*position)++);
}

static bd_tensor random_tensor(bd_ctx *ctx, const gradient_case *c, bd_type type, int *position) {
  for (int d = 0; d < type.rank; d++)
    type.dims[d] = bd_extent(type.dims[d], SAMPLES);
  int64_t count = bd_type_elements(&type, 1);
  bd_tensor tensor = {type, BD_NEW_ARRAY(ctx->arena, double, count)};
  double low = c->positive ? 0.5 : -1.5;
  double first_index = c->kind == BD_OP_XENT ? -1 : 0;
  for (int64_t i = 0; i < count; i++)
    tensor.data[i] = c->zeros && i % c->zeros == 0   ? 0
                     : bd_dtype_is_float(type.dtype) ? random_real(position, low, 1.5)
                     : type.dtype == BD_BOOL
                         ? random_real(position, 0, 1) < 0.5
                         : floor(random_real(position, first_index, (double)c->indices));
  return tensor;
}

// A function of the case's op alone (with its lse for xent); returns result 0.
static bd_function *build(bd_ctx *ctx, const gradient_case *c) {
  bd_function *f = bd_function_create(ctx, "f");
  bd_id in[MOST_OPERANDS], out[BD_MAX_RESULTS];
  int operands = bd_op_get_info(c->kind)->in, attrs = 0;
  if (operands == BD_VARIADIC) operands = 3;
  while (attrs < MAX_ATTRS && c->attrs[attrs].name)
    attrs++;
  int given = c->kind == BD_OP_XENT ? 2 : operands;
  for (int i = 0; i < given; i++)
    in[i] = bd_function_add_param(ctx, f, NULL, c->in[i]);
  if (c->kind == BD_OP_XENT)
    assert_int_equal(bd_build(ctx, f, BD_OP_LSE, 1, in, 0, NULL, BD_NOWHERE, &in[2]), BD_OK);
  bd_status status = bd_build(ctx, f, c->kind, operands, in, attrs, c->attrs, BD_NOWHERE, out);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  bd_function_add_result(ctx, f, out[0]);
  return f;
}

static double functional(bd_ctx *ctx, const bd_function *f, const bd_tensor *in,
                         const bd_tensor *weights) {
  bd_tensor *results;
  assert_int_equal(bd_interpret_function(ctx, NULL, f, SAMPLES, in, &fixed_key, &results, NULL), BD_OK);
  double sum = 0;
  for (int64_t i = 0; i < bd_type_elements(&results[0].type, 1); i++)
    sum += weights->data[i] * results[0].data[i];
  return sum;
}

static void compare(bd_ctx *ctx, const bd_function *f, bd_tensor *in, const bd_tensor *weights,
                    int param, const bd_tensor *gradient) {
  const double h = 1e-5;
  for (int64_t i = 0; i < bd_type_elements(&in[param].type, 1); i++) {
    double at = in[param].data[i];
    in[param].data[i] = at + h;
    double above = functional(ctx, f, in, weights);
    in[param].data[i] = at - h;
    double below = functional(ctx, f, in, weights);
    in[param].data[i] = at;
    double expected = (above - below) / (2 * h), found = gradient->data[i];
    if (fabs(found - expected) > 1e-6 * (1 + fabs(expected)))
      fail_msg("%s operand %d element %d: %.12g, differences say %.12g",
               bd_op_get_info(f->ops[f->op_count - 1].kind)->name, param, (int)i, found, expected);
  }
}

// The arguments of a backward function: saved values, then the functional's weights.
static bd_tensor *run_backward(bd_ctx *ctx, const bd_function *f, const bd_function *backward,
                               const bd_tensor *in, bd_tensor weights) {
  bd_tensor *results, *values;
  assert_int_equal(bd_interpret_function(ctx, NULL, f, SAMPLES, in, &fixed_key, &results, &values), BD_OK);
  assert_int_equal(f->save_count, backward->restore_count);
  bd_tensor *arguments = BD_NEW_ARRAY(ctx->arena, bd_tensor, backward->param_count);
  for (int i = 0; i < f->save_count; i++)
    arguments[i] = values[f->saves[i]];
  arguments[f->save_count] = weights;
  assert_int_equal(
      bd_interpret_function(ctx, NULL, backward, SAMPLES, arguments, &fixed_key, &results, NULL), BD_OK);
  return results;
}

// What is averaged is in nobody's way: its gradient is what it has beyond the new value.
static void compare_average(const bd_tensor *in, const bd_tensor *gradient) {
  assert_int_equal(gradient->type.rank, 1);
  for (int64_t i = 0; i < gradient->type.dims[0]; i++)
    assert_true(gradient->data[i] == in[0].data[i] - in[1].data[i]);
}

// Of the places that read rows, what `back` is to say: which read each of them.
static void name_readers(bool pooled, const bd_tensor *to, bd_tensor *back) {
  int64_t batch = pooled ? 1 : to->type.dims[0], named = to->type.dims[to->type.rank - 1];
  int64_t most = back->type.dims[back->type.rank - 1];
  int64_t reads = bd_type_elements(&to->type, 1) / batch;
  int64_t rows = bd_type_elements(&back->type, 1) / batch / most;
  for (int64_t row = 0; row < batch * rows; row++) {
    double *readers = &back->data[row * most];
    int64_t count = 0;
    for (int64_t i = 0; i < reads; i++)
      if (to->data[row / rows * reads + i] == (double)(row % rows))
        readers[count++] = (double)(i / named);
    while (count < most)
      readers[count++] = -1;
  }
}

static void check_case(const gradient_case *c) {
  bd_ctx *ctx = bd_ctx_create();
  assert_non_null(ctx);
  bd_function *f = build(ctx, c), *backward;
  bool need[MOST_OPERANDS], has = true;
  int position = 0, gradients = 0;
  bd_tensor in[MOST_OPERANDS];
  for (int i = 0; i < f->param_count; i++) {
    in[i] = random_tensor(ctx, c, c->in[i], &position);
    gradients += need[i] = bd_dtype_is_float(c->in[i].dtype);
  }
  if (c->kind == BD_OP_ROUTE) name_readers(bd_op_pools(&f->ops[0]), &in[1], &in[2]);
  bd_tensor weights = random_tensor(ctx, c, f->values[f->results[0]].type, &position);
  assert_int_equal(bd_autodiff_function(ctx, f, need, &has, "f.grad", &backward), BD_OK);
  assert_int_equal(backward->result_count, gradients);
  bd_tensor *results = run_backward(ctx, f, backward, in, weights);
  for (int i = 0; i < backward->result_count; i++) {
    if (c->kind == BD_OP_TRACK && backward->gradient_of[i] == 0)
      compare_average(in, &results[i]);
    else
      compare(ctx, f, in, &weights, backward->gradient_of[i], &results[i]);
  }
  for (int i = 0; i < backward->op_count; i++)
    assert_true(backward->ops[i].group >= -1 && backward->ops[i].group < f->op_count);
  bd_ctx_destroy(ctx);
}

static void gradients_match_differences(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++)
    check_case(&cases[i]);
}

static void every_gradient_is_covered(void **state) {
  (void)state;
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++) {
    const bd_op_info *info = bd_op_get_info((bd_op_kind)kind);
    bool logical = info->level == BD_LOGICAL;
    assert_int_equal(bd_op_get_eval((bd_op_kind)kind) != NULL, logical);
    bool differentiable = logical && !(info->traits & BD_NO_GRADIENT);
    assert_int_equal(bd_op_get_gradient((bd_op_kind)kind) != NULL, differentiable);
    bool covered = !differentiable;
    for (int i = 0; i < CASES; i++)
      covered |= (int)cases[i].kind == kind;
    if (!covered) fail_msg("no case for %s", info->name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_match_differences),
      cmocka_unit_test(every_gradient_is_covered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
