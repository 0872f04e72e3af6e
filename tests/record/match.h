// Events of one instruction against what it must do.
#ifndef BD_RECORD_MATCH_H
#define BD_RECORD_MATCH_H
#include "tests/record/group.h"
#include "tests/record/holding.h"

// Fills in the operands of launches, finds where each value lies, and follows the values through
// memory. Faults go to h->faults. False: the record has lost its thread.
bool record_match(record_holding *h, const record_instruction *instruction, int micro_batch,
                  record_group *group);
#endif
