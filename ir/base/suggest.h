// "Did you mean": the nearest of a list of names.
#ifndef BD_IR_BASE_SUGGEST_H
#define BD_IR_BASE_SUGGEST_H

// The name of the NULL-terminated `names` that is likely meant by `word`; NULL when none is near.
const char *bd_suggest(const char *word, const char *const *names);
#endif
