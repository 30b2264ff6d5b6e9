/* What a worker of a walk keeps outside Haskell's heap, and what is done to it in C.
 * Results are 0 or positive, or -errno. */
#ifndef HEDDLE_WALK_H
#define HEDDLE_WALK_H
#include <stddef.h>
#include <stdint.h>

/* stat(2)'s answer in 64-bit words; Heddle.Walk.Internal.Cursor knows the order. */
struct heddle_status {
  int64_t mode, links, user, group, size, blocks, device, inode, special;
  int64_t accessed, accessed_ns, modified, modified_ns, changed, changed_ns;
  int64_t born, born_ns; /* born_ns is -1 where the file system does not say */
  int64_t block_size;
};

/* Descriptors that one walk holds, one byte each, so that the end of the walk closes what
 * an exception left open. A byte has one writer at a time: who owns the descriptor. */
struct heddle_descriptors {
  int64_t count;
  uint8_t open[];
};

/* One worker's place in the tree. Haskell knows the offsets; see the assertions. */
struct heddle_cursor {
  /* The entry being visited. */
  const uint8_t *name;   /*   0 last component, NUL or slash after it */
  int64_t name_length;   /*   8 */
  const uint8_t *tail;   /*  16 what follows the prefix in the path; the name for *at calls */
  int64_t tail_length;   /*  24 */
  int64_t inode;         /*  32 d_ino, or 0 when not known */
  int32_t directory;     /*  40 parent's descriptor, AT_FDCWD, or -1: to be opened again */
  int32_t depth;         /*  44 */
  int32_t kind;          /*  48 DT_*, DT_UNKNOWN while not known */
  int32_t state;         /*  52 of status: 0 not asked, 1 known, 2 known of a link that
                                leads nowhere, 3 of one that leads through a file, -errno */
  int32_t follow;        /*  56 does status follow a link? */
  int32_t unused;        /*  60 */
  /* The path buffer: the prefix, with its slash, then what path() put there. */
  uint8_t *path;         /*  64 */
  int64_t path_capacity; /*  72 */
  int64_t prefix;        /*  80 */
  int64_t root;          /*  88 length of the starting point */
  /* Output: records before `record` may be written, the one after it is being made. */
  uint8_t *out;          /*  96 in Haskell's heap, pinned */
  int64_t out_used;      /* 104 */
  int64_t out_capacity;  /* 112 */
  int64_t record;        /* 120 */
  /* A directory's entries as getdents64 delivers them; sorted, through the spare buffer. */
  uint8_t *entries;      /* 128 */
  int64_t entries_used;  /* 136 */
  int64_t entries_capacity; /* 144 */
  uint8_t *spare;        /* 152 */
  int64_t spare_capacity; /* 160 */
  int64_t reserved;      /* 168 */
  int64_t ended;         /* 176 did the last read see the end of the directory? */
  int64_t opened_device; /* 184 of the directory opened last, when asked for */
  int64_t opened_inode;  /* 192 */
  struct heddle_status status; /* 200 */
};

/* Flags of heddle_walk_open. */
#define HEDDLE_WALK_FOLLOW 1   /* the last component may be a link */
#define HEDDLE_WALK_IDENTIFY 2 /* note device and inode */
#define HEDDLE_WALK_SAME 4     /* read only a directory on the device given */
#define HEDDLE_WALK_SORT 8     /* read it whole and sort it */

/* Not 0: the program has one thread, so Haskell may call what sleeps without giving its capability away; and how many
 * capabilities it shall have when it needs more. */
extern int heddle_walk_alone;

struct heddle_cursor *heddle_walk_cursor(void);
void heddle_walk_free(struct heddle_cursor *c);
struct heddle_descriptors *heddle_walk_descriptors(int64_t count);
int64_t heddle_walk_limit(void);
int64_t heddle_walk_lowest(void);
void heddle_walk_sweep(struct heddle_descriptors *d);

int64_t heddle_walk_open(struct heddle_cursor *c, struct heddle_descriptors *d, int at,
                         const uint8_t *name, int flags, int64_t device);
int64_t heddle_walk_more(struct heddle_cursor *c, int fd, int64_t keep, int sort);
int64_t heddle_walk_reopen(struct heddle_descriptors *d, int at, const uint8_t *name, int flags);
void heddle_walk_close(struct heddle_descriptors *d, int fd);

int64_t heddle_walk_status(struct heddle_cursor *c);
int64_t heddle_walk_stat(int at, const uint8_t *name, int follow, struct heddle_status *out);

int64_t heddle_walk_reserve_path(struct heddle_cursor *c, int64_t size);
int64_t heddle_walk_path(struct heddle_cursor *c);
int64_t heddle_walk_put_path(struct heddle_cursor *c, int terminator);
int64_t heddle_walk_put(struct heddle_cursor *c, const void *bytes, int64_t length);
int64_t heddle_walk_write(int fd, const uint8_t *bytes, int64_t length);
int64_t heddle_walk_quote(const uint8_t *bytes, int64_t length, uint8_t *out);
#endif
