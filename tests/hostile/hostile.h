// Hostile text in every name that a file or an argument can carry: what the parts share.
#ifndef BD_TESTS_HOSTILE_HOSTILE_H
#define BD_TESTS_HOSTILE_HOSTILE_H
#include "ir/base/json.h"

typedef struct bd_hostile {
  bd_ctx *ctx;
  const char *braid;  // absolute
  const char *folder; // of the documents that are made hostile, absolute
  char root[512];     // the runs' working folder is root/a/b; beside it lies what they print
  const char *place;  // where the hostile text is now
  const char *kind;   // which text it is
  int runs;
} bd_hostile;

typedef struct bd_payload {
  const char *name, *text;
} bd_payload;

enum { BD_PAYLOADS = 18 };
// Fills in the texts; the long one lives in the context.
void bd_hostile_payloads(bd_ctx *ctx, bd_payload out[BD_PAYLOADS]);

// Ends the test with its place, the text's name and `about` on stderr.
_Noreturn void bd_hostile_fail(bd_hostile *test, const char *wrong, const char *about);
// Removes what the test has made.
void bd_hostile_clean(bd_hostile *test);

// Exit statuses as a set.
#define BD_STATUS(status) (1u << (status))
#define BD_CLUSTER "--cluster", "cpu:1x1", "--global-batch", "4"

// One run of braid: ends in one of `statuses`, with a diagnostic exactly if it is not 0; what it
// prints is printable; it leaves nothing but `produces`, which may be NULL, when it succeeds.
// Returns its status.
int bd_hostile_run(bd_hostile *test, unsigned statuses, const char *produces,
                   const char *const *arguments);
#define BD_RUN(test, statuses, produces, ...)                                                      \
  bd_hostile_run((test), (statuses), (produces), (const char *const[]){__VA_ARGS__, NULL})
// Emitted sources hold hostile text in string literals only, escaped, and compile.
void bd_hostile_check_sources(bd_hostile *test, const char *folder);
// An accepted model is emitted, explained and started, and its sources are looked at.
void bd_hostile_compile(bd_hostile *test, const char *model);

// Files and folders of the working folder.
void bd_hostile_write(bd_hostile *test, const char *path, const char *text);
void bd_hostile_discard(const char *path);
// A document of the test's folder, or of the working folder when `name` begins with "./".
const bd_json *bd_hostile_read(bd_hostile *test, const char *name);

// A place for text in a document: a string, or the key of a member (`value` is the object then).
typedef struct bd_site {
  const bd_json *value;
  int key;           // -1: the string itself
  const char *place; // the keys that lead to it
} bd_site;

// One site for every kind of string, and for a key of every kind of object. Lives in the context.
int bd_hostile_sites(bd_hostile *test, const bd_json *document, const bd_site **out_sites);
// Writes the document with `text` at the sites.
void bd_hostile_write_json(bd_hostile *test, const char *path, const bd_json *document, int count,
                           const bd_site *sites, const char *text);

// The parts. Each leaves the working folder as it was.
void bd_hostile_graphs(bd_hostile *test);
void bd_hostile_texts(bd_hostile *test);
void bd_hostile_configs(bd_hostile *test);
void bd_hostile_plans(bd_hostile *test);
void bd_hostile_clusters(bd_hostile *test);
void bd_hostile_arguments(bd_hostile *test);
void bd_hostile_programs(bd_hostile *test);
#endif
