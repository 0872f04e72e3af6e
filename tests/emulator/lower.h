// From a GPU kernel set's LLVM text to an object file for this machine.
#ifndef EMULATOR_LOWER_H
#define EMULATOR_LOWER_H

#include <stdbool.h>

// `often`: the kernels run for longer than it takes to make better code of them.
// Returns NULL, or what is wrong; free it with emulate_forget.
char *emulate_lower(const char *text_path, const char *object_path, bool often);
void emulate_forget(char *message);
#endif
