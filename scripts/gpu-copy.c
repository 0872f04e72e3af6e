// Prints how many bytes a second a GPU reads and writes while it copies within its memory: the
// best of some copies of 1 GiB.
//   gpu-copy
#include <cuda_runtime_api.h>
#include <stdio.h>

enum { TURNS = 20 };

int main(void) {
  const size_t bytes = (size_t)1 << 30;
  cudaEvent_t start, end;
  char *from, *to;
  float best = 0;
  if (cudaMalloc((void **)&from, bytes) || cudaMalloc((void **)&to, bytes) ||
      cudaMemset(from, 1, bytes) || cudaEventCreate(&start) || cudaEventCreate(&end))
    return 1;
  for (int turn = 0; turn < TURNS; turn++) {
    float millis = 0;
    if (cudaEventRecord(start, NULL) ||
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, NULL) ||
        cudaEventRecord(end, NULL) || cudaEventSynchronize(end) ||
        cudaEventElapsedTime(&millis, start, end))
      return 1;
    if (best == 0 || millis < best) best = millis;
  }
  printf("%.6g\n", 2e3 * (double)bytes / (double)best);
  return 0;
}
