// Tables of rotary positions: the cosines or sines of places times frequencies.
#ifndef BD_FRONTEND_ONNX_LOWER_TABLES_H
#define BD_FRONTEND_ONNX_LOWER_TABLES_H
#include "frontend/onnx/lower/lowering.h"

enum { BD_ONNX_MOST_FREQUENCIES = 256 };

// The element at [place, column] is the cosine, or sine, of place * frequency[column].
typedef struct bd_onnx_angles {
  bool sine;
  double frequency[BD_ONNX_MOST_FREQUENCIES];
} bd_onnx_angles;

// Whether a float32 matrix that is known beforehand is such a table, by every element.
BD_NODISCARD bd_status bd_onnx_find_angles(bd_onnx_lowering *l, const bd_onnx_fact *fact,
                                           const int64_t dims[2], bool *out_found,
                                           bd_onnx_angles *out);
// The ops that make it.
BD_NODISCARD bd_status bd_onnx_emit_angles(bd_onnx_lowering *l, const bd_onnx_angles *angles,
                                           const int64_t dims[2], bd_id *out);
#endif
