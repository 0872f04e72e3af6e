# Sources and flags of the CUDA runtime, relative to the folder that holds runtime/. CUDA_HOME names
# the toolkit (12.8 or newer), NCCL_HOME NCCL and CUDNN_HOME cuDNN
# (which programs look for when they start) where they are not among the system's libraries.
CUDA_HOME ?= /usr/local/cuda
# Machine code is made for these, and PTX of the first, of which the driver makes code for later ones.
ARCHITECTURES ?= 80 90
BRAID_RT_SOURCES = \
  runtime/main.c runtime/place.c runtime/samples.c runtime/say.c runtime/report.c runtime/profile.c runtime/trace.c runtime/outputs.c runtime/pool.c \
  runtime/options.c runtime/data.c runtime/data_array.c runtime/npy.c runtime/megatron.c runtime/layout.c runtime/safetensors.c \
  runtime/json.c runtime/program.c runtime/weights.c runtime/save.c runtime/update.c runtime/overlap.c runtime/deferred.c runtime/adafactor.c \
  runtime/scale.c \
  runtime/tie.c runtime/master.c runtime/source.c runtime/surplus.c runtime/save_folder.c \
  runtime/cuda/rank.c runtime/cuda/ending.c runtime/cuda/watchdog.c runtime/cuda/choose.c runtime/cuda/device.c runtime/cuda/neighbours.c runtime/cuda/observe.c runtime/cuda/sensors.c runtime/cuda/driver.c \
  runtime/cuda/launcher.c runtime/cuda/meet.c \
  runtime/cuda/meet_join.c runtime/cuda/meet_wire.c runtime/cuda/host.c runtime/cuda/memory.c \
  runtime/cuda/step.c runtime/cuda/reader.c runtime/cuda/matmul.c runtime/cuda/even.c runtime/cuda/fresh.c runtime/cuda/comm.c runtime/cuda/grant.c runtime/cuda/segment.c runtime/cuda/aside.c runtime/cuda/collectives.c \
  runtime/cuda/pipe.c runtime/cuda/lines.c runtime/cuda/dnn.c runtime/cuda/dnn_plan.c runtime/cuda/dnn_rank.c runtime/cuda/attention.c runtime/cuda/attention_graph.c runtime/cuda/convolve.c runtime/cuda/convolve_graph.c runtime/cuda/product.c runtime/cuda/tune.c runtime/cuda/tune_product.c runtime/cuda/tune_file.c
BRAID_RT_CUDA_SOURCES = runtime/cuda/optimizer.cu runtime/cuda/update.cu runtime/cuda/adafactor.cu runtime/cuda/adafactor_updates.cu \
  runtime/cuda/adafactor_means.cu runtime/cuda/parts.cu runtime/cuda/weights.cu \
  runtime/cuda/embed.cu runtime/cuda/conv.cu runtime/cuda/maxpool.cu runtime/cuda/float8.cu runtime/cuda/kept.cu
BRAID_RT_CC = cc
BRAID_RT_NVCC = $(CUDA_HOME)/bin/nvcc
BRAID_RT_PTXAS = $(CUDA_HOME)/bin/ptxas
BRAID_RT_FATBINARY = $(CUDA_HOME)/bin/fatbinary
BRAID_RT_CFLAGS = -std=c11 -D_GNU_SOURCE -O2 -ffp-contract=off -Wall -Wextra -pthread -I. \
  -isystem $(CUDA_HOME)/include $(if $(NCCL_HOME),-isystem $(NCCL_HOME)/include)
# A multiplication and an addition stay two operations, as on the CPU. What nvcc adds to start kernels needs no C++
# library, as it is without exceptions and one thread alone starts them.
BRAID_RT_NVCCFLAGS = -std=c++17 -O3 -fmad=false -I. -Xcompiler -Wall,-Wextra,-fno-exceptions,-fno-threadsafe-statics \
  $(foreach a,$(ARCHITECTURES),-gencode arch=compute_$(a),code=sm_$(a)) \
  -gencode arch=compute_$(firstword $(ARCHITECTURES)),code=compute_$(firstword $(ARCHITECTURES))
# Code for the host nvcc gives to gcc, which needs its C++ part, or to the compiler that NVCC_CCBIN names.
BRAID_RT_NVCC_FAILED = { test -n "$$NVCC_CCBIN" || echo 'int i;' | gcc -x c++ -fsyntax-only - 2>/dev/null || \
  echo 'nvcc finds no C++ compiler for the host: install g++, or name clang++ in NVCC_CCBIN' >&2; exit 1; }
# Where pip installed them, libraries lie in lib and have their versions in their names, and no others.
BRAID_RT_CUDA_LIB = $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib) $(CUDA_HOME)/lib64)
braid_rt_named = $(or $(if $(wildcard $1/lib$2.so),-l$2),$(addprefix -l:,$(notdir $(firstword $(wildcard $1/lib$2.so.*)))),-l$2)
BRAID_RT_LIBS = $(if $(CUDNN_HOME),-Wl$(comma)-rpath$(comma)$(CUDNN_HOME)/lib) \
  $(if $(NCCL_HOME),-L$(NCCL_HOME)/lib -Wl$(comma)-rpath$(comma)$(NCCL_HOME)/lib) \
  -L$(BRAID_RT_CUDA_LIB) -Wl,-rpath,$(BRAID_RT_CUDA_LIB) $(call braid_rt_named,$(BRAID_RT_CUDA_LIB),cublasLt) \
  $(call braid_rt_named,$(NCCL_HOME)/lib,nccl) $(call braid_rt_named,$(BRAID_RT_CUDA_LIB),cudart) -lm -ldl -pthread
comma := ,
