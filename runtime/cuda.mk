# Sources and flags of the CUDA runtime, relative to the folder that holds runtime/. CUDA_HOME names
# the toolkit (12.8 or newer), NCCL_HOME NCCL and CUDNN_HOME cuDNN
# (which programs look for when they start) where they are not among the system's libraries.
CUDA_HOME ?= /usr/local/cuda
# Machine code is made for these, and PTX of the first, of which the driver makes code for later ones.
ARCHITECTURES ?= 80 90
BRAID_RT_SOURCES = \
  runtime/main.c runtime/place.c runtime/samples.c runtime/say.c runtime/report.c runtime/metrics.c runtime/profile.c runtime/trace.c runtime/outputs.c runtime/pool.c \
  runtime/options.c runtime/data.c runtime/data_array.c runtime/npy.c runtime/megatron.c runtime/layout.c runtime/safetensors.c runtime/safetensors_header.c \
  runtime/json.c runtime/program.c runtime/weights.c runtime/save.c runtime/update.c runtime/overlap.c runtime/deferred.c runtime/adafactor.c \
  runtime/scale.c \
  runtime/tie.c runtime/master.c runtime/source.c runtime/surplus.c runtime/save_folder.c runtime/train.c runtime/held_out.c runtime/stop.c \
  runtime/checkpoint/checkpoint.c runtime/checkpoint/resume.c runtime/checkpoint/origin.c runtime/checkpoint/folder.c runtime/checkpoint/cut.c \
  runtime/checkpoint/rank_file.c runtime/checkpoint/held.c runtime/checkpoint/digest.c runtime/checkpoint/manifest_read.c runtime/checkpoint/manifest_write.c \
  runtime/cuda/rank.c runtime/cuda/ending.c runtime/cuda/watchdog.c runtime/cuda/choose.c runtime/cuda/device.c runtime/cuda/neighbours.c runtime/cuda/observe.c runtime/cuda/sensors.c runtime/cuda/driver.c \
  runtime/cuda/launcher.c runtime/cuda/meet.c \
  runtime/cuda/meet_join.c runtime/cuda/meet_wire.c runtime/cuda/host.c runtime/cuda/memory.c \
  runtime/cuda/step.c runtime/cuda/reader.c runtime/cuda/matmul.c runtime/cuda/grouped.c runtime/cuda/grouped_float8.c runtime/cuda/sized.c runtime/cuda/warm.c runtime/cuda/fan.c runtime/cuda/ends.c runtime/cuda/even.c runtime/cuda/fresh.c runtime/cuda/comm.c runtime/cuda/grant.c runtime/cuda/segment.c runtime/cuda/aside.c runtime/cuda/collectives.c \
  runtime/cuda/code.c runtime/cuda/embedded.c $(BRAID_RT_KERNELS:%=runtime/cuda/%.c) \
  runtime/cuda/pipe.c runtime/cuda/lines.c runtime/cuda/dnn.c runtime/cuda/dnn_plan.c runtime/cuda/dnn_rank.c runtime/cuda/attention.c runtime/cuda/attention_graph.c runtime/cuda/attention_tiles.c runtime/cuda/convolve.c runtime/cuda/convolve_graph.c runtime/cuda/product.c runtime/cuda/tune.c runtime/cuda/tune_product.c runtime/cuda/tune_file.c
# The files of the runtime's kernels: NAME.cu for the device, of which build/runtime/cuda/NAME.fatbin is made, and NAME.c, which
# starts what is in it. The list is that of runtime/cuda/kernels.def. BRAID_RT_COMPILER makes machine code and PTX of a NAME.cu.
BRAID_RT_KERNELS = optimizer update adafactor adafactor_updates adafactor_means parts weights embed conv maxpool float8 kept tiles sinks
BRAID_RT_FATBINS = $(BRAID_RT_KERNELS:%=build/runtime/cuda/%.fatbin)
BRAID_RT_COMPILER = build/runtime/cuda/compile_kernels
BRAID_RT_CC = cc
BRAID_RT_PTXAS = $(CUDA_HOME)/bin/ptxas
BRAID_RT_FATBINARY = $(CUDA_HOME)/bin/fatbinary
BRAID_RT_CFLAGS = -std=c11 -D_GNU_SOURCE -O2 -ffp-contract=off -Wall -Wextra -pthread -I. \
  -isystem $(CUDA_HOME)/include $(if $(NCCL_HOME),-isystem $(NCCL_HOME)/include)
# Makes $1.fatbin of machine code, $1.sm_80.cubin and so on, and of the PTX $2.
braid_rt_join = $(BRAID_RT_FATBINARY) -64 --create=$1.fatbin $(foreach a,$(ARCHITECTURES),--image3=kind=elf,sm=$a,file=$1.sm_$a.cubin) \
  --image3=kind=ptx,sm=$(firstword $(ARCHITECTURES)),file=$2
# Of NVRTC. A multiplication and an addition stay two operations, as on the CPU.
BRAID_RT_NVRTCFLAGS = -std=c++17 -default-device -fmad=false -I. -include=runtime/cuda/freestanding.h
# Where pip installed them, libraries lie in lib and have their versions in their names, and no others.
BRAID_RT_CUDA_LIB = $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib) $(CUDA_HOME)/lib64)
braid_rt_named = $(or $(if $(wildcard $1/lib$2.so),-l$2),$(addprefix -l:,$(notdir $(firstword $(wildcard $1/lib$2.so.*)))),-l$2)
BRAID_RT_CUDA_LIBS = -L$(BRAID_RT_CUDA_LIB) -Wl,-rpath,$(BRAID_RT_CUDA_LIB)
BRAID_RT_LIBS = $(if $(CUDNN_HOME),-Wl$(comma)-rpath$(comma)$(CUDNN_HOME)/lib) \
  $(if $(NCCL_HOME),-L$(NCCL_HOME)/lib -Wl$(comma)-rpath$(comma)$(NCCL_HOME)/lib) \
  $(BRAID_RT_CUDA_LIBS) $(call braid_rt_named,$(BRAID_RT_CUDA_LIB),cublasLt) \
  $(call braid_rt_named,$(NCCL_HOME)/lib,nccl) $(call braid_rt_named,$(BRAID_RT_CUDA_LIB),cudart) -lm -ldl -pthread
# NVRTC is needed to build alone.
BRAID_RT_COMPILER_LIBS = $(BRAID_RT_CUDA_LIBS) $(call braid_rt_named,$(BRAID_RT_CUDA_LIB),nvrtc)
comma := ,
