#include "frontend/onnx/lower/tables.h"
#include <math.h>

static const double rounding = 6e-8; // of numbers in [-1, 1] as float32

static bd_status read_row(bd_onnx_lowering *l, const bd_onnx_fact *fact, int64_t row,
                          int64_t columns, double *out) {
  bd_onnx_number numbers[BD_ONNX_MOST_FREQUENCIES];
  if (!fact->known)
    BD_TRY(
        bd_onnx_tensor_elements(l->ctx, l->model, fact->tensor, row * columns, columns, numbers));
  for (int64_t i = 0; i < columns; i++)
    out[i] = fact->known ? bd_onnx_at(fact, row * columns + i).real : numbers[i].real;
  return BD_OK;
}

// The angle with this cosine or sine that is nearest to `near`.
static double nearest_angle(bool sine, double value, double near) {
  double bounded = value > 1 ? 1 : value < -1 ? -1 : value;
  double first = sine ? asin(bounded) : acos(bounded), second = sine ? M_PI - first : -first;
  first += 2 * M_PI * round((near - first) / (2 * M_PI));
  second += 2 * M_PI * round((near - second) / (2 * M_PI));
  return fabs(first - near) <= fabs(second - near) ? first : second;
}

// How far off an angle may be that is known by its cosine or sine in float32: little where that is
// steep, most where it is level.
static double angle_error(bool sine, double angle) {
  double slope = fabs(sine ? cos(angle) : sin(angle));
  return rounding / fmax(slope, sqrt(rounding));
}

// Each row of twice the place tells the frequencies better, once the angle before is known well
// enough to say how often it has gone round.
static bd_status find_frequencies(bd_onnx_lowering *l, const bd_onnx_fact *fact,
                                  const int64_t dims[2], bd_onnx_angles *out) {
  double row[BD_ONNX_MOST_FREQUENCIES], errors[BD_ONNX_MOST_FREQUENCIES];
  for (int64_t place = 1; place < dims[0]; place *= 2) {
    BD_TRY(read_row(l, fact, place, dims[1], row));
    for (int64_t i = 0; i < dims[1]; i++) {
      double angle = nearest_angle(out->sine, row[i], out->frequency[i] * (double)place);
      double error = angle_error(out->sine, angle) / (double)place;
      if (place > 1 && error >= errors[i]) continue;
      out->frequency[i] = angle / (double)place;
      errors[i] = error;
    }
  }
  return BD_OK;
}

// Tables are float32, and so are the frequencies and angles that they were made from.
static bool is_row(const bd_onnx_angles *angles, int64_t place, int64_t columns,
                   const double *row) {
  for (int64_t i = 0; i < columns; i++) {
    double angle = (double)place * angles->frequency[i];
    double wanted = angles->sine ? sin(angle) : cos(angle);
    if (!(fabs(row[i] - wanted) <= 1e-6 + 2.5e-7 * fabs(angle))) return false;
  }
  return true;
}

bd_status bd_onnx_find_angles(bd_onnx_lowering *l, const bd_onnx_fact *fact, const int64_t dims[2],
                              bool *out_found, bd_onnx_angles *out) {
  double row[BD_ONNX_MOST_FREQUENCIES];
  *out_found = false;
  *out = (bd_onnx_angles){0};
  if (fact->dtype != BD_ONNX_FLOAT || dims[0] < 2 || dims[1] < 1 ||
      dims[1] > BD_ONNX_MOST_FREQUENCIES)
    return BD_OK;
  BD_TRY(read_row(l, fact, 0, dims[1], row));
  out->sine = row[0] == 0;
  BD_TRY(find_frequencies(l, fact, dims, out));
  for (int64_t place = 0; place < dims[0]; place++) {
    BD_TRY(read_row(l, fact, place, dims[1], row));
    if (!is_row(out, place, dims[1], row)) return BD_OK;
  }
  *out_found = true;
  return BD_OK;
}

bd_status bd_onnx_emit_angles(bd_onnx_lowering *l, const bd_onnx_angles *angles,
                              const int64_t dims[2], bd_id *out) {
  bd_id place, frequency;
  bd_attr dtype = bd_attr_string(l->ctx, "dtype", "f32");
  bd_attr places[] = {dtype, bd_attr_ints(l->ctx, "dims", 2, dims), bd_attr_int(l->ctx, "dim", 0)};
  bd_attr list[] = {dtype, bd_attr_ints(l->ctx, "dims", 1, &dims[1]),
                    bd_attr_reals(l->ctx, "values", (int)dims[1], angles->frequency)};
  BD_TRY(bd_onnx_emit(l, BD_OP_IOTA, 0, NULL, 3, places, &place));
  BD_TRY(bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, list, &frequency));
  BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, place, frequency, out));
  return bd_onnx_emit1(l, angles->sine ? BD_OP_SIN : BD_OP_COS, *out, out);
}
