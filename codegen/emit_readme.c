// The page of the folder that tells a reader how to build and run it. It says nothing of the model:
// its names are the user's.
#include "codegen/emit.h"

static void add_shape(const bd_plan *plan, bd_text *text) {
  int ranks = bd_plan_ranks(plan);
  bd_text_addf(text, "%d rank%s: %d pipeline stage%s, each on a mesh of ", ranks,
               bd_plural(ranks, "s"), plan->stages, bd_plural(plan->stages, "s"));
  for (int axis = 0; axis < plan->mesh.axes; ++axis)
    bd_text_addf(text, "%s%d", axis ? "x" : "", plan->mesh.size[axis]);
  bd_text_addf(
      text, ".\nA step takes %lld samples, in micro-batches of %lld. Precision %s, optimizer %s.\n",
      (long long)plan->global_batch, (long long)plan->micro_batch, bd_dtype_name(plan->precision),
      plan->optimizer);
}

static void add_host_use(const bd_emitter *emitter, bd_text *text) {
  bd_text_addf(text,
               "Build     make                     with mpicc%s\n"
               "Run       mpirun -n %d ./train --data FILE --steps 100\n",
               bd_emit_convolves(emitter->module) ? ", OpenBLAS and oneDNN" : " and OpenBLAS",
               bd_plan_ranks(emitter->plan));
}

// How many of the ranks a node has is not the plan's to say.
static void add_device_use(const bd_emitter *emitter, bd_text *text) {
  int ranks = bd_plan_ranks(emitter->plan);
  bd_text_add(text,
              "Build     make                     with the CUDA toolkit in CUDA_HOME, and NCCL\n");
  if (ranks == 1)
    bd_text_add(
        text, "Run       torchrun --nproc-per-node 1 --no-python ./train --data FILE --steps 100\n"
              "          (srun and mpirun do as well)\n");
  else
    bd_text_addf(
        text,
        "Run       torchrun --nnodes NODES --nproc-per-node GPUS --rdzv-backend c10d \\\n"
        "            --rdzv-endpoint HOST:29400 --no-python ./train --data FILE --steps 100\n"
        "          on every node (srun and mpirun do as well): NODES times GPUS is %d, HOST "
        "one of the\n"
        "          nodes; a single node needs no --rdzv\n",
        ranks);
}

static void add_files(const bd_emitter *emitter, bd_text *text) {
  int stages = emitter->module->stages;
  bd_text_add(text,
              "\nplan.json     the plan: what is cut, saved and recomputed, and what it should "
              "cost\n"
              "main.c        the program's tables: stages, weights, instructions\n");
  if (stages > 1)
    bd_text_addf(text,
                 "stage0.c ...  %d pipeline stages: their layers, forward and backward, and a "
                 "step\n",
                 stages);
  else
    bd_text_add(text, "stage0.c      the layers, forward and backward, and a step\n");
  bd_text_addf(text, "kernels.*     generated kernels: %s to build, .ll to read, .h to call\n",
               emitter->module->cuda ? ".ptx" : ".s");
  if (emitter->module->cuda)
    bd_text_add(text, "device_code.s what embeds the kernels' device code\n");
  bd_text_add(text, "runtime/      what every such program links: ranks, data, collectives, "
                    "optimizers\n"
                    "Makefile      builds train, by way of build/ (make clean removes both)\n");
  for (int i = 0; i < emitter->extra_count; ++i)
    bd_text_addf(text, "%-13s %s\n", emitter->extras[i].name, emitter->extras[i].about);
}

void bd_emit_readme(const bd_emitter *emitter, bd_text *text) {
  bd_text_add(text, BD_README_START " It needs nothing of braid to build and run.\n\n");
  add_shape(emitter->plan, text);
  bd_text_add(text, "\n");
  if (emitter->module->cuda)
    add_device_use(emitter, text);
  else
    add_host_use(emitter, text);
  bd_text_add(text, "          or, where braid is: braid run . --data FILE --steps 100 (all ranks "
                    "on this machine)\n"
                    "Options   ./train --help\n"
                    "Explain   braid explain .\n");
  add_files(emitter, text);
}
