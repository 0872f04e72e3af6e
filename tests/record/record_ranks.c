// What ranks do together.
#include "runtime/backend.h"
#include "tests/record/back_end.h"

#include <stdlib.h>

static void wait_for(bd_rt *rt, int handle) {
  record_tell(rt, (record_event){.kind = RECORD_WAIT, .handle = handle});
}

// `count` elements of `in` become `out_count` elements of `out`; a group of one copies.
static void collect(bd_rt *rt, int mask, record_terms terms, int64_t count, const void *in,
                    int64_t out_count, void *out) {
  const int64_t bytes = bd_rt_element_bytes(terms.dtype);
  if (count == 0 || out_count == 0) return;
  if (rt->group[mask].size == 1) {
    if (in != out) bd_rt_copy(rt, out, in, count * bytes);
    return;
  }
  record_operand operands[] = {record_reads(rt, in, count * bytes),
                               record_writes(rt, out, out_count * bytes), record_room(rt)};
  record_tell(rt, (record_event){.kind = terms.kind,
                                 .mask = mask,
                                 .handle = RECORD_NO_HANDLE,
                                 .terms = terms,
                                 .operand_count = rt->device->aside || rt->device->prefetch ? 2 : 3,
                                 .operands = operands});
}

void bd_rt_all_reduce(bd_rt *rt, int axis, int dtype, int combiner, int64_t count, const void *in,
                      void *out) {
  const record_terms terms = {RECORD_ALL_REDUCE, dtype, combiner, .shape = {count}};
  collect(rt, 1 << axis, terms, count, in, count, out);
}

void bd_rt_reduce(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner, int64_t count,
                  const void *in, void *out) {
  const record_terms terms = {RECORD_ALL_REDUCE, dtype, combiner, .shape = {count}};
  collect(rt, group->mask, terms, count, in, count, out);
}

void bd_rt_all_gather(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent, int64_t inner,
                      const void *in, void *out) {
  const record_terms terms = {RECORD_ALL_GATHER, dtype, .shape = {outer, extent, inner}};
  const int64_t part = bd_rt_padded_part(extent, rt->group[1 << axis].size);
  collect(rt, 1 << axis, terms, outer * part * inner, in, outer * extent * inner, out);
}

void bd_rt_prefetch(bd_rt *rt, int slot, int axis, int dtype, int64_t outer, int64_t extent,
                    int64_t inner, const void *in, void *out) {
  bd_rt_beside(rt, slot);
  bd_rt_all_gather(rt, axis, dtype, outer, extent, inner, in, out);
  rt->device->prefetch = 0;
}

void bd_rt_beside(bd_rt *rt, int slot) {
  if (bd_rt_runs_aside(rt)) rt->device->prefetch = RECORD_PREFETCH + slot;
}

void bd_rt_beside_end(bd_rt *rt) {
  rt->device->prefetch = 0;
}

void bd_rt_await(bd_rt *rt, int slot) {
  if (bd_rt_runs_aside(rt)) wait_for(rt, RECORD_PREFETCH + slot);
}

void bd_rt_reduce_scatter(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent,
                          int64_t inner, const void *in, void *out) {
  const record_terms terms = {RECORD_REDUCE_SCATTER, dtype, .shape = {outer, extent, inner}};
  const int64_t part = bd_rt_padded_part(extent, rt->group[1 << axis].size);
  collect(rt, 1 << axis, terms, outer * extent * inner, in, outer * part * inner, out);
}

void bd_rt_shard(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent, int64_t inner,
                 const void *in, void *out) {
  const bd_rt_group *const group = &rt->group[1 << axis];
  const int64_t part = bd_rt_padded_part(extent, group->size),
                bytes = bd_rt_element_bytes(dtype) * inner;
  int64_t start, own;
  bd_rt_part(extent, group->size, group->rank, &start, &own);
  const int64_t read = own > 0 ? ((outer - 1) * extent + own) * bytes : 0;
  RECORD_WORK(rt, RECORD_SHARD, record_reads(rt, (const char *)in + start * bytes, read),
              record_writes(rt, out, outer * part * bytes));
}

void bd_rt_all_to_all(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t first, int64_t middle,
                      int64_t second, int64_t inner, int swapped, const void *in, void *out) {
  const record_terms terms = {.kind = RECORD_ALL_TO_ALL,
                              .dtype = dtype,
                              .swapped = swapped,
                              .shape = {outer, first, middle, second, inner}};
  const int parts = rt->group[1 << axis].size;
  const int64_t rest = outer * middle * inner;
  const int64_t first_cut = rest * bd_rt_padded_part(first, parts) * second,
                second_cut = rest * first * bd_rt_padded_part(second, parts);
  collect(rt, 1 << axis, terms, swapped ? first_cut : second_cut, in,
          swapped ? second_cut : first_cut, out);
}

void bd_rt_mirror(bd_rt *rt, int axis, int dtype, int64_t count, const void *in, void *out) {
  const record_terms terms = {.kind = RECORD_MIRROR, .dtype = dtype, .shape = {count}};
  collect(rt, 1 << axis, terms, count, in, count, out);
}

// Of data that all ranks of the group hold in parts one after another.
static void tell_parts(bd_rt *rt, const bd_rt_group *group, record_kind kind, int dtype,
                       int64_t count, record_operand in, record_operand out) {
  record_operand operands[] = {in, out, record_room(rt)};
  if (group->size == 1 || count == 0) return;
  record_tell(rt, (record_event){.kind = kind,
                                 .mask = group->mask,
                                 .handle = RECORD_NO_HANDLE,
                                 .terms = {kind, dtype, .shape = {1, count, 1}},
                                 .operand_count = rt->device->aside || rt->device->prefetch ? 2 : 3,
                                 .operands = operands});
}

void bd_rt_reduce_part(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data) {
  int64_t start, own;
  const int64_t bytes = bd_rt_element_bytes(dtype);
  bd_rt_part(count, group->size, group->rank, &start, &own);
  tell_parts(rt, group, RECORD_REDUCE_SCATTER, dtype, count, record_reads(rt, data, count * bytes),
             record_writes(rt, (char *)data + start * bytes, own * bytes));
}

void bd_rt_gather_parts(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data) {
  int64_t start, own;
  const int64_t bytes = bd_rt_element_bytes(dtype);
  bd_rt_part(count, group->size, group->rank, &start, &own);
  tell_parts(rt, group, RECORD_ALL_GATHER, dtype, count,
             record_reads(rt, (char *)data + start * bytes, own * bytes),
             record_writes(rt, data, count * bytes));
}

// As runtime/cuda: a direction has a line for each copy of what it carries where work runs beside,
// else one; passes take them in turn.
static int line_of(const bd_rt *rt, int stage, int pass) {
  return rt->device->keeps_order ? pass % abs(stage - rt->stage_index) : 0;
}

static void tell_message(bd_rt *rt, record_kind kind, int stage, int tag, int line, int handle,
                         record_operand operand) {
  record_tell(
      rt, (record_event){
              .kind = kind,
              .stage = stage,
              .handle = handle,
              .alone = !rt->device->unposted,
              .terms = {.kind = RECORD_SEND, .tag = tag, .line = line, .shape = {operand.bytes}},
              .operand_count = 1,
              .operands = &operand});
}

static int64_t rounded(int64_t bytes) {
  return (bytes + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
}

static int copies_for(const bd_rt *rt, int stage) {
  return abs(stage - rt->stage_index);
}

static void add_slot(bd_rt *rt, int stage, int tag, int64_t bytes) {
  bd_rt_device *const device = rt->device;
  if (device->slot_count == RECORD_MOST_SLOTS)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "more than %d messages on their way", RECORD_MOST_SLOTS);
  device->slots[device->slot_count++] =
      (record_slot){.stage = stage,
                    .tag = tag,
                    .offset = rt->stage->send_offset + device->send_used,
                    .bytes = bytes};
  device->send_used += rounded(bytes);
  if (device->send_used > rt->stage->send_bytes)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "messages need %lld bytes of the arena, which has %lld",
               (long long)device->send_used, (long long)rt->stage->send_bytes);
}

// The first of the slots of a stage and tag.
static int first_slot(bd_rt *rt, int stage, int tag, int64_t bytes) {
  bd_rt_device *const device = rt->device;
  for (int i = 0; i < device->slot_count; i++) {
    const record_slot *const slot = &device->slots[i];
    if (slot->stage != stage || slot->tag != tag) continue;
    if (bytes > slot->bytes)
      bd_rt_fail(BD_RT_EXIT_INTERNAL, "messages of one stage and tag differ in size");
    return i;
  }
  const int first = device->slot_count;
  for (int copy = 0; copy < copies_for(rt, stage); copy++)
    add_slot(rt, stage, tag, bytes);
  return first;
}

// A slot's number is the handle of its messages.
void bd_rt_send(bd_rt *rt, int stage, int tag, const void *data, int64_t bytes) {
  if (bytes == 0) return;
  const int first = first_slot(rt, stage, tag, bytes);
  int *const next = &rt->device->slots[first].next;
  const int copy = *next, handle = first + copy;
  record_slot *const slot = &rt->device->slots[handle];
  *next = (*next + 1) % copies_for(rt, stage);
  if (slot->used) wait_for(rt, handle);
  slot->used = 1;
  bd_rt_copy(rt, rt->arena + slot->offset, data, bytes);
  tell_message(rt, RECORD_SEND, stage, tag, line_of(rt, stage, copy), handle,
               record_reads(rt, rt->arena + slot->offset, bytes));
  rt->device->unposted = true;
}

void bd_rt_post(bd_rt *rt) {
  rt->device->unposted = false;
}

void bd_rt_recv(bd_rt *rt, int stage, int tag, void *data, int64_t bytes) {
  record_source *const source = &rt->device->sources[stage];
  if (bytes == 0) return;
  if (!source->known) *source = (record_source){.known = true, .first_tag = tag};
  source->passes += tag == source->first_tag;
  tell_message(rt, RECORD_RECEIVE, stage, tag, line_of(rt, stage, source->passes - 1),
               RECORD_NO_HANDLE, record_writes(rt, data, bytes));
}

enum { GIVEN = -1 }; // what has no tag

void bd_rt_give(bd_rt *rt, int stage, const void *data, int64_t bytes) {
  tell_message(rt, RECORD_SEND, stage, GIVEN, 0, RECORD_GIVEN, record_reads(rt, data, bytes));
  wait_for(rt, RECORD_GIVEN);
}

void bd_rt_take(bd_rt *rt, int stage, void *data, int64_t bytes) {
  tell_message(rt, RECORD_RECEIVE, stage, GIVEN, 0, RECORD_NO_HANDLE,
               record_writes(rt, data, bytes));
}
