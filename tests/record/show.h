// A rank's events as text, a line each.
#ifndef BD_RECORD_SHOW_H
#define BD_RECORD_SHOW_H
#include "runtime/rank.h"
#include "tests/record/event.h"

#include <stdio.h>

void record_show(FILE *stream, const bd_rt *rt, const record_event *event);
#endif
