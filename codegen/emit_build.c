// The files that turn the sources into a program: kernels.h, the Makefile, and for GPUs the
// assembler file that embeds the device code.
#include "codegen/emit.h"

static void add_host_kernels(const bd_emitter *emitter, bd_text *text) {
  bd_text_add(text, "// Generated kernels (kernels.s; to read: kernels.ll) and how they run.\n"
                    "#ifndef KERNELS_H\n#define KERNELS_H\n"
                    "#include \"runtime/braid_rt.h\"\n#include <stddef.h>\n\n"
                    "typedef void kernel(char *const *buffers, const int64_t *range,\n"
                    "                    const bd_rt_random *random, const float *scalars,\n"
                    "                    int64_t chunk);\n"
                    "typedef int64_t kernel_chunks(const int64_t *range);\n\n");
  for (int i = 0; i < emitter->kernel_count; ++i)
    bd_text_addf(text, "kernel bdk_%d; kernel_chunks bdk_%d_chunks;\n", i, i);
  bd_text_add(
      text,
      "\ntypedef struct kernel_run {\n  kernel *run;\n  char *const *buffers;\n"
      "  const int64_t *range;\n  const bd_rt_random *random;\n} kernel_run;\n\n"
      "static inline void run_chunk(void *args, int64_t chunk) {\n"
      "  const kernel_run *const k = args;\n"
      "  k->run(k->buffers, k->range, k->random, NULL, chunk);\n}\n\n"
      "// Runs all chunks of a kernel. `range`: first index and valid count of each of its loops.\n"
      "static inline void run_kernel(bd_rt *rt, kernel *run, kernel_chunks *chunks,\n"
      "                              char *const *buffers, const int64_t *range,\n"
      "                              const bd_rt_random *random) {\n"
      "  kernel_run k = {run, buffers, range, random};\n"
      "  bd_rt_parallel(rt, run_chunk, &k, chunks(range));\n}\n#endif\n");
}

static void add_device_kernels(const bd_emitter *emitter, bd_text *text) {
  bd_text_addf(
      text,
      "// The generated kernels are %d entries of kernels.ptx (to read: kernels.ll), which\n"
      "// bd_rt_launch starts by number.\n"
      "#ifndef KERNELS_H\n#define KERNELS_H\n"
      "#include \"runtime/braid_rt.h\"\n#include <stddef.h>\n#endif\n",
      emitter->kernel_count);
}

void bd_emit_kernel_header(const bd_emitter *emitter, bd_text *text) {
  if (emitter->module->cuda)
    add_device_kernels(emitter, text);
  else
    add_host_kernels(emitter, text);
}

static void add_sources(const bd_emitter *emitter, bd_text *text) {
  bd_text_add(text, "SOURCES = main.c");
  for (int s = 0; s < emitter->module->stages; ++s)
    bd_text_addf(text, " stage%d.c", s);
  bd_text_add(text, " $(BRAID_RT_SOURCES)\n");
}

static void add_rules(bd_text *text, const char *program) {
  bd_text_addf(text,
               "\n%s: $(OBJECTS)\n\t$(BRAID_RT_CC) -o $@ $(OBJECTS) $(BRAID_RT_LIBS)\n\n"
               "build/%%.o: %%.c kernels.h\n\t@mkdir -p $(@D)\n"
               "\t$(BRAID_RT_CC) $(BRAID_RT_CFLAGS) -c -o $@ $<\n\n"
               "# The runtime knows nothing of the program.\n"
               "build/runtime/%%.o: runtime/%%.c\n\t@mkdir -p $(@D)\n"
               "\t$(BRAID_RT_CC) $(BRAID_RT_CFLAGS) -c -o $@ $<\n\n",
               program);
}

static void add_host_kernels_rule(bd_text *text) {
  bd_text_add(text, "build/kernels.o: kernels.s\n\t@mkdir -p $(@D)\n"
                    "\t$(BRAID_RT_CC) -c -o $@ $<\n\n");
}

static void add_runtime_kernels_rules(bd_text *text) {
  bd_text_add(text, "$(BRAID_RT_COMPILER): runtime/cuda/compile_kernels.c\n\t@mkdir -p $(@D)\n"
                    "\t$(BRAID_RT_CC) $(BRAID_RT_CFLAGS) -o $@ $< $(BRAID_RT_COMPILER_LIBS)\n\n"
                    "$(BRAID_RT_FATBINS): build/%.fatbin: %.cu | $(BRAID_RT_COMPILER)\n"
                    "\t@mkdir -p $(@D)\n"
                    "\t$(BRAID_RT_COMPILER) $< build/$* $(BRAID_RT_NVRTCFLAGS) $(ARCHITECTURES)\n"
                    "\t$(call braid_rt_join,build/$*,build/$*.ptx)\n\n"
                    "build/runtime/cuda/embedded.o: $(BRAID_RT_FATBINS)\n\n"
                    ".DELETE_ON_ERROR:\n\n");
}

static void add_device_rules(bd_text *text) {
  bd_text_add(text, "build/kernels.sm_%.cubin: kernels.ptx\n\t@mkdir -p $(@D)\n"
                    "\t$(BRAID_RT_PTXAS) -arch=sm_$* -o $@ $<\n\n"
                    "build/kernels.fatbin: $(ARCHITECTURES:%=build/kernels.sm_%.cubin)\n"
                    "\t@echo $(ARCHITECTURES) >build/architectures\n"
                    "\t$(call braid_rt_join,build/kernels,kernels.ptx)\n\n"
                    "build/device_code.o: device_code.s build/kernels.fatbin\n"
                    "\t$(BRAID_RT_CC) -c -o $@ $<\n\n");
}

static void add_device_makefile(const bd_emitter *emitter, bd_text *text) {
  bd_text_add(text,
              "# Builds the training program: make, then ./train --help. Its ranks are started by\n"
              "# torchrun --no-python, srun or mpirun. CUDA_HOME names the CUDA toolkit.\n"
              "include runtime/cuda.mk\n\n");
  add_sources(emitter, text);
  bd_text_add(text, "OBJECTS = $(SOURCES:%.c=build/%.o) build/device_code.o\n");
  add_rules(text, "train");
  add_runtime_kernels_rules(text);
  add_device_rules(text);
}

bool bd_emit_convolves(const bd_module *module) {
  for (int i = 0; i < module->function_count; ++i)
    for (int k = 0; k < module->functions[i]->op_count; ++k) {
      bd_op_kind kind = module->functions[i]->ops[k].kind;
      if (kind == BD_OP_CONV || kind == BD_OP_CONV_DX || kind == BD_OP_CONV_DW) return true;
    }
  return false;
}

static void add_host_runtime(const bd_emitter *emitter, bd_text *text) {
  if (bd_emit_convolves(emitter->module)) bd_text_add(text, "BRAID_RT_CONVOLVES = 1\n");
  bd_text_add(text, "include runtime/cpu.mk\n\n");
}

static void add_host_makefile(const bd_emitter *emitter, bd_text *text) {
  bd_text_add(text, "# Builds the training program: make, then mpirun -n RANKS ./train --help\n");
  add_host_runtime(emitter, text);
  add_sources(emitter, text);
  bd_text_add(text, "OBJECTS = $(SOURCES:%.c=build/%.o) build/kernels.o\n");
  add_rules(text, "train");
  add_host_kernels_rule(text);
}

void bd_emit_makefile(const bd_emitter *emitter, bd_text *text) {
  if (emitter->module->cuda)
    add_device_makefile(emitter, text);
  else
    add_host_makefile(emitter, text);
  bd_text_add(text, "clean:\n\trm -rf build train\n.PHONY: clean\n");
}

void bd_emit_evaluation_makefile(const bd_emitter *emitter, bd_text *text) {
  bd_text_add(text, "# Builds the program: make, then ./evaluate IN OUT\n");
  add_host_runtime(emitter, text);
  bd_text_add(text, "SOURCES = main.c $(BRAID_RT_SOURCES)\n"
                    "OBJECTS = $(SOURCES:%.c=build/%.o) build/kernels.o\n");
  add_rules(text, "evaluate");
  add_host_kernels_rule(text);
}

void bd_emit_device_code(bd_text *text) {
  bd_text_add(text,
              "# The kernels' machine code and PTX, made by the Makefile from kernels.ptx, and\n"
              "# the names of their architectures.\n"
              "    .section .rodata\n    .balign 64\n"
              "    .globl braid_device_code, braid_device_code_end, braid_architectures\n"
              "braid_device_code:\n    .incbin \"build/kernels.fatbin\"\n"
              "braid_device_code_end:\n"
              "braid_architectures:\n    .incbin \"build/architectures\"\n    .byte 0\n"
              "    .section .note.GNU-stack,\"\",@progbits\n");
}
