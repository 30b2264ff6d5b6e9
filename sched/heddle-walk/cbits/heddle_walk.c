/* The inner steps of a directory walk; see heddle_walk.h and Heddle.Walk.Internal. */
#define _GNU_SOURCE
#include "heddle_walk.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

int heddle_walk_alone;

#define AT(field, offset) \
  _Static_assert(offsetof(struct heddle_cursor, field) == (offset), #field)
AT(name, 0);
AT(name_length, 8);
AT(tail, 16);
AT(tail_length, 24);
AT(inode, 32);
AT(directory, 40);
AT(depth, 44);
AT(kind, 48);
AT(state, 52);
AT(follow, 56);
AT(path, 64);
AT(path_capacity, 72);
AT(prefix, 80);
AT(root, 88);
AT(out, 96);
AT(out_used, 104);
AT(out_capacity, 112);
AT(record, 120);
AT(entries, 128);
AT(entries_used, 136);
AT(entries_capacity, 144);
AT(ended, 176);
AT(opened_device, 184);
AT(opened_inode, 192);
AT(status, 200);

/* SLACK: key() reads whole words. */
enum { FIRST_ENTRIES = 65536, FIRST_PATH = 4096, SLACK = 16 };

/* As the kernel lays it out. */
struct entry {
  uint64_t inode;
  int64_t next;
  uint16_t length;
  uint8_t kind;
  uint8_t name[];
};

struct heddle_cursor *heddle_walk_cursor(void) {
  struct heddle_cursor *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->entries = malloc(FIRST_ENTRIES + SLACK);
  c->entries_capacity = FIRST_ENTRIES;
  c->path = malloc(FIRST_PATH);
  c->path_capacity = FIRST_PATH;
  c->directory = AT_FDCWD;
  if (c->entries && c->path) return c;
  heddle_walk_free(c);
  return NULL;
}

void heddle_walk_free(struct heddle_cursor *c) {
  if (!c) return;
  free(c->entries);
  free(c->path);
  free(c->spare);
  free(c);
}

struct heddle_descriptors *heddle_walk_descriptors(int64_t count) {
  struct heddle_descriptors *d = calloc(1, sizeof *d + (size_t)count);
  if (d) d->count = count;
  return d;
}

/* How many descriptors the process may have. */
int64_t heddle_walk_limit(void) {
  struct rlimit r;
  if (getrlimit(RLIMIT_NOFILE, &r) != 0) return 1024;
  return r.rlim_cur > 1048576 ? 1048576 : (int64_t)r.rlim_cur;
}

/* The lowest number that the next descriptor can get. */
int64_t heddle_walk_lowest(void) {
  int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  close(fd);
  return fd;
}

/* Close what is left, and free the table. */
void heddle_walk_sweep(struct heddle_descriptors *d) {
  if (!d) return;
  for (int64_t fd = 0; fd < d->count; fd++)
    if (d->open[fd]) close((int)fd);
  free(d);
}

static int descriptor(struct heddle_descriptors *d, int at, const uint8_t *name, int flags) {
  int how = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (flags & HEDDLE_WALK_FOLLOW ? 0 : O_NOFOLLOW);
  int fd = openat(at, (const char *)name, how);
  if (fd < 0) return -errno;
  if (fd >= d->count) {
    /* Beyond the table only if the limit was raised during the walk. */
    close(fd);
    return -EMFILE;
  }
  d->open[fd] = 1;
  return fd;
}

int64_t heddle_walk_reopen(struct heddle_descriptors *d, int at, const uint8_t *name, int flags) {
  return descriptor(d, at, name, flags);
}

/* The byte is cleared first: the number is another thread's once it is closed. */
void heddle_walk_close(struct heddle_descriptors *d, int fd) {
  d->open[fd] = 0;
  close(fd);
}

static int reserve_entries(struct heddle_cursor *c, int64_t size) {
  if (size <= c->entries_capacity) return 0;
  int64_t capacity = c->entries_capacity;
  while (capacity < size) capacity *= 2;
  uint8_t *grown = realloc(c->entries, (size_t)capacity + SLACK);
  if (!grown) return -ENOMEM;
  c->entries = grown;
  c->entries_capacity = capacity;
  return 0;
}

/* Eight bytes of a name as a number that orders as they do, zero from its NUL on. Buffers
 * have room for the bytes that may be read behind it. */
static uint64_t key(const uint8_t *name) {
  uint64_t k;
  memcpy(&k, name, 8);
  uint64_t zeros = (k - 0x0101010101010101u) & ~k & 0x8080808080808080u;
  if (zeros) {
    int bits = __builtin_ctzll(zeros) & ~7;
    k = bits ? k & (~(uint64_t)0 >> (64 - bits)) : 0;
  }
  return __builtin_bswap64(k);
}

struct item {
  uint64_t key;
  uint32_t offset;
};

static int before(const struct heddle_cursor *c, const struct item *a, const struct item *b) {
  if (a->key != b->key) return a->key < b->key;
  if (!(a->key & 0xff)) return 0;
  const uint8_t *x = ((struct entry *)(c->entries + a->offset))->name + 8;
  const uint8_t *y = ((struct entry *)(c->entries + b->offset))->name + 8;
  uint64_t p = key(x), q = key(y);
  if (p != q) return p < q;
  return p & 0xff && strcmp((const char *)x + 8, (const char *)y + 8) < 0;
}

static void insertion(const struct heddle_cursor *c, struct item *a, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    struct item x = a[i];
    int64_t j = i;
    for (; j > 0 && before(c, &x, &a[j - 1]); j--) a[j] = a[j - 1];
    a[j] = x;
  }
}

/* Merge sort: no bad case, whatever the names. */
static void sort(const struct heddle_cursor *c, struct item *a, struct item *scratch, int64_t n) {
  if (n <= 16) {
    insertion(c, a, n);
    return;
  }
  int64_t half = n / 2;
  sort(c, a, scratch, half);
  sort(c, a + half, scratch, n - half);
  if (before(c, &a[half - 1], &a[half])) return;
  memcpy(scratch, a, (size_t)half * sizeof *a);
  int64_t i = 0, j = half, k = 0;
  while (i < half && j < n) a[k++] = before(c, &a[j], &scratch[i]) ? a[j++] : scratch[i++];
  while (i < half) a[k++] = scratch[i++];
}

static int is_dot(const uint8_t *name) {
  return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Bring the entries into the order of their names; "." and ".." are left out. */
static int64_t sort_entries(struct heddle_cursor *c) {
  enum { FEW = 256 };
  struct item few[FEW + FEW / 2 + 1], *items = few;
  int64_t n = 0, most = c->entries_used / 24; /* the smallest entry takes 24 bytes */
  if (c->entries_used > UINT32_MAX) return -EOVERFLOW;
  if (c->spare_capacity < c->entries_used) {
    free(c->spare);
    c->spare = malloc((size_t)c->entries_capacity + SLACK);
    c->spare_capacity = c->spare ? c->entries_capacity : 0;
    if (!c->spare) return -ENOMEM;
  }
  if (most > FEW) {
    items = malloc((size_t)(most + most / 2 + 1) * sizeof *items);
    if (!items) return -ENOMEM;
  }
  for (int64_t at = 0; at < c->entries_used;) {
    struct entry *e = (struct entry *)(c->entries + at);
    if (!is_dot(e->name)) {
      items[n].key = key(e->name);
      items[n].offset = (uint32_t)at;
      n++;
    }
    at += e->length;
  }
  sort(c, items, items + n, n);
  uint8_t *to = c->spare;
  for (int64_t i = 0; i < n; i++) {
    struct entry *e = (struct entry *)(c->entries + items[i].offset);
    memcpy(to, e, e->length);
    to += e->length;
  }
  if (items != few) free(items);
  uint8_t *sorted = c->spare;
  int64_t capacity = c->spare_capacity;
  c->spare = c->entries;
  c->spare_capacity = c->entries_capacity;
  c->entries = sorted;
  c->entries_capacity = capacity;
  c->entries_used = to - sorted;
  return 0;
}

/* Read entries after the first `keep` bytes until the end or, unless all are wanted to be
 * sorted, until the buffer is full. A read into the rest of the buffer sees the end without
 * a second buffer's worth of room. */
int64_t heddle_walk_more(struct heddle_cursor *c, int fd, int64_t keep, int whole) {
  enum { ROOM = 4096, LEAST = 32768 };
  c->entries_used = keep;
  c->ended = 0;
  if (c->entries_capacity - keep < LEAST) {
    int r = reserve_entries(c, keep + LEAST);
    if (r) return r;
  }
  for (;;) {
    int64_t room = c->entries_capacity - c->entries_used;
    if (room < ROOM) {
      if (!whole) return 0;
      int r = reserve_entries(c, c->entries_capacity * 2);
      if (r) return r;
      room = c->entries_capacity - c->entries_used;
    }
    long n = syscall(SYS_getdents64, fd, c->entries + c->entries_used, (size_t)room);
    if (n < 0) {
      if (errno == EINTR) continue;
      /* Removed since it was opened: empty. */
      if (errno != ENOENT) return -errno;
      n = 0;
    }
    if (n == 0) break;
    c->entries_used += n;
  }
  c->ended = 1;
  return whole ? sort_entries(c) : 0;
}

/* Open a directory and read it; the descriptor stays open. With an error after the opening
 * nothing stays open. 0 entries and `ended` for a directory on another device. */
int64_t heddle_walk_open(struct heddle_cursor *c, struct heddle_descriptors *d, int at,
                         const uint8_t *name, int flags, int64_t device) {
  int fd = descriptor(d, at, name, flags);
  if (fd < 0) return fd;
  c->entries_used = 0;
  c->ended = 1;
  if (flags & (HEDDLE_WALK_IDENTIFY | HEDDLE_WALK_SAME)) {
    struct stat s;
    if (fstat(fd, &s) < 0) {
      int e = errno;
      heddle_walk_close(d, fd);
      return -e;
    }
    c->opened_device = (int64_t)s.st_dev;
    c->opened_inode = (int64_t)s.st_ino;
    if ((flags & HEDDLE_WALK_SAME) && c->opened_device != device) return fd;
  }
  int64_t r = heddle_walk_more(c, fd, 0, flags & HEDDLE_WALK_SORT);
  if (r < 0) {
    heddle_walk_close(d, fd);
    return r;
  }
  return fd;
}

static int64_t old_stat(int at, const uint8_t *name, int flags, struct heddle_status *out) {
  struct stat s;
  if (fstatat(at, (const char *)name, &s, flags) < 0) return -errno;
  out->mode = s.st_mode;
  out->links = (int64_t)s.st_nlink;
  out->user = s.st_uid;
  out->group = s.st_gid;
  out->size = s.st_size;
  out->blocks = s.st_blocks;
  out->device = (int64_t)s.st_dev;
  out->inode = (int64_t)s.st_ino;
  out->special = (int64_t)s.st_rdev;
  out->accessed = s.st_atim.tv_sec;
  out->accessed_ns = s.st_atim.tv_nsec;
  out->modified = s.st_mtim.tv_sec;
  out->modified_ns = s.st_mtim.tv_nsec;
  out->changed = s.st_ctim.tv_sec;
  out->changed_ns = s.st_ctim.tv_nsec;
  out->born = 0;
  out->born_ns = -1;
  out->block_size = s.st_blksize;
  return 0;
}

int64_t heddle_walk_stat(int at, const uint8_t *name, int follow, struct heddle_status *out) {
  struct statx x;
  int flags = AT_NO_AUTOMOUNT | (follow ? 0 : AT_SYMLINK_NOFOLLOW);
  if (statx(at, (const char *)name, flags, STATX_BASIC_STATS | STATX_BTIME, &x) < 0) {
    if (errno != ENOSYS && errno != EPERM) return -errno;
    return old_stat(at, name, flags, out);
  }
  out->mode = x.stx_mode;
  out->links = x.stx_nlink;
  out->user = x.stx_uid;
  out->group = x.stx_gid;
  out->size = (int64_t)x.stx_size;
  out->blocks = (int64_t)x.stx_blocks;
  out->device = (int64_t)makedev(x.stx_dev_major, x.stx_dev_minor);
  out->inode = (int64_t)x.stx_ino;
  out->special = (int64_t)makedev(x.stx_rdev_major, x.stx_rdev_minor);
  out->accessed = x.stx_atime.tv_sec;
  out->accessed_ns = x.stx_atime.tv_nsec;
  out->modified = x.stx_mtime.tv_sec;
  out->modified_ns = x.stx_mtime.tv_nsec;
  out->changed = x.stx_ctime.tv_sec;
  out->changed_ns = x.stx_ctime.tv_nsec;
  out->born = x.stx_mask & STATX_BTIME ? x.stx_btime.tv_sec : 0;
  out->born_ns = x.stx_mask & STATX_BTIME ? (int64_t)x.stx_btime.tv_nsec : -1;
  out->block_size = x.stx_blksize;
  return 0;
}

/* The status of the entry visited, by its policy: following, but of the link itself when it
 * leads nowhere. */
int64_t heddle_walk_status(struct heddle_cursor *c) {
  int64_t r = heddle_walk_stat(c->directory, c->tail, c->follow, &c->status);
  int state = 1;
  if (c->follow && (r == -ENOENT || r == -ENOTDIR)) {
    state = r == -ENOENT ? 2 : 3;
    r = heddle_walk_stat(c->directory, c->tail, 0, &c->status);
  }
  c->state = r < 0 ? (int32_t)r : state;
  if (r == 0) c->kind = IFTODT((mode_t)c->status.mode);
  return r;
}

int64_t heddle_walk_reserve_path(struct heddle_cursor *c, int64_t size) {
  if (size <= c->path_capacity) return 0;
  int64_t capacity = c->path_capacity;
  while (capacity < size) capacity *= 2;
  uint8_t *grown = realloc(c->path, (size_t)capacity);
  if (!grown) return -ENOMEM;
  /* A starting point's name, or a child's that was taken from the path, moves with it. */
  if (c->tail >= c->path && c->tail < c->path + c->path_capacity) c->tail = grown + (c->tail - c->path);
  if (c->name >= c->path && c->name < c->path + c->path_capacity) c->name = grown + (c->name - c->path);
  c->path = grown;
  c->path_capacity = capacity;
  return 0;
}

/* Put the whole path, and a NUL, into the path buffer; its length. */
int64_t heddle_walk_path(struct heddle_cursor *c) {
  int64_t length = c->prefix + c->tail_length;
  int64_t r = heddle_walk_reserve_path(c, length + 1);
  if (r < 0) return r;
  if (c->tail != c->path + c->prefix) memmove(c->path + c->prefix, c->tail, (size_t)c->tail_length);
  c->path[length] = 0;
  return length;
}

/* Append the path and, unless negative, a byte; the bytes that do not fit. */
int64_t heddle_walk_put_path(struct heddle_cursor *c, int terminator) {
  int64_t prefix = c->prefix, tail = c->tail_length, length = prefix + tail + 1;
  if (length > c->out_capacity - c->out_used) return length;
  uint8_t *to = c->out + c->out_used;
  memcpy(to, c->path, (size_t)prefix);
  memcpy(to + prefix, c->tail, (size_t)tail);
  if (terminator >= 0) {
    to[prefix + tail] = (uint8_t)terminator;
    c->out_used += length;
  } else {
    c->out_used += length - 1;
  }
  return 0;
}

int64_t heddle_walk_put(struct heddle_cursor *c, const void *bytes, int64_t length) {
  if (length > c->out_capacity - c->out_used) return length;
  memcpy(c->out + c->out_used, bytes, (size_t)length);
  c->out_used += length;
  return 0;
}

/* Write what can be written: the count, or -errno, -EINTR where the caller should look
 * whether it is still wanted. A full pipe is waited for in poll, and not for long at a time:
 * a signal that comes just before the system call would else be lost on it. */
int64_t heddle_walk_write(int fd, const uint8_t *bytes, int64_t length) {
  struct stat s;
  int pipe = fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode);
  for (;;) {
    struct iovec v = {.iov_base = (void *)bytes, .iov_len = (size_t)length};
    ssize_t n = pipe ? pwritev2(fd, &v, 1, -1, RWF_NOWAIT) : write(fd, bytes, (size_t)length);
    if (n >= 0) return n;
    if (pipe && errno == EOPNOTSUPP) {
      pipe = 0;
      continue;
    }
    if (errno != EAGAIN) return -errno;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int ready = poll(&p, 1, 100);
    if (ready <= 0) return -EINTR;
  }
}

static uint8_t *octal(uint8_t *out, uint8_t byte) {
  *out++ = '\\';
  *out++ = (uint8_t)('0' + (byte >> 6));
  *out++ = (uint8_t)('0' + (byte >> 3 & 7));
  *out++ = (uint8_t)('0' + (byte & 7));
  return out;
}

/* GNU's quoting of names in messages (gnulib's locale style): at most 4 bytes for each, and
 * 6 for the quotes. The length. */
int64_t heddle_walk_quote(const uint8_t *bytes, int64_t length, uint8_t *out) {
  uint8_t *start = out;
  int utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  const char *left = utf8 ? "\xe2\x80\x98" : "'", *right = utf8 ? "\xe2\x80\x99" : "'";
  size_t quote = strlen(left);
  memcpy(out, left, quote);
  out += quote;
  static const char escaped[] = "\a\b\f\n\r\t\v", letters[] = "abfnrtv";
  mbstate_t state;
  memset(&state, 0, sizeof state);
  for (int64_t i = 0; i < length;) {
    uint8_t b = bytes[i];
    const char *e;
    if ((size_t)(length - i) >= quote && memcmp(bytes + i, right, quote) == 0) {
      *out++ = '\\';
      memcpy(out, right, quote);
      out += quote;
      i += (int64_t)quote;
    } else if (b == '\\') {
      *out++ = '\\';
      *out++ = '\\';
      i++;
    } else if (b && (e = strchr(escaped, b))) {
      *out++ = '\\';
      *out++ = (uint8_t)letters[e - escaped];
      i++;
    } else {
      wchar_t wide;
      size_t n = mbrtowc(&wide, (const char *)bytes + i, (size_t)(length - i), &state);
      if (n == 0 || n == (size_t)-1 || n == (size_t)-2) {
        memset(&state, 0, sizeof state);
        out = octal(out, b);
        i++;
      } else {
        int printable = iswprint((wint_t)wide);
        for (size_t k = 0; k < n; k++, i++)
          if (printable)
            *out++ = bytes[i];
          else
            out = octal(out, bytes[i]);
      }
    }
  }
  memcpy(out, right, quote);
  return out + quote - start;
}
