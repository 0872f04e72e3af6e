// A tool that NVTX loads (NVTX_INJECTION64_PATH): writes the ranges of a process, each with those
// around it, to $NVTX_LOG with the process' number.
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEPTH = 8, NAME = 64 };

static char open_ranges[DEPTH][NAME];
static int depth;
static FILE *out;

static int NVTX_API push(const char *name) {
  if (depth == DEPTH) abort();
  snprintf(open_ranges[depth++], NAME, "%s", name);
  for (int i = 0; i < depth; i++)
    fprintf(out, "%s%s", i ? " / " : "", open_ranges[i]);
  fputc('\n', out);
  return depth - 1;
}

static int NVTX_API pop(void) {
  if (depth == 0) abort();
  fflush(out);
  return --depth;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks *const callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned size;
  char path[512];
  snprintf(path, sizeof path, "%s.%d", getenv("NVTX_LOG"), (int)getpid());
  out = fopen(path, "w");
  if (!out || !callbacks ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) ||
      size <= NVTX_CBID_CORE_RangePop)
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
