// Functions of libraries that are loaded when the program starts.
#ifndef BD_RT_CUDA_SYMBOL_H
#define BD_RT_CUDA_SYMBOL_H
#include <dlfcn.h>
#include <stddef.h>

// The function `name` of a library that dlopen gave, to the pointer at `out_function`; returns
// whether there is one. ISO C has no conversion from an object's address to a function's: POSIX
// has it done through memory.
static inline int bd_cuda_symbol(void *library, const char *name, void *out_function) {
  void *const at = dlsym(library, name);
  *(void **)out_function = at;
  return at != NULL;
}
#endif
