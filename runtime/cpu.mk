# Sources and flags of the CPU runtime, relative to the folder that holds runtime/.
BRAID_RT_SOURCES = \
  runtime/options.c runtime/data.c runtime/data_array.c runtime/layout.c runtime/safetensors.c \
  runtime/json.c \
  runtime/cpu/main.c runtime/cpu/join.c runtime/cpu/report.c runtime/cpu/pool.c \
  runtime/cpu/collectives.c runtime/cpu/pipe.c runtime/cpu/weights.c runtime/cpu/save.c \
  runtime/cpu/update.c runtime/cpu/tie.c runtime/cpu/gemm.c runtime/cpu/attention.c runtime/cpu/attention_grad.c \
  runtime/cpu/embed.c runtime/cpu/conv.c runtime/cpu/pool2d.c
BRAID_RT_CC = mpicc
BRAID_RT_CFLAGS = -std=c11 -D_GNU_SOURCE -O3 -march=x86-64-v3 -ffp-contract=off -fno-math-errno \
  -fno-trapping-math -Wall -Wextra -pthread -I.
BRAID_RT_LIBS = -lopenblas -lm -pthread
