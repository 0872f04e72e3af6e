#include "tests/record/show.h"

static const char *type_name(int dtype) {
  static const char *const names[] = {
      [BD_RT_F32] = "f32", [BD_RT_BF16] = "bf16", [BD_RT_F16] = "f16",   [BD_RT_F64] = "f64",
      [BD_RT_I32] = "i32", [BD_RT_I64] = "i64",   [BD_RT_BOOL] = "bool", [BD_RT_U8] = "u8",
      [BD_RT_I8] = "i8",   [BD_RT_I16] = "i16",   [BD_RT_U16] = "u16",   [BD_RT_U32] = "u32",
      [BD_RT_U64] = "u64"};
  return names[dtype];
}

// Ranks of the collective's group: those that differ from this one along the axes.
static void show_group(FILE *stream, const bd_rt *rt, int mask) {
  int base = rt->rank, stride = 1, strides[BD_RT_MAX_AXES];
  for (int a = rt->program->axes - 1; a >= 0; a--) {
    strides[a] = stride;
    stride *= rt->program->mesh[a];
    if (mask >> a & 1) base -= rt->coord[a] * strides[a];
  }
  fprintf(stream, " ranks %d", base);
  for (int a = 0; a < rt->program->axes; a++)
    if (mask >> a & 1) fprintf(stream, " %dx+%d", rt->program->mesh[a], strides[a]);
}

static void show_terms(FILE *stream, const bd_rt *rt, const record_event *event) {
  static const char *const combiners[] = {"sum", "max", "lse"};
  const record_terms *const t = &event->terms;
  fprintf(stream, " %s", type_name(t->dtype));
  if (event->kind == RECORD_ALL_REDUCE) fprintf(stream, " %s", combiners[t->combiner]);
  for (int i = 0; i < RECORD_SHAPE && t->shape[i]; i++)
    fprintf(stream, "%s%lld", i ? "," : " [", (long long)t->shape[i]);
  fprintf(stream, "]%s", t->swapped ? " swapped" : "");
  if (event->kind == RECORD_SUM_RANKS)
    fprintf(stream, " all ranks");
  else
    show_group(stream, rt, event->mask);
}

void record_show(FILE *stream, const bd_rt *rt, const record_event *event) {
  static const char access[] = {
      [RECORD_READ] = 'r', [RECORD_WRITE] = 'w', [RECORD_UPDATE] = 'u', [RECORD_SCRATCH] = 's'};
  const bd_rt_instruction *const row = &rt->program->instructions[event->instruction];
  if (row->function >= 0)
    fprintf(stream, "f%d.%d (%s): ", row->function, row->step, row->what);
  else
    fprintf(stream, "%s: ", row->what);
  fprintf(stream, "%s", record_kind_name(event->kind));
  if (event->kind == RECORD_LAUNCH) fprintf(stream, " %d", event->number);
  if (record_is_collective(event->kind)) show_terms(stream, rt, event);
  if (record_is_message(event->kind))
    fprintf(stream, " %s rank %d tag %d", event->kind == RECORD_SEND ? "to" : "from",
            event->stage * rt->devices + rt->mesh_rank, event->terms.tag);
  if (event->kind != RECORD_WAIT && event->handle != RECORD_NO_HANDLE)
    fprintf(stream, " begins %d", event->handle);
  if (event->kind == RECORD_WAIT) fprintf(stream, " for %d", event->handle);
  for (int i = 0; i < event->operand_count; i++)
    fprintf(stream, " %c %lld+%lld", access[event->operands[i].access],
            (long long)event->operands[i].start, (long long)event->operands[i].bytes);
  for (int i = 0; i < event->range_count; i += 2)
    fprintf(stream, "%s%lld+%lld", i ? ", " : " over ", (long long)event->ranges[i],
            (long long)event->ranges[i + 1]);
  fprintf(stream, "\n");
}
