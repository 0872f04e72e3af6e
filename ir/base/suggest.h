// "Did you mean": the one of a list of names that begins with a word, or else the nearest.
#ifndef BD_IR_BASE_SUGGEST_H
#define BD_IR_BASE_SUGGEST_H

// The name of the NULL-terminated `names` that is likely meant by `word`: the only one that it is
// the beginning of, of two letters or more, else the nearest; NULL when none is near.
const char *bd_suggest(const char *word, const char *const *names);
#endif
