// A context for each test, as cmocka's setup and teardown: the test's state.
#ifndef TESTS_UNIT_CONTEXT_H
#define TESTS_UNIT_CONTEXT_H

int make_ctx(void **state);
int drop_ctx(void **state);
#endif
