#include "frontend/onnx/external.h"
#include "frontend/onnx/fact.h"
#include "ir/element.h"

static uint64_t little_endian(const unsigned char *bytes, int count) {
  uint64_t bits = 0;
  for (int i = 0; i < count; i++)
    bits |= (uint64_t)bytes[i] << (8 * i);
  return bits;
}

// The element whose little-endian bits are `bits`; a varint may carry the sign further up.
static bd_onnx_number number_of(bd_onnx_dtype dtype, uint64_t bits) {
  bd_onnx_number number = {0};
  switch (dtype) {
  case BD_ONNX_FLOAT:
    number.real = bd_element_read(BD_F32, &bits, 0);
    break;
  case BD_ONNX_BFLOAT16:
    number.real = bd_element_read(BD_BF16, &bits, 0);
    break;
  case BD_ONNX_FLOAT16:
    number.real = bd_element_read(BD_F16, &bits, 0);
    break;
  case BD_ONNX_DOUBLE:
    number.real = bd_element_read(BD_F64, &bits, 0);
    break;
  case BD_ONNX_BOOL:
    number.integer = (bits & 0xff) != 0;
    break;
  case BD_ONNX_INT8:
    number.integer = (int8_t)bits;
    break;
  case BD_ONNX_INT16:
    number.integer = (int16_t)bits;
    break;
  case BD_ONNX_INT32:
    number.integer = (int32_t)bits;
    break;
  case BD_ONNX_UINT8:
    number.integer = (uint8_t)bits;
    break;
  case BD_ONNX_UINT16:
    number.integer = (uint16_t)bits;
    break;
  case BD_ONNX_UINT32:
    number.integer = (uint32_t)bits;
    break;
  default:
    number.integer = (int64_t)bits;
  }
  return number;
}

static void take_raw(const bd_onnx_tensor *tensor, const unsigned char *data, int64_t count,
                     bd_onnx_number *out) {
  int size = bd_onnx_dtype_bytes(tensor->dtype);
  if (tensor->dtype == BD_ONNX_BOOL || tensor->dtype == BD_ONNX_UINT8) { // masks are large
    bool whole = tensor->dtype == BD_ONNX_UINT8;
    for (int64_t i = 0; i < count; i++)
      out[i] = (bd_onnx_number){.integer = whole ? data[i] : data[i] != 0};
    return;
  }
  for (int64_t i = 0; i < count; i++)
    out[i] = number_of(tensor->dtype, little_endian(data + i * size, size));
}

static void take_varints(const bd_onnx_tensor *tensor, int64_t first, int64_t count,
                         bd_onnx_number *out) {
  bd_wire wire = bd_wire_begin(tensor->data);
  uint64_t bits;
  for (int64_t i = 0; i < first + count && bd_wire_varint(&wire, &bits); i++)
    if (i >= first) out[i - first] = number_of(tensor->dtype, bits);
}

static bd_status take_external(bd_ctx *ctx, const bd_onnx_model *model,
                               const bd_onnx_tensor *tensor, int64_t first, int64_t count,
                               bd_onnx_number *out) {
  enum { PIECE = 4096 };
  unsigned char bytes[PIECE];
  int size = bd_onnx_dtype_bytes(tensor->dtype);
  for (int64_t done = 0; done < count;) {
    int64_t now = count - done < PIECE / size ? count - done : PIECE / size;
    BD_TRY(bd_onnx_external_read(ctx, model->path, tensor->name, model->folder, tensor->location,
                                 tensor->offset_bytes + (first + done) * size, (size_t)(now * size),
                                 bytes));
    take_raw(tensor, bytes, now, out + done);
    done += now;
  }
  return BD_OK;
}

bd_status bd_onnx_tensor_elements(bd_ctx *ctx, const bd_onnx_model *model,
                                  const bd_onnx_tensor *tensor, int64_t first, int64_t count,
                                  bd_onnx_number *out) {
  if (count == 0) return BD_OK; // perhaps of no data at all
  switch (tensor->encoding) {
  case BD_ONNX_VARINTS:
    take_varints(tensor, first, count, out);
    return BD_OK;
  case BD_ONNX_EXTERNAL:
    return take_external(ctx, model, tensor, first, count, out);
  case BD_ONNX_RAW:
    break;
  }
  take_raw(tensor, tensor->data.data + first * bd_onnx_dtype_bytes(tensor->dtype), count, out);
  return BD_OK;
}
