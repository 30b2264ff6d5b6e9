// GNU's regular expressions, from the C library.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct { const char *name; reg_syntax_t syntax; } dialects[] = {
  {"findutils-default", RE_SYNTAX_EMACS | RE_DOT_NEWLINE},
  {"ed", RE_SYNTAX_ED},
  {"emacs", RE_SYNTAX_EMACS},
  {"gnu-awk", RE_SYNTAX_GNU_AWK},
  {"grep", RE_SYNTAX_GREP},
  {"posix-awk", RE_SYNTAX_POSIX_AWK},
  {"awk", RE_SYNTAX_AWK},
  {"posix-basic", RE_SYNTAX_POSIX_BASIC},
  {"posix-egrep", RE_SYNTAX_POSIX_EGREP},
  {"egrep", RE_SYNTAX_EGREP},
  {"posix-extended", RE_SYNTAX_POSIX_EXTENDED},
  {"posix-minimal-basic", RE_SYNTAX_POSIX_MINIMAL_BASIC},
  {"sed", RE_SYNTAX_SED},
};

// The name of a dialect, or NULL after the last.
const char *heddle_regex_dialect(int i)
{
  return i >= 0 && (size_t)i < sizeof dialects / sizeof *dialects ? dialects[i].name : NULL;
}

// Compile; NULL, with the reason in *error, when the pattern is malformed.
void *heddle_regex_new(int dialect, int fold, const char *pattern, size_t len, const char **error)
{
  struct re_pattern_buffer *re = calloc(1, sizeof *re);
  if (!re) {
    *error = strerror(ENOMEM);
    return NULL;
  }
  // Which bytes a match can begin with: without this table the matcher is tried at every byte. regfree frees it.
  re->fastmap = malloc(256);
  if (!re->fastmap) {
    free(re);
    *error = strerror(ENOMEM);
    return NULL;
  }
  // The syntax is a variable of the whole process.
  pthread_mutex_lock(&lock);
  re_set_syntax(dialects[dialect].syntax | (fold ? RE_ICASE : 0));
  *error = re_compile_pattern(pattern, len, re);
  pthread_mutex_unlock(&lock);
  if (*error) {
    free(re->fastmap);
    free(re);
    return NULL;
  }
  return re;
}

void heddle_regex_free(void *re)
{
  regfree(re);
  free(re);
}

// Does it match the whole text?
int heddle_regex_match(void *re, const char *text, size_t len)
{
  return re_match(re, text, (regoff_t)len, 0, NULL) == (regoff_t)len;
}

// The offset of the first match at or after `from`, or -1; *end is the end of the match. Without `end` it is cheaper,
// because the end need not be found.
int64_t heddle_regex_search(void *re, const char *text, size_t len, size_t from, int64_t *end)
{
  if (!end)
    return re_search(re, text, (regoff_t)len, (regoff_t)from, (regoff_t)(len - from), NULL);
  // One register, owned by the caller: with more for groups, glibc's matcher does not end on some nested repetitions.
  regoff_t start, stop;
  struct re_registers registers = {.num_regs = 1, .start = &start, .end = &stop};
  ((struct re_pattern_buffer *)re)->regs_allocated = REGS_FIXED;
  regoff_t found = re_search(re, text, (regoff_t)len, (regoff_t)from, (regoff_t)(len - from), &registers);
  if (found >= 0)
    *end = stop;
  return found;
}
