#include "ir/float8.h"

#include <math.h>
#include <string.h>

typedef struct format_info {
  const char *name;
  int digits;         // binary, the leading one included
  int least_exponent; // of the subnormals' step
  double most;
} format_info;

static const format_info formats[BD_FLOAT8_COUNT] = {
    [BD_E4M3] = {"e4m3", 4, -9, 448},
    [BD_E5M2] = {"e5m2", 3, -16, 57344},
};

const char *bd_float8_name(bd_float8 format) {
  return formats[format].name;
}

bool bd_float8_parse(const char *text, bd_float8 out_formats[2]) {
  static const bd_float8 pairs[][2] = {{BD_E4M3, BD_E4M3}, {BD_E4M3, BD_E5M2}, {BD_E5M2, BD_E4M3}};
  for (int i = 0; i < 3; i++) {
    const char *first = formats[pairs[i][0]].name, *second = formats[pairs[i][1]].name;
    size_t length = strlen(first);
    if (strncmp(text, first, length) != 0 || text[length] != ',' ||
        strcmp(text + length + 1, second) != 0)
      continue;
    memcpy(out_formats, pairs[i], sizeof pairs[i]);
    return true;
  }
  return false;
}

// A letter that both factors have, and the result: it numbers products.
static bool numbers_products(const char *letters, int d, const bd_type *type, const char *other,
                             int other_rank, const char *result) {
  return type->dims[d] != 1 && memchr(other, letters[d], (size_t)other_rank) &&
         strchr(result, letters[d]);
}

// Of the matrices that a factor consists of: `out[0]` of what the other lacks, `out[1]` of what
// both have, as rests of a division by the grain.
static void count_matrix(const char *letters, const bd_type *type, const char *other,
                         int other_rank, const char *result, int64_t out[2]) {
  out[0] = out[1] = 1;
  for (int d = type->rank - 1; d >= 0; d--) {
    if (numbers_products(letters, d, type, other, other_rank, result)) return;
    bool in_both = memchr(other, letters[d], (size_t)other_rank);
    int64_t extent = type->dims[d] == BD_DIM_BATCH ? BD_FLOAT8_GRAIN : type->dims[d];
    out[in_both] = out[in_both] * extent % BD_FLOAT8_GRAIN;
  }
}

bool bd_float8_fits(const char *rule, const bd_type *a, const bd_type *b) {
  const char *first = rule, *second = rule + a->rank + 1, *result = second + b->rank + 2;
  int64_t left[2], right[2];
  count_matrix(first, a, second, b->rank, result, left);
  count_matrix(second, b, first, a->rank, result, right);
  return left[0] == 0 && right[0] == 0 && left[1] == 0 && right[1] == 0;
}

// Whether the matrices that the first dimension numbers are in grains.
static bool in_grains(const bd_type *type) {
  for (int d = 1; d < type->rank; d++)
    if (type->dims[d] % BD_FLOAT8_GRAIN) return false;
  return true;
}

bool bd_float8_takes(const bd_op *op, const bd_type *a, const bd_type *b) {
  if (!bd_op_is_grouped(op->kind)) return bd_float8_fits(bd_op_string(op, "rule"), a, b);
  return bd_op_int(op, "grain", 1) % BD_FLOAT8_GRAIN == 0 && in_grains(a) && in_grains(b);
}

// The largest power of two that leaves `size` within the format; at most 2^126, as floats have it.
static int scale_of(const format_info *format, double size) {
  int of_most, of_size;
  if (!(size > 0) || !isfinite(size)) return 0;
  double most = frexp(format->most, &of_most);
  int scale = of_most - (frexp(size, &of_size) > most) - of_size;
  return scale < 126 ? scale : 126;
}

static double round_scaled(const format_info *format, int scale, double value) {
  int exponent;
  if (!isfinite(value)) return NAN;
  double scaled = ldexp(value, scale);
  (void)frexp(scaled, &exponent);
  int step = exponent - format->digits;
  if (scaled == 0 || step < format->least_exponent) step = format->least_exponent;
  return ldexp(nearbyint(ldexp(scaled, -step)), step - scale);
}

bd_tensor bd_float8_round(bd_arena *arena, bd_float8 format, const bd_tensor *tensor) {
  int64_t count = bd_type_elements(&tensor->type, 1);
  bd_tensor out = {tensor->type, BD_NEW_ARRAY(arena, double, count)};
  double size = 0;
  for (int64_t i = 0; i < count; i++)
    if (!(fabs(tensor->data[i]) <= size)) size = fabs(tensor->data[i]);
  int scale = scale_of(&formats[format], size);
  for (int64_t i = 0; i < count; i++)
    out.data[i] = round_scaled(&formats[format], scale, tensor->data[i]);
  return out;
}
