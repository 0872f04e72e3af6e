// From a GPU kernel set's LLVM text to an object file for this machine.
#ifndef EMULATOR_LOWER_H
#define EMULATOR_LOWER_H

// Kernels of tests run for less time than better code of them takes to make.
// Returns NULL, or what is wrong; free it with emulate_forget.
char *emulate_lower(const char *text_path, const char *object_path);
void emulate_forget(char *message);
#endif
