// What goes wrong with NCCL because a test asks for it. BD_FAKE_TROUBLED: the rank that it happens
// to, or -2 for all.
#ifndef BD_TESTS_DEVICE_TROUBLE_H
#define BD_TESTS_DEVICE_TROUBLE_H
#include <nccl.h>

// BD_FAKE_NEVER_JOINS=1: the rank's communicators never come to be.
int bd_fake_never_joins(void);
// BD_FAKE_ASYNC_ERROR: what communicators say of themselves once the rank has asked for as many
// collectives as BD_FAKE_AFTER; until then ncclSuccess.
ncclResult_t bd_fake_async_error(void);
// BD_FAKE_BLOCKS=1: the collective after those never returns to its caller; before, the file
// $BD_FAKE_BLOCKED is made.
void bd_fake_block(void);
#endif
