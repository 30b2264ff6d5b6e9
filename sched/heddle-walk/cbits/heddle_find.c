// What the find expression language takes from the C library: pattern matching in the user's locale,
// GNU's regular expressions, accounts, local time, quoting in messages, and starting programs.
// Every function is independent of Haskell's heap; those that may sleep say so, and are called safely.

#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <grp.h>
#include <langinfo.h>
#include <locale.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

extern char **environ;

static int utf8, single_byte;

// Before anything else: the user's locale and time zone. Sleeps (reads files).
void heddle_find_init(void)
{
  setlocale(LC_ALL, "");
  tzset();
  utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  single_byte = MB_CUR_MAX == 1;
}

// May patterns of plain text be compared byte by byte?
int heddle_find_bytes_compare(void)
{
  return utf8 || single_byte;
}

/* Quoting */

// One character of a name: its length, and whether it can be shown.
static size_t next_char(const char *s, size_t left, int *shown)
{
  if (single_byte) {
    *shown = isprint((unsigned char)*s) != 0;
    return 1;
  }
  if ((unsigned char)*s < 0x80) {
    *shown = *s >= 0x20 && *s < 0x7f;
    return 1;
  }
  wchar_t c;
  mbstate_t state;
  memset(&state, 0, sizeof state);
  size_t n = mbrtowc(&c, s, left, &state);
  if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
    *shown = 0;
    return 1;
  }
  *shown = iswprint(c) != 0;
  return n;
}

// A name on a terminal: what cannot be shown becomes a question mark, in place; the new length.
size_t heddle_find_terminal(char *s, size_t len)
{
  char *p = s;
  for (size_t i = 0; i < len;) {
    int shown;
    size_t n = next_char(s + i, len - i, &shown);
    if (shown) {
      memmove(p, s + i, n);
      p += n;
    } else
      *p++ = '?';
    i += n;
  }
  return (size_t)(p - s);
}

/* Accounts: these read files or ask servers, and sleep. */

// The number of a user (0) or group (1), or -1.
int64_t heddle_find_account_number(int group, const char *name)
{
  size_t size = 1024;
  for (;;) {
    char *buffer = malloc(size);
    struct passwd user, *found_user = NULL;
    struct group members, *found_group = NULL;
    int e = group ? getgrnam_r(name, &members, buffer, size, &found_group)
                  : getpwnam_r(name, &user, buffer, size, &found_user);
    int64_t id = found_user ? (int64_t)user.pw_uid : found_group ? (int64_t)members.gr_gid : -1;
    free(buffer);
    if (e != ERANGE)
      return id;
    size *= 2;
  }
}

// The name of a user (0) or group (1) in memory to be freed, or NULL.
char *heddle_find_account_name(int group, uint32_t id)
{
  size_t size = 1024;
  for (;;) {
    char *buffer = malloc(size);
    struct passwd user, *found_user = NULL;
    struct group members, *found_group = NULL;
    int e = group ? getgrgid_r(id, &members, buffer, size, &found_group)
                  : getpwuid_r(id, &user, buffer, size, &found_user);
    char *name = found_user ? strdup(user.pw_name) : found_group ? strdup(members.gr_name) : NULL;
    free(buffer);
    if (e != ERANGE)
      return name;
    size *= 2;
  }
}

/* Time */

// The time of day: seconds and nanoseconds.
void heddle_find_now(int64_t *out)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  out[0] = t.tv_sec;
  out[1] = t.tv_nsec;
}

static size_t with_fraction(char *out, size_t cap, const struct tm *tm, const char *format, int64_t nanos)
{
  // The fraction follows the seconds, wherever the locale puts them.
  char whole[256], other[256];
  size_t n = strftime(whole, sizeof whole, format, tm);
  struct tm changed = *tm;
  changed.tm_sec = changed.tm_sec >= 11 ? changed.tm_sec - 11 : changed.tm_sec + 11;
  size_t m = strftime(other, sizeof other, format, &changed);
  size_t last = 0;
  if (n == m)
    for (size_t i = 0; i < n; i++)
      if (whole[i] != other[i])
        last = i + 1;
  if (last == 0)
    last = n;
  int written = snprintf(out, cap, "%.*s.%09lld0%s", (int)last, whole, (long long)nanos, whole + last);
  return written < 0 || (size_t)written >= cap ? 0 : (size_t)written;
}

// A time in one of -printf's formats: 'c' with kind 0 is ctime(3)'s form with a fraction.
size_t heddle_find_time(char *out, size_t cap, int64_t seconds, int64_t nanos, int plain, char kind)
{
  struct tm tm;
  time_t t = (time_t)seconds;
  if (kind == '@' && !plain) {
    int n = snprintf(out, cap, "%lld.%09lld0", (long long)seconds, (long long)nanos);
    return n < 0 ? 0 : (size_t)n;
  }
  if (!localtime_r(&t, &tm)) {
    int n = snprintf(out, cap, "%lld.%09lld0", (long long)seconds, (long long)nanos);
    return n < 0 ? 0 : (size_t)n;
  }
  if (plain) {
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    int n = snprintf(out, cap, "%3s %3s %2d %02d:%02d:%02d.%09lld0 %04lld", days[tm.tm_wday], months[tm.tm_mon],
                     tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (long long)nanos, 1900 + (long long)tm.tm_year);
    return n < 0 ? 0 : (size_t)n;
  }
  switch (kind) {
  case '+':
    return with_fraction(out, cap, &tm, "%Y-%m-%d+%H:%M:%S", nanos);
  case 'S':
    return with_fraction(out, cap, &tm, "%S", nanos);
  case 'T':
    return with_fraction(out, cap, &tm, "%H:%M:%S", nanos);
  case 'X':
    return with_fraction(out, cap, &tm, "%X", nanos);
  }
  // A first character tells an empty result from one that did not fit.
  char format[4] = {'_', '%', kind, 0}, text[512];
  size_t n = strftime(text, sizeof text, format, &tm);
  if (n <= 1 || n - 1 > cap)
    return 0;
  memcpy(out, text + 1, n - 1);
  return n - 1;
}

// The time column of -ls: hours when it is within half a year, else the year.
size_t heddle_find_list_time(char *out, size_t cap, int64_t seconds, int64_t now)
{
  struct tm tm;
  time_t t = (time_t)seconds;
  if (!localtime_r(&t, &tm)) {
    int n = snprintf(out, cap, "%lld", (long long)seconds);
    return n < 0 ? 0 : (size_t)n;
  }
  const int64_t old = 6LL * 30 * 24 * 60 * 60, ahead = 60 * 60;
  const char *format = now > seconds + old || now < seconds - ahead ? "%b %e  %Y" : "%b %e %H:%M";
  return strftime(out, cap, format, &tm);
}

// Calendar fields of local time: year, month (0..), day, hour, minute, second, weekday, offset.
int heddle_find_local(int64_t seconds, int64_t *fields)
{
  struct tm tm;
  time_t t = (time_t)seconds;
  if (!localtime_r(&t, &tm))
    return 0;
  int64_t values[8] = {tm.tm_year + 1900LL, tm.tm_mon, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, tm.tm_wday, tm.tm_gmtoff};
  memcpy(fields, values, sizeof values);
  return 1;
}

// The name of the user's zone at a time, which strftime(3) writes, and whether it is summer there; the name's length.
size_t heddle_find_zone_name(int64_t seconds, char *out, size_t cap, int *summer)
{
  struct tm tm;
  time_t t = (time_t)seconds;
  if (!localtime_r(&t, &tm))
    return 0;
  *summer = tm.tm_isdst > 0;
  return strftime(out, cap, "%Z", &tm);
}

// Local calendar fields to seconds; 0 when there is no such time. Summer time: 1, 0 or -1 for whichever
// is right; on return, what it was.
int heddle_find_mktime(int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second, int *summer, int64_t *out)
{
  struct tm tm;
  memset(&tm, 0, sizeof tm);
  if (year < INT32_MIN || year > INT32_MAX || day < INT32_MIN || day > INT32_MAX || month < INT32_MIN || month > INT32_MAX)
    return 0;
  tm.tm_year = (int)(year - 1900);
  tm.tm_mon = (int)month;
  tm.tm_mday = (int)day;
  tm.tm_hour = (int)hour;
  tm.tm_min = (int)minute;
  tm.tm_sec = (int)second;
  tm.tm_isdst = *summer;
  tm.tm_wday = -1;
  time_t t = mktime(&tm);
  if (t == (time_t)-1 && tm.tm_wday == -1)
    return 0;
  *summer = tm.tm_isdst;
  *out = t;
  return 1;
}

// Local time becomes that of another zone; a copy of the variable TZ as it was, to be handed to
// heddle_find_leave_zone, or NULL if it was not set. Sleeps (reads the zone's file).
char *heddle_find_enter_zone(const char *zone)
{
  const char *before = getenv("TZ");
  char *copy = before ? strdup(before) : NULL;
  setenv("TZ", zone, 1);
  tzset();
  return copy;
}

void heddle_find_leave_zone(char *before)
{
  if (before)
    setenv("TZ", before, 1);
  else
    unsetenv("TZ");
  tzset();
  free(before);
}

// A decimal in the locale's form, all of it; 0 when malformed or out of range.
int heddle_find_number(const char *s, double *out)
{
  char *end;
  errno = 0;
  *out = strtod(s, &end);
  return end != s && *end == 0 && errno != ERANGE;
}

// A number in a format of printf(3) that the caller has checked to take just one long long, or one double.
int heddle_find_integer(char *out, size_t cap, const char *format, int64_t value)
{
  int n = snprintf(out, cap, format, (long long)value);
  return n < 0 ? 0 : (size_t)n >= cap ? (int)cap - 1 : n;
}

int heddle_find_ratio(char *out, size_t cap, const char *format, double value)
{
  int n = snprintf(out, cap, format, value);
  return n < 0 ? 0 : (size_t)n >= cap ? (int)cap - 1 : n;
}

/* Files: these sleep. */

// Is there nothing in this directory? 1, 0, or minus the error number.
int heddle_find_empty(int dir, const char *name, int follow)
{
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
  if (fd < 0)
    return -errno;
  DIR *stream = fdopendir(fd);
  if (!stream) {
    int e = errno;
    close(fd);
    return -e;
  }
  int empty = 1, e;
  struct dirent *entry;
  for (errno = 0; (entry = readdir(stream)) != NULL; errno = 0) {
    const char *n = entry->d_name;
    if (n[0] == '.' && (n[1] == 0 || (n[1] == '.' && n[2] == 0)))
      continue;
    empty = 0;
    break;
  }
  e = empty ? errno : 0;
  closedir(stream);
  return e ? -e : empty;
}

// May this process do that? 1 or 0.
int heddle_find_access(int dir, const char *name, int how)
{
  return faccessat(dir, name, how, 0) == 0;
}

// Remove a name; 0, or minus the error number.
int heddle_find_remove(int dir, const char *name, int directory)
{
  if (unlinkat(dir, name, directory ? AT_REMOVEDIR : 0) == 0)
    return 0;
  if (errno == EISDIR && !directory && unlinkat(dir, name, AT_REMOVEDIR) == 0)
    return 0;
  return -errno;
}

// What a symbolic link says: its length (the buffer's, when it is too small), or minus the error number.
int64_t heddle_find_link(int dir, const char *name, char *out, size_t cap)
{
  ssize_t n = readlinkat(dir, name, out, cap);
  return n < 0 ? -errno : n;
}

// A descriptor of one's own for a directory: by name, or that of the descriptor; or minus the error number.
int heddle_find_hold(int dir, const char *name)
{
  int fd = name ? open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
         : dir == AT_FDCWD ? open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
         : fcntl(dir, F_DUPFD_CLOEXEC, 3);
  return fd < 0 ? -errno : fd;
}

// The SELinux context of a file: its length, or minus the error number.
int64_t heddle_find_context(const char *path, int follow, char *out, size_t cap)
{
  ssize_t n = follow ? getxattr(path, "security.selinux", out, cap) : lgetxattr(path, "security.selinux", out, cap);
  if (n < 0)
    return -errno;
  while (n > 0 && out[n - 1] == 0)
    n--;
  return n;
}

// The user's answer: 1 for yes.
int heddle_find_affirmative(const char *answer)
{
  return rpmatch(answer) == 1;
}

/* Programs */

static sigset_t first_mask;
static int first_mask_known;

// The signal mask that children are to have: that of the caller. Does not sleep.
void heddle_find_children_mask(void)
{
  first_mask_known = pthread_sigmask(SIG_SETMASK, NULL, &first_mask) == 0;
}

static int spawn_with(pid_t *pid, const char *file, char **argv, posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes)
{
  int e = posix_spawnp(pid, file, actions, attributes, argv, environ);
  if (e != ENOEXEC)
    return e;
  // As execvp(3) does: a text without a first line for the kernel goes to the shell.
  size_t n = 0;
  while (argv[n])
    n++;
  char **script = malloc((n + 2) * sizeof *script);
  if (!script)
    return ENOMEM;
  char found[4096];
  snprintf(found, sizeof found, "%s", file);
  if (!strchr(file, '/')) {
    const char *path = getenv("PATH");
    if (!path)
      path = "/bin:/usr/bin";
    while (*path) {
      size_t k = strcspn(path, ":");
      snprintf(found, sizeof found, "%.*s%s%s", (int)k, path, k ? "/" : "", file);
      if (access(found, X_OK) == 0)
        break;
      path += k;
      if (*path)
        path++;
    }
  }
  script[0] = (char *)"sh";
  script[1] = found;
  for (size_t i = 1; i <= n; i++)
    script[i + 1] = argv[i];
  e = posix_spawn(pid, "/bin/sh", actions, attributes, script, environ);
  free(script);
  return e;
}

// Start a program, in directory `dir` unless that is AT_FDCWD; its number, or minus the error number. Sleeps.
int64_t heddle_find_spawn(char **argv, int dir, int no_input)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int e = posix_spawn_file_actions_init(&actions);
  if (e)
    return -e;
  e = posix_spawnattr_init(&attributes);
  if (e) {
    posix_spawn_file_actions_destroy(&actions);
    return -e;
  }
  if (no_input)
    e = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (!e && dir != AT_FDCWD)
    e = posix_spawn_file_actions_addfchdir_np(&actions, dir);
  if (!e && first_mask_known) {
    e = posix_spawnattr_setsigmask(&attributes, &first_mask);
    if (!e)
      e = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }
  pid_t pid = 0;
  if (!e)
    e = spawn_with(&pid, argv[0], argv, &actions, &attributes);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return e ? -e : pid;
}

// Wait for a program: its exit status (0 to 255), 256 plus the signal that ended it, or minus the error number. Sleeps.
int heddle_find_wait(int64_t pid)
{
  int status;
  pid_t r;
  do
    r = waitpid((pid_t)pid, &status, 0);
  while (r < 0 && errno == EINTR);
  if (r < 0)
    return -errno;
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

// How many bytes of arguments a program may get, the environment deducted.
int64_t heddle_find_argument_room(void)
{
  int64_t most = sysconf(_SC_ARG_MAX);
  if (most <= 0)
    most = _POSIX_ARG_MAX;
  for (char **e = environ; e && *e; e++)
    most -= (int64_t)strlen(*e) + 1;
  return most;
}

/* Names in -ls */

// A name as -ls shows it, whatever the locale. Needs room for 4 * len + 1; the length.
int64_t heddle_find_escape(const uint8_t *s, int64_t len, uint8_t *out)
{
  static const char from[] = "\b\f\n\r\t \"\\", to[] = "bfnrt \"\\";
  uint8_t *p = out;
  for (int64_t i = 0; i < len; i++) {
    const char *found = s[i] ? strchr(from, s[i]) : NULL;
    if (found) {
      *p++ = '\\';
      *p++ = (uint8_t)to[found - from];
    } else if (s[i] > 0x20 && s[i] < 0x7f)
      *p++ = s[i];
    else
      p += sprintf((char *)p, "\\%03o", s[i]);
  }
  return p - out;
}
