// The machine code and PTX of the runtime's kernels, which the Makefile has put into a file for
// each .cu file.
#define BD_CODE(file)                                                                              \
  __asm__(".pushsection .rodata\n"                                                                 \
          ".balign 64\n"                                                                           \
          ".globl bd_cuda_code_" #file "\n"                                                        \
          "bd_cuda_code_" #file ":\n"                                                              \
          ".incbin \"build/runtime/cuda/" #file ".fatbin\"\n"                                      \
          ".popsection\n");
#define BD_KERNEL(name, ...)
#include "runtime/cuda/kernels.def"
