# Sources and flags of the CPU runtime, relative to the folder that holds runtime/.
BRAID_RT_SOURCES = \
  runtime/machine.c runtime/main.c runtime/place.c runtime/samples.c runtime/say.c runtime/report.c runtime/metrics.c runtime/profile.c runtime/trace.c runtime/outputs.c \
  runtime/options.c runtime/data.c runtime/data_array.c runtime/npy.c runtime/megatron.c runtime/layout.c runtime/safetensors.c runtime/safetensors_header.c \
  runtime/pool.c runtime/json.c runtime/program.c runtime/weights.c runtime/save.c runtime/update.c runtime/overlap.c runtime/deferred.c runtime/adafactor.c \
  runtime/scale.c runtime/tie.c runtime/master.c runtime/source.c runtime/surplus.c runtime/save_folder.c runtime/train.c runtime/held_out.c runtime/stop.c \
  runtime/checkpoint/checkpoint.c runtime/checkpoint/resume.c runtime/checkpoint/origin.c runtime/checkpoint/folder.c runtime/checkpoint/cut.c \
  runtime/checkpoint/rank_file.c runtime/checkpoint/held.c runtime/checkpoint/digest.c runtime/checkpoint/manifest_read.c runtime/checkpoint/manifest_write.c \
  runtime/cpu/device.c runtime/cpu/observe.c runtime/cpu/host.c runtime/cpu/memory.c runtime/cpu/fill.c runtime/cpu/optimizer.c runtime/cpu/rounding.c \
  runtime/cpu/adafactor.c \
  runtime/cpu/collectives.c runtime/cpu/boxes.c runtime/cpu/reduce.c runtime/cpu/reduce_scatter.c runtime/cpu/combine.c \
  runtime/cpu/pipe.c runtime/cpu/gemm.c runtime/cpu/grouped.c runtime/cpu/attention.c \
  runtime/cpu/attention_grad.c runtime/cpu/biases.c runtime/cpu/attention_halves.c runtime/cpu/embed.c \
  runtime/cpu/maxpool.c runtime/cpu/evaluate.c
# Programs that convolve set BRAID_RT_CONVOLVES before they include this: they alone need oneDNN.
BRAID_RT_SOURCES += $(if $(BRAID_RT_CONVOLVES),runtime/cpu/conv.c runtime/cpu/conv_plan.c \
  runtime/cpu/conv_kernel.c runtime/cpu/conv_product.c runtime/cpu/conv_tile.c)
BRAID_RT_CC = mpicc
BRAID_RT_CFLAGS = -std=c11 -D_GNU_SOURCE -O3 -march=x86-64-v3 -ffp-contract=off -fno-math-errno \
  -fno-trapping-math -Wall -Wextra -pthread -I.
BRAID_RT_LIBS = $(if $(BRAID_RT_CONVOLVES),-ldnnl -lgomp) -lopenblas -lm -pthread
