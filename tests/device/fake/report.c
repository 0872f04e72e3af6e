// What the program did, and what it left behind, as one line of JSON when it ends.
#include "tests/device/fake/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bd_fake_counts bd_fake_count;

static void write_report(void) {
  const bd_fake_counts *const c = &bd_fake_count;
  FILE *const file = fopen(getenv("BD_FAKE_REPORT"), "w");
  if (!file) bd_fake_fault("report", "%s: %s", getenv("BD_FAKE_REPORT"), strerror(errno));
  fprintf(
      file,
      "{\"device_allocations\": %lld, \"device_peak_bytes\": %lld, \"kernels\": %lld, "
      "\"launches\": %lld, \"fills\": %lld, \"copies\": %lld, \"matmuls\": %lld, \"dnn\": %lld, "
      "\"collectives\": %lld, "
      "\"messages\": %lld, \"streams\": %lld, \"graphs\": %lld, \"windows\": %lld, "
      "\"product_micros\": %lld, \"algorithms\": %lld, "
      "\"window_collectives\": %lld, \"copy_engine_collectives\": %lld, "
      "\"stream_changes\": %lld, \"preferred_streams\": %lld, "
      "\"left_bytes\": %lld, \"left_handles\": %lld}\n",
      (long long)c->device_allocations, (long long)c->device_peak_bytes, (long long)c->kernels,
      (long long)c->launches, (long long)c->fills, (long long)c->copies, (long long)c->matmuls,
      (long long)c->dnn, (long long)c->collectives, (long long)c->messages, (long long)c->streams,
      (long long)c->graphs, (long long)c->windows, (long long)bd_fake_pretended_micros(),
      (long long)bd_fake_algorithms_digest(), (long long)c->window_collectives,
      (long long)c->copy_engine_collectives, (long long)c->stream_changes,
      (long long)c->preferred_streams, (long long)(c->device_bytes + c->pinned_bytes),
      (long long)c->handles);
  fclose(file);
}

void bd_fake_report_at_end(void) {
  if (getenv("BD_FAKE_REPORT")) atexit(write_report);
}
