#!/bin/sh
# Builds the CUDA runtime as emitted programs do, for sm_80, sm_90 and sm_100 and with warnings as errors, registers
# spilled by any of its kernels among them, where there is neither a C++ compiler nor nvcc; links a small program with it,
# and runs it: on a machine without a GPU it says so and ends in status 14.
#   build.sh ROOT CUDA_HOME FOLDER
set -eu
root=$1 system=$2
mkdir -p "$3"
cd "$3"
cat >Makefile <<'END'
ARCHITECTURES = 80 90 100
include runtime/cuda.mk
BRAID_RT_NVRTCFLAGS += -Werror --ptxas-options=-warn-spills
OBJECTS = $(BRAID_RT_SOURCES:%.c=build/%.o) build/tests/cuda/tiny.o
HEADERS = $(wildcard runtime/*.h runtime/cuda/*.h runtime/cuda/*.cuh runtime/cuda/*.def)
tiny: $(OBJECTS)
	$(BRAID_RT_CC) -o $@ $(OBJECTS) $(BRAID_RT_LIBS)
build/%.o: %.c runtime/cuda.mk tests/cuda/build.sh
	@mkdir -p $(@D)
	$(BRAID_RT_CC) $(BRAID_RT_CFLAGS) -Werror -MMD -c -o $@ $<
$(BRAID_RT_COMPILER): runtime/cuda/compile_kernels.c runtime/cuda.mk
	@mkdir -p $(@D)
	$(BRAID_RT_CC) $(BRAID_RT_CFLAGS) -Werror -o $@ $< $(BRAID_RT_COMPILER_LIBS)
$(BRAID_RT_FATBINS): build/%.fatbin: %.cu runtime/cuda/compile_kernels.c runtime/cuda.mk tests/cuda/build.sh $(HEADERS) | \
  $(BRAID_RT_COMPILER)
	$(BRAID_RT_COMPILER) $< build/$* $(BRAID_RT_NVRTCFLAGS) $(ARCHITECTURES)
	$(call braid_rt_join,build/$*,build/$*.ptx)
build/runtime/cuda/embedded.o: $(BRAID_RT_FATBINS)
-include $(OBJECTS:.o=.d)
END
rm -rf runtime tests tiny package tools toolkit pip
ln -s "$root/runtime" runtime
ln -s "$root/tests" tests

# All that there is to build with: a compiler that knows no C++, and two of the toolkit's programs.
mkdir -p tools toolkit/bin pip/bin pip/lib
for tool in make mkdir sh as ld; do ln -s "$(command -v $tool)" tools/$tool; done
cat >tools/cc <<END
#!/bin/sh
case " \$* " in *c++* | *.cu\ * | *.cpp\ * | *.cc\ *) echo "cc: no C++ here" >&2; exit 1 ;; esac
exec $(command -v cc) "\$@"
END
chmod +x tools/cc
for folder in toolkit pip; do
  for tool in ptxas fatbinary; do ln -s "$system/bin/$tool" $folder/bin/; done
  ln -s "$system/include" $folder/include
done
ln -s "$system/lib64" toolkit/lib64
all=$PATH
tools=$PWD/tools
export CUDA_HOME="$PWD/toolkit"
printf 'int i;\n' >plus.cpp
PATH=$tools
for tool in g++ c++ clang++ cc1plus nvcc cicc; do
  ! command -v $tool || { echo "there is $tool"; exit 1; }
done
! cc -c -o plus.o plus.cpp 2>/dev/null || { echo 'there is a C++ compiler'; exit 1; }
make -s -j2 tiny
PATH=$all
# Every kernel's file has machine code for each, and PTX of the first.
for fatbin in build/runtime/cuda/*.fatbin; do
  [ "$(sh tests/cuda/images.sh $fatbin | xargs)" = 'elf 80 elf 90 elf 100 ptx 80' ] || { echo "$fatbin has other images"; exit 1; }
done
# The Makefile's list of kernels is that of what is loaded.
[ "$(sed -n 's/^BRAID_RT_KERNELS = //p' runtime/cuda.mk)" = "$(sed -n 's/^BD_CODE(\(.*\))$/\1/p' runtime/cuda/kernels.def | xargs)" ] ||
  { echo 'runtime/cuda.mk and kernels.def name other files'; exit 1; }

# WORDS OPTION...: what is said of wrong.cu, which standard input is. Then nothing is made of it.
refuse() {
  words=$1
  shift
  cat >wrong.cu
  ! build/runtime/cuda/compile_kernels wrong.cu wrong "$@" -std=c++17 80 90 2>log || { echo 'wrong.cu compiles'; exit 1; }
  grep -q "$words" log && [ "$(echo wrong.*)" = wrong.cu ] || { cat log; exit 1; }
}
refuse '^wrong.cu(2): error: identifier "y" is undefined' <<'END'
extern "C" __global__ void k(float *x) {
  *x = y;
}
END
refuse '^wrong.cu(2): warning .*"unused"' -Werror <<'END'
extern "C" __global__ void k(float *x) {
  int unused;
}
END
refuse 'Registers are spilled' -Werror --ptxas-options=-warn-spills <<'END'
extern "C" __global__ void __launch_bounds__(1024, 2) k(float *x, int n) {
  float all[64];
#pragma unroll
  for (int i = 0; i < 64; i++) all[i] = x[i * n];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; i++) x[i * n + 1] = all[i] * all[63 - i];
}
END

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
! readelf -d tiny | grep 'libnvrtc\|libstdc++' || { echo 'tiny is linked with what it does without'; exit 1; }

# NCCL as PyTorch brings it: the library has its version in its name, and no other.
nccl=$(ldd tiny | sed -n 's/.*libnccl\.so\.2 => \([^ ]*\).*/\1/p')
mkdir -p package/lib
ln -sf "$nccl" package/lib/libnccl.so.2
rm tiny
make -s NCCL_HOME="$PWD/package" tiny
ldd tiny | grep -q "$PWD/package/lib/libnccl.so.2"

# So has a toolkit that pip installed: its libraries lie in lib. Of the runtime's kernels one file is compiled anew.
for library in cublasLt cublas cudart nvrtc nvrtc-builtins; do
  for file in "$system/lib64/lib$library".so.*; do ln -s "$file" pip/lib/; done
done
rm tiny build/runtime/cuda/compile_kernels build/runtime/cuda/kept.fatbin
PATH=$tools make -s CUDA_HOME="$PWD/pip" NCCL_HOME="$PWD/package" tiny
ldd build/runtime/cuda/compile_kernels | grep -q "libnvrtc\.so\.[0-9]* => $PWD/pip/lib/"
ldd tiny | grep -q "libcublasLt\.so\.[0-9]* => $PWD/pip/lib/"
ldd tiny | grep -q "libcudart\.so\.[0-9]* => $PWD/pip/lib/"
