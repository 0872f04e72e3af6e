#!/bin/sh
# Builds the CUDA runtime as emitted programs do, for sm_80, sm_90 and sm_100 and with warnings as errors, registers
# spilled by any of its kernels among them; links a small program with it, and runs it: on a machine without a GPU
# it says so and ends in status 14.
#   build.sh ROOT CUDA_HOME FOLDER
set -eu
root=$1
export CUDA_HOME="$2"
mkdir -p "$3"
cd "$3"
cat >Makefile <<'END'
ARCHITECTURES = 80 90 100
include runtime/cuda.mk
BRAID_RT_NVCCFLAGS += -Xptxas -warn-spills
OBJECTS = $(BRAID_RT_SOURCES:%.c=build/%.o) $(BRAID_RT_CUDA_SOURCES:%.cu=build/%.o) build/tests/cuda/tiny.o
tiny: $(OBJECTS)
	$(BRAID_RT_CC) -o $@ $(OBJECTS) $(BRAID_RT_LIBS)
build/%.o: %.c runtime/cuda.mk tests/cuda/build.sh
	@mkdir -p $(@D)
	$(BRAID_RT_CC) $(BRAID_RT_CFLAGS) -Werror -MMD -c -o $@ $<
build/%.o: %.cu runtime/cuda.mk tests/cuda/build.sh
	@mkdir -p $(@D)
	$(BRAID_RT_NVCC) $(BRAID_RT_NVCCFLAGS) -Werror all-warnings -MMD -c -o $@ $<
-include $(OBJECTS:.o=.d)
END
rm -rf runtime tests tiny package
ln -s "$root/runtime" runtime
ln -s "$root/tests" tests
make -s -j2 tiny

printf 'it was the best of times' >text.txt
status=0
./tiny --data text.txt --steps 3 2>log || status=$?
cat log
if [ "$status" = 14 ]; then
  grep -q '^braid: rank 0 has no GPU that it can use: ' log
  [ "$(wc -l <log)" = 1 ]
else
  [ "$status" = 0 ] && grep -q 'step 3/3' log
fi
./tiny --help | grep -q 'Trains the model'

# NCCL as PyTorch brings it: the library has its version in its name, and no other.
nccl=$(ldd tiny | sed -n 's/.*libnccl\.so\.2 => \([^ ]*\).*/\1/p')
mkdir -p package/lib
ln -sf "$nccl" package/lib/libnccl.so.2
rm tiny
make -s NCCL_HOME="$PWD/package" tiny
ldd tiny | grep -q "$PWD/package/lib/libnccl.so.2"

# So has a toolkit that pip installed: its libraries lie in lib.
rm -rf toolkit && mkdir -p toolkit/lib
for part in bin include nvvm; do [ ! -e "$CUDA_HOME/$part" ] || ln -s "$CUDA_HOME/$part" toolkit/$part; done
for library in cublasLt cublas cudart; do
  for file in "$CUDA_HOME/lib64/lib$library".so.*; do ln -sf "$file" toolkit/lib/; done
done
rm tiny
make -s CUDA_HOME="$PWD/toolkit" NCCL_HOME="$PWD/package" tiny
ldd tiny | grep -q "libcublasLt\.so\.[0-9]* => $PWD/toolkit/lib/"
ldd tiny | grep -q "libcudart\.so\.[0-9]* => $PWD/toolkit/lib/"
