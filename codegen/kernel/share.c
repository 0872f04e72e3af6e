// Kernels of one body, as layers of one shape have them, become machine code once.
#include "codegen/kernel/gen.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct body {
  uint64_t hash;
  int order;
  LLVMValueRef function;
  const char *text, *end; // what follows its name
} body;

// The next character, past the number of a loop that is kept rolled: such loops differ in nothing
// else.
static const char *step_over(const char *at) {
  if (*at++ == '!') at += strspn(at, "0123456789");
  return at;
}

// The body of the next function defined in a module's text, from `at` on.
static body next_body(const char *at, LLVMValueRef function) {
  const char *define = strstr(at, "\ndefine ");
  size_t length;
  const char *name = LLVMGetValueName2(function, &length);
  body found = {.hash = 14695981039346656037u, .function = function}; // FNV-1a
  assert(define);
  found.text = strchr(define, '@') + 1;
  assert(strncmp(found.text, name, length) == 0);
  found.text += length;
  found.end = strstr(found.text, "\n}\n");
  for (at = found.text; at < found.end; at = step_over(at))
    found.hash = (found.hash ^ (unsigned char)*at) * 1099511628211u;
  return found;
}

static bool is_same(const body *a, const body *b) {
  const char *x = a->text, *y = b->text;
  while (x < a->end && y < b->end && *x == *y) {
    x = step_over(x);
    y = step_over(y);
  }
  return x == a->end && y == b->end;
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
  char *text = LLVMPrintModuleToString(set->module); // whole: each print numbers the whole module
  const char *at = text;
  count = 0;
  for (LLVMValueRef f = LLVMGetFirstFunction(set->module); f; f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f)) {
      bodies[count] = next_body(at, f);
      at = bodies[count].end;
      bodies[count].order = count;
      count++;
    }
  qsort(bodies, (size_t)count, sizeof *bodies, body_order);
  for (int i = 1; i < count; i++)
    if (bodies[i].hash == bodies[kept].hash && is_same(&bodies[kept], &bodies[i]))
      share(ctx, set->module, bodies[kept].function, bodies[i].function);
    else
      kept = i;
  LLVMDisposeMessage(text);
}
