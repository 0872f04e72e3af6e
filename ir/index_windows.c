// Index rules of windows.
#include "ir/index_rule.h"

enum { MOST = 1 << 20 }; // of a kernel's extent, a stride, a dilation and padding

bd_status bd_inference_check_list(const bd_inference *inference, const char *name, int count,
                                  int64_t least) {
  const bd_attr *attr = bd_op_find_attr(inference->op, name);
  if (!attr) return BD_OK;
  if (attr->count != count)
    return bd_inference_fail(inference, "attribute %s has %d numbers, not %d", name, attr->count,
                             count);
  for (int i = 0; i < count; ++i)
    if (attr->ints[i] < least || attr->ints[i] > MOST)
      return bd_inference_fail(inference, "attribute %s holds %lld, not in %lld to %d", name,
                               (long long)attr->ints[i], (long long)least, (int)MOST);
  return BD_OK;
}

bd_status bd_inference_read_windows(const bd_inference *inference, int count, const int64_t *kernel,
                                    bd_windows *out_windows) {
  if (count < 1 || count > BD_MAX_SPATIAL)
    return bd_inference_fail(inference, "windows lie over 1 to %d dimensions, not %d",
                             BD_MAX_SPATIAL, count);
  BD_TRY(bd_inference_check_list(inference, "kernel", count, 1));
  BD_TRY(bd_inference_check_list(inference, "strides", count, 1));
  BD_TRY(bd_inference_check_list(inference, "dilations", count, 1));
  BD_TRY(bd_inference_check_list(inference, "pads", 2 * count, 0));
  *out_windows = bd_windows_of(inference->op, count, kernel);
  for (int d = 0; d < count; ++d)
    if (out_windows->kernel[d] > MOST)
      return bd_inference_fail(inference, "a window of %lld is longer than %d",
                               (long long)out_windows->kernel[d], (int)MOST);
  return BD_OK;
}

// Dimension 0 to `lead` - 1 of the operand and the result, parallel.
static void add_lead(bd_inference *inference, int lead) {
  for (int d = 0; d < lead; ++d) {
    int loop = bd_inference_add_loop(inference, (char)('A' + d), BD_LOOP_PARALLEL,
                                     inference->in[0]->dims[d]);
    inference->map->in[0][d] = inference->map->out[0][d] = (int8_t)loop;
    inference->out[0].dims[d] = inference->in[0]->dims[d];
  }
}

bd_status bd_inference_count_windows(const bd_inference *inference, const bd_windows *windows,
                                     int d, int64_t extent, int64_t *out_count) {
  *out_count = bd_windows_along(windows, d, extent);
  if (*out_count > 0) return BD_OK;
  return bd_inference_fail(inference,
                           "a window of %lld, %lld apart, does not fit in %lld with pads "
                           "%lld and %lld",
                           (long long)windows->kernel[d], (long long)windows->dilation[d],
                           (long long)extent, (long long)windows->before[d],
                           (long long)windows->after[d]);
}

// x[lead.., s..] -> [lead.., elements of a window, windows..]
bd_status bd_infer_unfold(bd_inference *inference) {
  const bd_type *x = inference->in[0];
  bd_windows w;
  BD_TRY(bd_inference_read_windows(inference, bd_op_find_attr(inference->op, "kernel")->count, NULL,
                                   &w));
  BD_TRY(bd_inference_check_fill(inference));
  int lead = x->rank - w.count;
  if (lead < 0 || x->rank + 1 > BD_MAX_RANK)
    return bd_inference_fail(inference, "operand 1 must have %d to %d dimensions, not %s", w.count,
                             BD_MAX_RANK - 1, bd_type_describe(inference->ctx, x));
  inference->out[0].rank = x->rank + 1;
  add_lead(inference, lead);
  for (int i = 0; i <= w.count; ++i) {
    int64_t extent = bd_windows_elements(&w);
    if (i > 0 && x->dims[lead + i - 1] == BD_DIM_BATCH)
      return bd_inference_fail(inference, "dimension %d of operand 1 may not be the batch",
                               lead + i);
    if (i > 0)
      BD_TRY(bd_inference_count_windows(inference, &w, i - 1, x->dims[lead + i - 1], &extent));
    int loop = bd_inference_add_loop(inference, "kpqr"[i], BD_LOOP_WHOLE, extent);
    inference->map->out[0][lead + i] = (int8_t)loop;
    inference->out[0].dims[lead + i] = extent;
  }
  return BD_OK;
}

// The inverse: what each element of every window adds to its place in s.., the attribute `dims`.
bd_status bd_infer_fold(bd_inference *inference) {
  const bd_type *in = inference->in[0];
  const bd_attr *dims = bd_op_find_attr(inference->op, "dims");
  bd_windows w;
  BD_TRY(bd_inference_read_windows(inference, bd_op_find_attr(inference->op, "kernel")->count, NULL,
                                   &w));
  BD_TRY(bd_inference_check_list(inference, "dims", w.count, 1));
  int lead = in->rank - 1 - w.count;
  if (lead < 0)
    return bd_inference_fail(inference, "operand 1 must have at least %d dimensions, not %s",
                             w.count + 1, bd_type_describe(inference->ctx, in));
  inference->out[0].rank = lead + w.count;
  add_lead(inference, lead);
  bd_inference_add_loop(inference, 'k', BD_LOOP_WHOLE, bd_windows_elements(&w));
  for (int i = 0; i <= w.count; ++i) {
    int64_t extent = bd_windows_elements(&w);
    if (i > 0) BD_TRY(bd_inference_count_windows(inference, &w, i - 1, dims->ints[i - 1], &extent));
    if (in->dims[lead + i] != extent)
      return bd_inference_fail(inference, "dimension %d of operand 1 has extent %s, expected %lld",
                               lead + i + 1, bd_extent_print(in->dims[lead + i]).text,
                               (long long)extent);
    if (i == 0) continue;
    int loop = bd_inference_add_loop(inference, "pqr"[i - 1], BD_LOOP_WHOLE, dims -> ints[i - 1]);
    inference->map->out[0][lead + i - 1] = (int8_t)loop;
    inference->out[0].dims[lead + i - 1] = dims->ints[i - 1];
  }
  return BD_OK;
}
