#!/bin/sh
# Builds the CUDA runtime as emitted programs do, for every architecture and with warnings as errors, links a
# small program with it, and runs it: on a machine without a GPU it says so and ends in status 14.
#   build.sh ROOT CUDA_HOME FOLDER
set -eu
root=$1
export CUDA_HOME="$2"
mkdir -p "$3"
cd "$3"
cat >Makefile <<'END'
include runtime/cuda.mk
OBJECTS = $(BRAID_RT_SOURCES:%.c=build/%.o) $(BRAID_RT_CUDA_SOURCES:%.cu=build/%.o) build/tests/cuda/tiny.o
tiny: $(OBJECTS)
	$(BRAID_RT_CC) -o $@ $(OBJECTS) $(BRAID_RT_LIBS)
build/%.o: %.c
	@mkdir -p $(@D)
	$(BRAID_RT_CC) $(BRAID_RT_CFLAGS) -Werror -MMD -c -o $@ $<
build/%.o: %.cu
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
