// Streams and events as programs see them.
#include "tests/device/fake/queue.h"

#include <stdlib.h>
#include <time.h>

enum { EVENT_MAGIC = 0x45564E54 };

struct CUevent_st {
  int magic, timed;
  bd_fake_mark *last; // NULL: never recorded
};

static struct CUevent_st *event_of(const char *call, cudaEvent_t event) {
  if (!event || event->magic != EVENT_MAGIC) bd_fake_fault(call, "%p is no event", (void *)event);
  return event;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
  bd_fake_check_started(__func__);
  if (flags & ~(unsigned)cudaStreamNonBlocking) bd_fake_fault(__func__, "flags %#x", flags);
  *stream = bd_fake_stream_create(!flags);
  return cudaSuccess;
}

enum { FIRST_PRIORITY = -5 };

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *most) {
  bd_fake_check_started(__func__);
  *least = 0;
  *most = FIRST_PRIORITY;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
  if (priority > 0 || priority < FIRST_PRIORITY) bd_fake_fault(__func__, "priority %d", priority);
  bd_fake_count.preferred_streams += priority == FIRST_PRIORITY;
  return cudaStreamCreateWithFlags(stream, flags);
}

static int stream_is_empty(void *args) {
  return bd_fake_stream_is_empty(args);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  bd_fake_wait(__func__, stream_is_empty, bd_fake_stream_of(__func__, stream));
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  struct CUstream_st *const s = bd_fake_stream_of(__func__, stream);
  if (!s->index) bd_fake_fault(__func__, "the default stream is destroyed");
  if (!bd_fake_stream_is_empty(s)) bd_fake_fault(__func__, "work of stream %d is left", s->index);
  bd_fake_stream_destroy(s);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  bd_fake_check_started(__func__);
  if (flags & ~(unsigned)(cudaEventDisableTiming | cudaEventBlockingSync))
    bd_fake_fault(__func__, "flags %#x", flags);
  struct CUevent_st *const e = calloc(1, sizeof *e);
  if (!e) abort();
  e->magic = EVENT_MAGIC;
  e->timed = !(flags & cudaEventDisableTiming);
  bd_fake_count.handles++;
  *event = e;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  struct CUevent_st *const e = event_of(__func__, event);
  bd_fake_mark_drop(e->last);
  bd_fake_count.handles--;
  e->magic = 0; // the memory stays, so that its use is found
  return cudaSuccess;
}

static int reach(void *args) {
  bd_fake_mark *const mark = *(bd_fake_mark **)args;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  mark->seconds =
      (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + 1e-6 * (double)bd_fake_pretended_micros();
  mark->reached = 1;
  bd_fake_mark_drop(mark);
  return 1;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  struct CUevent_st *const e = event_of(__func__, event);
  bd_fake_refuse_capture(__func__, stream);
  bd_fake_mark_drop(e->last);
  e->last = bd_fake_mark_create();
  bd_fake_mark *const mark = bd_fake_mark_hold(e->last);
  bd_fake_enqueue(__func__, stream, reach, &mark, sizeof mark);
  return cudaSuccess;
}

static int wait_for(void *args) {
  bd_fake_mark *const mark = *(bd_fake_mark **)args;
  if (!mark->reached) return 0;
  bd_fake_mark_drop(mark);
  return 1;
}

// For tests of tests: 1 forgets the waits of the first stream, 2 those of the others.
static int is_forgotten(const struct CUstream_st *stream) {
  const long long which = bd_fake_setting("BD_FAKE_FORGET_WAITS", 0);
  return which && (which == 1) == (stream->index == 1);
}

// CUDA lets an event that was never recorded pass; here that is a missing record.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  struct CUevent_st *const e = event_of(__func__, event);
  if (flags) bd_fake_fault(__func__, "flags %#x", flags);
  bd_fake_refuse_capture(__func__, stream);
  if (!e->last) bd_fake_fault(__func__, "the event was never recorded");
  if (is_forgotten(bd_fake_stream_of(__func__, stream))) return cudaSuccess;
  bd_fake_mark *const mark = bd_fake_mark_hold(e->last);
  bd_fake_enqueue(__func__, stream, wait_for, &mark, sizeof mark);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  struct CUstream_st *const s = bd_fake_stream_of(__func__, stream);
  bd_fake_let_work(__func__);
  return bd_fake_stream_is_empty(s) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  struct CUevent_st *const e = event_of(__func__, event);
  if (!e->last) bd_fake_fault(__func__, "the event was never recorded");
  bd_fake_let_work(__func__);
  return e->last->reached ? cudaSuccess : cudaErrorNotReady;
}

static const struct CUevent_st *timed_event_of(const char *call, cudaEvent_t event) {
  const struct CUevent_st *const e = event_of(call, event);
  if (!e->timed) bd_fake_fault(call, "the event does not take the time");
  if (!e->last) bd_fake_fault(call, "the event was never recorded");
  return e;
}

cudaError_t cudaEventElapsedTime(float *millis, cudaEvent_t start, cudaEvent_t end) {
  const struct CUevent_st *const from = timed_event_of(__func__, start);
  const struct CUevent_st *const to = timed_event_of(__func__, end);
  if (!from->last->reached || !to->last->reached) return cudaErrorNotReady;
  *millis = (float)(1e3 * (to->last->seconds - from->last->seconds));
  return cudaSuccess;
}
