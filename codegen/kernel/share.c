// Kernels of one body, as layers of one shape have them, become machine code once.
#include "codegen/kernel/gen.h"
#include <stdlib.h>
#include <string.h>

typedef struct body {
  uint64_t hash;
  int order;
  LLVMValueRef function;
} body;

// The text of a function behind its name.
static const char *body_of(const char *text) {
  const char *name = strstr(text, "@bdk_");
  return name ? strchr(name, '(') : text;
}

// The next character, past the number of a loop that is kept rolled: such loops differ in nothing
// else.
static const char *step_over(const char *at) {
  if (*at++ == '!') at += strspn(at, "0123456789");
  return at;
}

static uint64_t hash_of(LLVMValueRef function) {
  uint64_t hash = 14695981039346656037u; // FNV-1a
  char *text = LLVMPrintValueToString(function);
  for (const char *at = body_of(text); *at; at = step_over(at))
    hash = (hash ^ (unsigned char)*at) * 1099511628211u;
  LLVMDisposeMessage(text);
  return hash;
}

static bool is_same(LLVMValueRef a, LLVMValueRef b) {
  char *const texts[] = {LLVMPrintValueToString(a), LLVMPrintValueToString(b)};
  const char *x = body_of(texts[0]), *y = body_of(texts[1]);
  while (*x && *x == *y) {
    x = step_over(x);
    y = step_over(y);
  }
  const bool same = *x == *y;
  LLVMDisposeMessage(texts[0]);
  LLVMDisposeMessage(texts[1]);
  return same;
}

static int body_order(const void *a, const void *b) {
  const body *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return x->order - y->order;
}

// The other is a name of the one from here on.
static void share(bd_ctx *ctx, LLVMModuleRef module, LLVMValueRef one, LLVMValueRef other) {
  size_t length;
  const char *name = LLVMGetValueName2(other, &length);
  name = bd_intern(ctx, name, length);
  LLVMDeleteFunction(other);
  LLVMAddAlias2(module, LLVMGlobalGetValueType(one), 0, one, name);
}

void bd_gen_share_bodies(bd_ctx *ctx, bd_kernel_set *set) {
  int count = 0, kept = 0;
  for (LLVMValueRef f = LLVMGetFirstFunction(set->module); f; f = LLVMGetNextFunction(f))
    count += !LLVMIsDeclaration(f);
  body *bodies = BD_NEW_ARRAY(ctx->arena, body, count + 1);
  count = 0;
  for (LLVMValueRef f = LLVMGetFirstFunction(set->module); f; f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f)) {
      bodies[count] = (body){hash_of(f), count, f};
      count++;
    }
  qsort(bodies, (size_t)count, sizeof *bodies, body_order);
  for (int i = 1; i < count; i++)
    if (bodies[i].hash == bodies[kept].hash && is_same(bodies[kept].function, bodies[i].function))
      share(ctx, set->module, bodies[kept].function, bodies[i].function);
    else
      kept = i;
}
