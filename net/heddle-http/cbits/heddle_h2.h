/* What the two halves of the HTTP/2 shim share: heddle_h2.c, sessions, streams and sending, and
 * heddle_h2_receive.c, what arrives. */
#ifndef HEDDLE_H2_H
#define HEDDLE_H2_H
#include <nghttp2/nghttp2.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { GONE = -1, MALFORMED = -2, TOO_LARGE = -3, NOTHING_YET = -11 };
enum { EVENT_REQUEST = 1, EVENT_WAKE = 2, EVENT_CLOSED = 3 };
enum { STATE_READS = 1, STATE_WRITES = 2, STATE_PING_ANSWERED = 4, STATE_HEAD_PENDING = 8 };
enum { RECENT = 128, DATA_FRAME = 16384, TRAILERS = 64, PREFACE = 24, FRAME_HEAD = 9 };
enum { KEPT = 32768 };         /* a free slot keeps smaller buffers */
enum { SOON = 500000000 };     /* nanoseconds; see heddle_h2_rest */
enum { WHOLE = 2 };            /* see heddle_h2_reply */
enum { LEAST = 4096 };         /* of a reply that may wait, whatever the client's windows */

/* The parameters of heddle_h2_new, in this order. */
struct limits {
  int64_t streams, stream_window, connection_window, header_list, fields, trailers;
  int64_t reset_burst, reset_rate, control_burst, control_rate, useless, output;
};

struct bytes {
  uint8_t *at;
  size_t start, end, room;
};

struct event {
  uint32_t kind, slot;
  int32_t id;
  uint32_t detail;
};

struct events {
  struct event *at;
  size_t count, room;
};

struct bucket {
  double tokens;
  int64_t since;
};

struct slot {
  int32_t id;
  uint32_t index, error;
  uint8_t open, dispatched, done, replied, finished, ended, deferred, large, faulty, own_reset;
  uint8_t wants_room, wants_data, end_sent, bodiless; /* HEAD */
  size_t dropped; /* of the body, because nobody reads it */
  size_t taken;   /* of the reply since 'moved' */
  int64_t moved;  /* when the client last took a good part of the reply */
  struct bytes head, in, out;
  struct bytes trailers; /* of the reply, as lines with an empty one behind */
  struct slot *next; /* in the list of free slots, whose identifier is 0 */
};

/* Memory of libnghttp2 that it has given back, by size; see heddle_h2_memory.c. */
enum { POOL_CLASSES = 16 };
struct pool {
  struct free_block *free[POOL_CLASSES];
  uint8_t *region;     /* the session's pages */
  size_t records_used; /* bytes of those for what is made with the session */
  uint8_t frames_used;
  uint8_t opening; /* the session is being made */
};

/* How a stream that is not open any more ended. */
struct past {
  uint32_t id : 31;
  uint32_t by_client : 1; /* it has sent END_STREAM or RST_STREAM */
};

/* Where the input is within a frame. */
struct scan {
  size_t skip, have;
  int closes; /* the frame under way ends a header block */
  uint8_t head[FRAME_HEAD + 4];
};

struct core {
  nghttp2_session *session;
  struct limits limits;
  struct pool pool;
  struct slot **slots, *free_slots;
  size_t slot_room, slot_count, used, abandoned; /* abandoned: closed early, but the handler runs on */
  int64_t idle_since; /* when it last was seen without a stream after having had one */
  int busy;           /* it has had a stream since then */
  size_t waiting;     /* bytes of replies that wait in all streams */
  struct events requests, wakes;
  int64_t now;
  int64_t head_began;       /* since when a head is incomplete, or 0 */
  int64_t settings_awaited; /* since when the client's first SETTINGS are, or 0 */
  struct bucket resets, controls;
  int64_t total, useful;
  int32_t last_id;
  struct past recent[RECENT];
  struct scan scan;
  uint8_t dead, mute; /* it reads, and writes, no more */
  uint8_t calmed, ping_answered;
  const uint8_t *pending; /* output of libnghttp2 that did not fit the last buffer */
  size_t pending_count;
  uint8_t *packed; /* where heddle_h2_drain goes on, while it runs, and the end of its memory */
  uint8_t *packed_end;
  /* The header block being received. Blocks never interleave. */
  struct slot *block;
  int signalled; /* it has a priority field */
  size_t listed, fields_count;
  struct bytes method, path, authority, host, cookies, fields;
};

struct shell {
  atomic_int lock;
  struct core *core; /* in the first of its own pages of records */
  uint64_t *resting; /* what is in these pages while they are given back, or NULL */
};

/* Buffers ------------------------------------------------------------------------ */

static inline int ensure(struct bytes *b, size_t more) {
  size_t held = b->end - b->start;
  if (b->room - b->end >= more) return 0;
  if (b->start > 0) {
    memmove(b->at, b->at + b->start, held);
    b->start = 0;
    b->end = held;
    if (b->room - held >= more) return 0;
  }
  size_t room = b->room < 256 ? 256 : b->room;
  while (room - held < more) room *= 2;
  uint8_t *at = realloc(b->at, room);
  if (!at) return -1;
  b->at = at;
  b->room = room;
  return 0;
}

static inline int append(struct bytes *b, const void *p, size_t n) {
  if (n == 0) return 0;
  if (ensure(b, n)) return -1;
  memcpy(b->at + b->end, p, n);
  b->end += n;
  return 0;
}

static inline int append_text(struct bytes *b, const char *text) { return append(b, text, strlen(text)); }
static inline int append_bytes(struct bytes *b, const struct bytes *c) {
  return c->end > c->start ? append(b, c->at + c->start, c->end - c->start) : 0;
}
static inline size_t held(const struct bytes *b) { return b->end - b->start; }
static inline void clear(struct bytes *b) { b->start = b->end = 0; }

static inline void release(struct bytes *b) {
  free(b->at);
  memset(b, 0, sizeof *b);
}

static inline size_t take(struct bytes *b, uint8_t *to, size_t most) {
  size_t n = held(b) < most ? held(b) : most;
  if (n == 0) return 0;
  memcpy(to, b->at + b->start, n);
  b->start += n;
  if (b->start == b->end) clear(b);
  return n;
}

/* With a literal, whose length the compiler knows. */
#define same(p, n, text) ((n) == sizeof(text) - 1 && memcmp((p), (text), sizeof(text) - 1) == 0)

/* In heddle_h2_memory.c ---------------------------------------------------------- */

/* libnghttp2's allocator, which keeps what is given back in the pool. */
nghttp2_mem heddle_h2_memory(struct pool *pool);
/* Free what the pool keeps. */
void heddle_h2_empty_pool(struct pool *pool);
/* A core of zeros with pages of its own, or NULL. */
struct core *heddle_h2_new_core(void);
/* Free it. libnghttp2's session in it is gone. */
void heddle_h2_free_core(struct core *core);
/* Give a core's pages back to the system: what is in them, for heddle_h2_wake, or NULL without memory. It has nothing to send. */
uint64_t *heddle_h2_rest_pages(struct core *core);
/* Restore them. */
void heddle_h2_wake_pages(struct core *core, uint64_t *resting);

/* In heddle_h2.c ----------------------------------------------------------------- */

extern atomic_long heddle_h2_calmed;

/* Note an event; -1 without memory. */
int heddle_h2_announce(struct events *events, uint32_t kind, const struct slot *slot, uint32_t detail);
struct slot *heddle_h2_new_slot(struct core *core, int32_t id);
void heddle_h2_free_slot(struct core *core, struct slot *slot);

/* In heddle_h2_receive.c --------------------------------------------------------- */

/* Callbacks for what arrives. */
void heddle_h2_receiving(nghttp2_session_callbacks *callbacks);
/* Take received bytes. */
void heddle_h2_receive(struct core *core, const uint8_t *p, size_t count);
/* Count a stream that was reset. */
void heddle_h2_spend_reset(struct core *core);
/* After a reply, the rest of a small body is dropped; that of a large one is refused. */
void heddle_h2_stop_upload(struct core *core, struct slot *slot);

#endif
