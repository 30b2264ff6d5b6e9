/* HTTP/2 sessions by libnghttp2, for Heddle.Http.H2.Session.
 *
 * libnghttp2 frames, compresses headers and knows the states of streams. Its callbacks run inside
 * unsafe calls, so they never call Haskell: they write memory of this file only. A request's head
 * is gathered in scratch buffers of the session and then written out as an HTTP/1.1 head; bodies
 * wait in a buffer per stream and direction; what Haskell must hear of becomes an event.
 *
 * A session has a shell of two words: a lock and a pointer. The lock is there for handlers that write
 * from a thread on another capability; every call is short and never sleeps, so it spins. After
 * heddle_h2_end the pointer is NULL and every call answers GONE, so a writer that outlives its
 * connection does no harm. The collector frees the shell, and with it a session that nobody has
 * ended, because the runtime was stopped under its connection.
 *
 * A stream has a slot from its HEADERS on until libnghttp2 has closed it and its handler has ended.
 * Haskell names it by slot and stream identifier; the identifier is never used twice.
 *
 * Names of libnghttp2 1.52 (Debian 12): mem_recv, mem_send.
 */
#include "heddle_h2.h"
#include <sched.h>

static atomic_long live_sessions, live_slots, resting_sessions;
atomic_long heddle_h2_calmed;

/* How many sessions (0) or slots (1) exist, how many sessions were ended for a flood (2), and how many rest (3). */
int64_t heddle_h2_live(int which) {
  switch (which) {
    case 0: return live_sessions;
    case 1: return live_slots;
    case 2: return heddle_h2_calmed;
    default: return resting_sessions;
  }
}

/* Events ------------------------------------------------------------------------- */

int heddle_h2_announce(struct events *events, uint32_t kind, const struct slot *slot, uint32_t detail) {
  if (events->count == events->room) {
    size_t room = events->room ? events->room * 2 : 16;
    struct event *at = realloc(events->at, room * sizeof *at);
    if (!at) return -1;
    events->at = at;
    events->room = room;
  }
  events->at[events->count++] = (struct event){kind, slot->index, slot->id, detail};
  return 0;
}

/* An idle session keeps only what libnghttp2 does. */
static void trim(struct core *core) {
  struct bytes *scratch[] = {&core->method, &core->path, &core->authority, &core->host, &core->cookies, &core->fields};
  for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) release(scratch[i]);
  if (core->requests.count == 0) {
    free(core->requests.at);
    memset(&core->requests, 0, sizeof core->requests);
  }
  if (core->wakes.count == 0) {
    free(core->wakes.at);
    memset(&core->wakes, 0, sizeof core->wakes);
  }
  for (size_t i = 0; i < core->slot_count; i++) {
    release(&core->slots[i]->head);
    release(&core->slots[i]->in);
    release(&core->slots[i]->out);
    release(&core->slots[i]->trailers);
    free(core->slots[i]);
  }
  free(core->slots);
  core->slots = NULL;
  core->free_slots = NULL;
  core->slot_room = core->slot_count = 0;
  heddle_h2_empty_pool(&core->pool);
}

/* Slots -------------------------------------------------------------------------- */

struct slot *heddle_h2_new_slot(struct core *core, int32_t id) {
  struct slot *slot = core->free_slots;
  if (slot)
    core->free_slots = slot->next;
  else {
    if (core->slot_count == core->slot_room) {
      size_t room = core->slot_room ? core->slot_room * 2 : 4;
      struct slot **slots = realloc(core->slots, room * sizeof *slots);
      if (!slots) return NULL;
      core->slots = slots;
      core->slot_room = room;
    }
    slot = calloc(1, sizeof *slot);
    if (!slot) return NULL;
    slot->index = (uint32_t)core->slot_count;
    core->slots[core->slot_count++] = slot;
  }
  slot->id = id;
  slot->open = 1;
  slot->moved = core->now;
  core->used++;
  core->busy = 1;
  live_slots++;
  return slot;
}

/* For the next stream; trim frees it. */
void heddle_h2_free_slot(struct core *core, struct slot *slot) {
  struct bytes *buffers[] = {&slot->head, &slot->in, &slot->out, &slot->trailers};
  core->used--;
  core->waiting -= held(&slot->out);
  if (slot->dispatched && slot->error != NGHTTP2_NO_ERROR) core->abandoned--;
  if (core->block == slot) core->block = NULL;
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    if (buffers[i]->room > KEPT) release(buffers[i]);
    else clear(buffers[i]);
  *slot = (struct slot){.index = slot->index, .head = slot->head, .in = slot->in, .out = slot->out, .trailers = slot->trailers, .next = core->free_slots};
  core->free_slots = slot;
  live_slots--;
}

static struct slot *slot_of(struct core *core, uint32_t index, int32_t id) {
  if (!core || index >= core->slot_count) return NULL;
  struct slot *slot = core->slots[index];
  return slot->id == id ? slot : NULL;
}

/* Sending ------------------------------------------------------------------------ */

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  struct core *core = user;
  if (frame->hd.type == NGHTTP2_DATA) {
    core->total += (int64_t)frame->hd.length + 9;
    core->useful += (int64_t)frame->hd.length;
  }
  if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR) {
    struct slot *slot = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    /* Resets that the client provokes are as cheap for it as those that it sends (CVE-2025-8671). */
    if (!slot || !slot->own_reset) heddle_h2_spend_reset(core);
  }
  if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
    struct slot *slot = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (slot) {
      slot->end_sent = 1;
      heddle_h2_stop_upload(core, slot);
    }
  }
  return 0;
}

static ssize_t frame_length(nghttp2_session *session, uint8_t type, int32_t id, int32_t session_window, int32_t stream_window,
                            uint32_t most, void *user) {
  (void)session, (void)type, (void)id, (void)user;
  int64_t n = DATA_FRAME;
  if (n > session_window) n = session_window;
  if (n > stream_window) n = stream_window;
  if (n > most) n = most;
  return (ssize_t)n;
}

/* Names that HTTP/2 forbids: they speak of one connection. */
static int of_connection(const uint8_t *name, size_t n) {
  switch (n) {
    case 7: return same(name, n, "upgrade");
    case 10: return same(name, n, "connection") || same(name, n, "keep-alive");
    case 14: return same(name, n, "http2-settings");
    case 16: return same(name, n, "proxy-connection");
    case 17: return same(name, n, "transfer-encoding");
    default: return 0;
  }
}

/* Fields from the lines of an HTTP/1.1 head, up to an empty line, which are changed: names to lower case. There are n fields
 * already. How many there are then, MALFORMED, or TOO_LARGE where there are more than there is room for. */
static int64_t fields_from(uint8_t *at, const uint8_t *end, nghttp2_nv *fields, size_t n, size_t room) {
  while (at < end && *at != '\r') {
    uint8_t *line = memchr(at, '\r', (size_t)(end - at));
    const uint8_t *last = line ? line : end;
    uint8_t *colon = memchr(at, ':', (size_t)(last - at));
    if (!colon || colon == at) return MALFORMED;
    for (uint8_t *c = at; c < colon; c++) *c |= *c >= 'A' && *c <= 'Z' ? 32 : 0;
    uint8_t *value = colon + 1;
    size_t name_count = (size_t)(colon - at);
    while (value < last && (*value == ' ' || *value == '\t')) value++;
    const uint8_t *stop = last;
    while (stop > value && (stop[-1] == ' ' || stop[-1] == '\t')) stop--;
    if (!nghttp2_check_header_name(at, name_count)) return MALFORMED;
    if (!nghttp2_check_header_value(value, (size_t)(stop - value))) return MALFORMED;
    if (!of_connection(at, name_count)) {
      if (n == room) return TOO_LARGE;
      fields[n++] = (nghttp2_nv){at, value, name_count, (size_t)(stop - value), NGHTTP2_NV_FLAG_NONE};
    }
    if (!line || end - line < 2) break;
    at = line + 2;
  }
  return (int64_t)n;
}

/* Trailers are checked when they are given, and read again when the content has been sent. */
static int64_t trailers_of(struct slot *slot, nghttp2_nv fields[TRAILERS]) {
  return fields_from(slot->trailers.at, slot->trailers.at + slot->trailers.end, fields, 0, TRAILERS);
}

/* How much of a stream's content goes into the next frame, which send_output writes. */
static ssize_t read_output(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t room, uint32_t *flags,
                           nghttp2_data_source *source, void *user) {
  struct slot *slot = source->ptr;
  size_t n = held(&slot->out) < room ? held(&slot->out) : room;
  (void)buffer, (void)user;
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (n == held(&slot->out) && slot->finished) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (held(&slot->trailers)) {
      nghttp2_nv fields[TRAILERS];
      if (nghttp2_submit_trailer(session, id, fields, (size_t)trailers_of(slot, fields))) return NGHTTP2_ERR_CALLBACK_FAILURE;
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    }
  } else if (n == 0) {
    slot->deferred = 1;
    return NGHTTP2_ERR_DEFERRED;
  }
  return (ssize_t)n;
}

/* Write a DATA frame straight into the memory of heddle_h2_drain, which has copied all frames before it. Where there is no
 * room, libnghttp2 calls again when it is next asked for output. */
static int send_output(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t count,
                       nghttp2_data_source *source, void *user) {
  struct core *core = user;
  struct slot *slot = source->ptr;
  (void)frame;
  if ((size_t)(core->packed_end - core->packed) < FRAME_HEAD + count) return NGHTTP2_ERR_WOULDBLOCK;
  memcpy(core->packed, head, FRAME_HEAD);
  take(&slot->out, core->packed + FRAME_HEAD, count);
  core->waiting -= count;
  /* What waits for a window waits without memory. The window shrinks after this call. */
  if (!held(&slot->out) && nghttp2_session_get_stream_remote_window_size(session, slot->id) <= (int32_t)count) release(&slot->out);
  core->packed += FRAME_HEAD + count;
  /* A client that takes a byte now and then has made no progress. */
  slot->taken += count;
  if (slot->taken >= (size_t)core->limits.output / 16 || (!held(&slot->out) && slot->finished)) {
    slot->taken = 0;
    slot->moved = core->now;
  }
  if (slot->wants_room) {
    slot->wants_room = 0;
    if (heddle_h2_announce(&core->wakes, EVENT_WAKE, slot, 0)) return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  return 0;
}

/* Sessions ----------------------------------------------------------------------- */

static void wake(struct shell *shell) {
  heddle_h2_wake_pages(shell->core, shell->resting);
  shell->resting = NULL;
  resting_sessions--;
}

static struct core *enter(struct shell *shell) {
  while (atomic_exchange_explicit(&shell->lock, 1, memory_order_acquire)) sched_yield();
  if (shell->resting) wake(shell);
  return shell->core;
}

static int64_t leave(struct shell *shell, int64_t answer) {
  atomic_store_explicit(&shell->lock, 0, memory_order_release);
  return answer;
}

static void free_core(struct core *core) {
  live_slots -= (long)core->used;
  core->requests.count = core->wakes.count = 0;
  nghttp2_session_del(core->session);
  trim(core);
  heddle_h2_free_core(core);
  live_sessions--;
}

static int start(struct core *core) {
  nghttp2_session_callbacks *callbacks;
  nghttp2_option *option;
  if (nghttp2_session_callbacks_new(&callbacks)) return -1;
  if (nghttp2_option_new(&option)) {
    nghttp2_session_callbacks_del(callbacks);
    return -1;
  }
  heddle_h2_receiving(callbacks);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
  nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, frame_length);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, send_output);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
#if NGHTTP2_VERSION_NUM >= 0x014200
  /* Newer releases count suspicious frames themselves. Our own limits are stricter, say ENHANCE_YOUR_CALM and are the same
   * with every release. */
  nghttp2_option_set_glitch_rate_limit(option, INT64_MAX, INT64_MAX);
#endif
  nghttp2_mem memory = heddle_h2_memory(&core->pool);
  core->pool.opening = 1;
  int failed = nghttp2_session_server_new3(&core->session, callbacks, core, option, &memory);
  core->pool.opening = 0;
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  if (failed) {
    heddle_h2_empty_pool(&core->pool);
    return -1;
  }
  nghttp2_settings_entry entries[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)core->limits.streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)core->limits.stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)core->limits.header_list},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  failed = nghttp2_submit_settings(core->session, NGHTTP2_FLAG_NONE, entries, sizeof entries / sizeof *entries) ||
           nghttp2_session_set_local_window_size(core->session, NGHTTP2_FLAG_NONE, 0, (int32_t)core->limits.connection_window);
  if (failed) {
    nghttp2_session_del(core->session);
    heddle_h2_empty_pool(&core->pool);
  }
  return failed ? -1 : 0;
}

/* Make a session in a shell of its own; NULL without memory. */
struct shell *heddle_h2_new(const struct limits *limits, int64_t now) {
  struct shell *shell = calloc(1, sizeof *shell);
  struct core *core = heddle_h2_new_core();
  if (shell && core) {
    core->limits = *limits;
    core->now = core->settings_awaited = now;
    core->scan.skip = PREFACE;
    core->resets = (struct bucket){(double)limits->reset_burst, now};
    core->controls = (struct bucket){(double)limits->control_burst, now};
    if (!start(core)) {
      live_sessions++;
      shell->core = core;
      return shell;
    }
  }
  if (core) heddle_h2_free_core(core);
  free(shell);
  return NULL;
}

/* Free the session; the shell stays. Idempotent. */
void heddle_h2_end(struct shell *shell) {
  struct core *core = enter(shell);
  shell->core = NULL;
  if (core) free_core(core);
  leave(shell, 0);
}

/* Nobody knows the shell any more. */
void heddle_h2_free(struct shell *shell) {
  if (shell->resting) wake(shell);
  if (shell->core) free_core(shell->core);
  free(shell);
}

static size_t copy_events(struct events *events, struct event *to, size_t room) {
  size_t n = events->count < room ? events->count : room;
  if (n == 0) return 0;
  memcpy(to, events->at, n * sizeof *to);
  memmove(events->at, events->at + n, (events->count - n) * sizeof *to);
  events->count -= n;
  return n;
}

/* Requests whose stream has closed meanwhile have no slot any more, and nobody hears of them. */
static size_t copy_requests(struct core *core, struct event *to, size_t room) {
  size_t kept = 0, seen = 0;
  for (; seen < core->requests.count && kept < room; seen++) {
    struct event *event = &core->requests.at[seen];
    struct slot *slot = slot_of(core, event->slot, event->id);
    if (!slot || !slot->open) continue;
    slot->dispatched = 1;
    to[kept++] = *event;
  }
  if (seen > 0) {
    memmove(core->requests.at, core->requests.at + seen, (core->requests.count - seen) * sizeof *to);
    core->requests.count -= seen;
  }
  return kept;
}

/* Take what was received, then write events over it: how many, or GONE. The rest of them comes from
 * heddle_h2_events. */
int64_t heddle_h2_feed(struct shell *shell, uint8_t *p, int64_t count, int64_t now) {
  struct core *core = enter(shell);
  if (!core) return leave(shell, GONE);
  core->now = now;
  if (!core->dead) heddle_h2_receive(core, p, (size_t)count);
  size_t room = 512, n = copy_requests(core, (struct event *)p, room);
  n += copy_events(&core->wakes, (struct event *)p + n, room - n);
  return leave(shell, (int64_t)n);
}

/* More events, as heddle_h2_feed answers; the memory has room for 512. */
int64_t heddle_h2_events(struct shell *shell, struct event *to) {
  struct core *core = enter(shell);
  if (!core) return leave(shell, GONE);
  size_t room = 512, n = copy_requests(core, to, room);
  n += copy_events(&core->wakes, to + n, room - n);
  return leave(shell, (int64_t)n);
}

/* Pack output into memory, which has room for a DATA frame at least: the number of bytes, and 2^32 times the number of
 * events written to the second memory, which has room for 64 of them; or GONE. libnghttp2 is asked until it has nothing more
 * or the memory is full, so that a stream whose end is written has been closed. */
int64_t heddle_h2_drain(struct shell *shell, uint8_t *to, int64_t room, struct event *events, int64_t now) {
  struct core *core = enter(shell);
  if (!core) return leave(shell, GONE);
  core->now = now;
  core->packed = to;
  core->packed_end = to + room;
  for (;;) {
    if (!core->pending_count) {
      ssize_t n = nghttp2_session_mem_send(core->session, &core->pending);
      if (n < 0) core->dead = core->mute = 1;
      if (n <= 0) break;
      core->pending_count = (size_t)n;
    }
    size_t n = core->pending_count, left = (size_t)(core->packed_end - core->packed);
    if (n > left) n = left;
    /* A frame is split only if it does not fit an empty buffer. */
    if (n < core->pending_count && core->packed > to) break;
    memcpy(core->packed, core->pending, n);
    core->pending += n;
    core->pending_count -= n;
    core->packed += n;
  }
  int64_t told = (int64_t)copy_events(&core->wakes, events, 64);
  return leave(shell, (core->packed - to) + (told << 32));
}

/* What the session wants (STATE_ bits), and from bit 8 on the number of slots. */
int64_t heddle_h2_state(struct shell *shell) {
  struct core *core = enter(shell);
  if (!core) return leave(shell, GONE);
  int64_t bits = 0;
  if (!core->dead && nghttp2_session_want_read(core->session)) bits |= STATE_READS;
  if (!core->mute && (core->pending_count || nghttp2_session_want_write(core->session))) bits |= STATE_WRITES;
  if (core->ping_answered) bits |= STATE_PING_ANSWERED;
  if (core->head_began || core->settings_awaited) bits |= STATE_HEAD_PENDING;
  return leave(shell, bits | ((int64_t)core->used << 8));
}

/* End what takes too long: the connection, when a head (or the client's SETTINGS) is incomplete
 * after head_patience; a stream whose client has taken nothing of a complete reply, or has not ended
 * its request after the reply, for reply_patience. Answers when the incomplete head began, or 0. */
int64_t heddle_h2_check(struct shell *shell, int64_t now, int64_t head_patience, int64_t reply_patience) {
  struct core *core = enter(shell);
  if (!core) return leave(shell, GONE);
  core->now = now;
  int64_t began = core->head_began;
  if (core->settings_awaited && (!began || core->settings_awaited < began)) began = core->settings_awaited;
  if (began && now - began >= head_patience) {
    began = core->head_began = core->settings_awaited = 0;
    nghttp2_session_terminate_session(core->session, NGHTTP2_NO_ERROR);
  }
  for (size_t i = 0; i < core->slot_count; i++) {
    struct slot *slot = core->slots[i];
    if (slot->open && slot->done && now - slot->moved >= reply_patience) {
      slot->moved = now;
      nghttp2_submit_rst_stream(core->session, NGHTTP2_FLAG_NONE, slot->id, slot->end_sent ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
    }
  }
  return leave(shell, began);
}

/* The connection waits for input. Without a stream, and with nothing to send, keep little until the next call. */
void heddle_h2_rest(struct shell *shell, int64_t now) {
  struct core *core = enter(shell);
  if (core && core->used == 0 && !core->pending_count && !nghttp2_session_want_write(core->session)) {
    /* Requests that follow each other closely find the memory of those before them. The last call comes later: Service keeps
     * the thread of such a connection for a second, then has it look again. */
    int rests = now - core->idle_since >= SOON;
    if (core->busy) core->idle_since = now;
    core->busy = 0;
    if (rests) {
      trim(core);
      if ((shell->resting = heddle_h2_rest_pages(core))) resting_sessions++;
    }
  }
  leave(shell, 0);
}

/* Announce the end without refusing streams that are on their way, and ask for an answer. */
void heddle_h2_notice(struct shell *shell) {
  struct core *core = enter(shell);
  if (core) {
    core->ping_answered = 0;
    nghttp2_submit_shutdown_notice(core->session);
    nghttp2_submit_ping(core->session, NGHTTP2_FLAG_NONE, NULL);
  }
  leave(shell, 0);
}

/* Take no further streams. */
void heddle_h2_goaway(struct shell *shell) {
  struct core *core = enter(shell);
  if (core)
    nghttp2_submit_goaway(core->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(core->session),
                          NGHTTP2_NO_ERROR, NULL, 0);
  leave(shell, 0);
}

/* Streams ------------------------------------------------------------------------ */

/* Copy a request's head: its whole length (what does not fit is left out), or a negative code. The
 * answer's bit 32 says that no body follows. */
int64_t heddle_h2_head(struct shell *shell, uint32_t index, int32_t id, uint8_t *to, int64_t room) {
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (!slot || !slot->open) return leave(shell, GONE);
  if (slot->large) return leave(shell, TOO_LARGE);
  if (slot->faulty) return leave(shell, MALFORMED);
  int64_t length = (int64_t)held(&slot->head);
  take(&slot->head, to, (size_t)room);
  clear(&slot->head);
  return leave(shell, length | ((int64_t)(slot->ended && !held(&slot->in)) << 32));
}

/* Read of the body: a count, 0 at its end, NOTHING_YET (a wake event will come), or GONE. Bit 32 of a
 * count says that there is something to send. */
int64_t heddle_h2_read(struct shell *shell, uint32_t index, int32_t id, uint8_t *to, int64_t room) {
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (!slot) return leave(shell, GONE);
  if (held(&slot->in)) {
    size_t n = take(&slot->in, to, (size_t)room);
    if (!held(&slot->in) && slot->in.room > 16384) release(&slot->in);
    /* A closed stream has given everything back to the connection's window already. */
    if (slot->open) nghttp2_session_consume(core->session, id, n);
    return leave(shell, (int64_t)n | ((int64_t)(nghttp2_session_want_write(core->session) != 0) << 32));
  }
  if (slot->ended) return leave(shell, 0);
  if (!slot->open) return leave(shell, GONE);
  slot->wants_data = 1;
  return leave(shell, NOTHING_YET);
}

/* Fields from an HTTP/1.1 head, as fields_from answers. */
static int64_t fields_of(uint8_t *head, size_t count, nghttp2_nv *fields, size_t room) {
  if (count < 12) return MALFORMED;
  fields[0] = (nghttp2_nv){(uint8_t *)":status", head + 9, 7, 3, NGHTTP2_NV_FLAG_NONE};
  uint8_t *line = memchr(head, '\n', count);
  return line ? fields_from(line + 1, head + count, fields, 1, room) : 1;
}

/* How much of a reply may be added to what waits: no more than the stream's window lets the client take, and little when other
 * streams hold all that the connection's does. Where a client opens no window, its streams wait in their handlers, without
 * memory here. */
static int64_t room_of(struct core *core, struct slot *slot) {
  int64_t most = core->limits.output, window = nghttp2_session_get_stream_remote_window_size(core->session, slot->id);
  if (most > window) most = window;
  if (most > LEAST && (int64_t)core->waiting >= nghttp2_session_get_remote_window_size(core->session)) most = LEAST;
  int64_t room = most - (int64_t)held(&slot->out);
  return room < 0 ? 0 : room;
}

/* The end of a small reply always finds room, so that its handler can end. */
static int64_t accept_output(struct core *core, struct slot *slot, const uint8_t *p, int64_t count, int last) {
  int64_t room = room_of(core, slot);
  int64_t n = count < room || last == WHOLE || (last && count + (int64_t)held(&slot->out) <= LEAST) ? count : room;
  if (append(&slot->out, p, (size_t)n)) return GONE;
  core->waiting += (size_t)n;
  if (n == count && last) slot->finished = 1;
  if (n < count) slot->wants_room = 1;
  return n;
}

/* How much of a reply would be accepted now, or GONE. */
int64_t heddle_h2_room(struct shell *shell, uint32_t index, int32_t id) {
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (!slot || !slot->open) return leave(shell, GONE);
  int64_t room = room_of(core, slot);
  if (!room) slot->wants_room = 1;
  return leave(shell, room);
}

/* Begin the reply: a head in HTTP/1.1's form, some or all of its content. With last, the content
 * ends there; with WHOLE, all of it is accepted. The count that was accepted (all, of the content that a reply to HEAD leaves out), MALFORMED,
 * or GONE. */
int64_t heddle_h2_reply(struct shell *shell, uint32_t index, int32_t id, const uint8_t *head, int64_t head_count,
                        const uint8_t *content, int64_t count, int last) {
  enum { FEW = 64 };
  nghttp2_nv few[FEW], *fields = few;
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (!slot || !slot->open || slot->replied) return leave(shell, GONE);
  uint8_t small[2048], *copy = small;
  int64_t answer = GONE;
  if (head_count > (int64_t)sizeof small) copy = malloc((size_t)head_count);
  if (copy) {
    if (head_count > 0) memcpy(copy, head, (size_t)head_count);
    int64_t n = fields_of(copy, (size_t)head_count, few, FEW);
    if (n == TOO_LARGE) {
      /* Each line but the last has four bytes or more. */
      size_t most = (size_t)head_count / 4 + 1;
      fields = malloc(most * sizeof *fields);
      n = fields ? fields_of(copy, (size_t)head_count, fields, most) : GONE;
    }
    if (n < 0)
      answer = n;
    else if ((answer = accept_output(core, slot, content, slot->bodiless ? 0 : count, slot->bodiless || last)) >= 0) {
      nghttp2_data_provider provider = {{.ptr = slot}, read_output};
      int bare = slot->finished && !held(&slot->out);
      if (nghttp2_submit_response(core->session, id, fields, (size_t)n, bare ? NULL : &provider)) answer = GONE;
      slot->replied = 1;
      if (slot->bodiless) answer = count;
      slot->moved = core->now;
    }
  }
  if (copy != small) free(copy);
  if (fields != few) free(fields);
  return leave(shell, answer);
}

/* More content: the count that was accepted (when it is not all, a wake event will come), or GONE. */
int64_t heddle_h2_write(struct shell *shell, uint32_t index, int32_t id, const uint8_t *p, int64_t count, int last) {
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (!slot || !slot->open || !slot->replied || slot->finished) return leave(shell, GONE);
  int64_t n = accept_output(core, slot, p, count, last);
  if (slot->deferred && (held(&slot->out) || slot->finished)) {
    slot->deferred = 0;
    nghttp2_session_resume_data(core->session, id);
  }
  return leave(shell, n);
}

/* Fields that follow the content, as lines with an empty one behind, in place of earlier ones: 0, MALFORMED, or GONE. */
int64_t heddle_h2_trailers(struct shell *shell, uint32_t index, int32_t id, const uint8_t *lines, int64_t count) {
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (!slot || !slot->open || !slot->replied || slot->finished) return leave(shell, GONE);
  nghttp2_nv fields[TRAILERS];
  clear(&slot->trailers);
  int64_t n = MALFORMED;
  /* Within what libnghttp2 packs into one block. */
  if (count <= 32768) n = append(&slot->trailers, lines, (size_t)count) ? GONE : trailers_of(slot, fields);
  if (n <= 0) clear(&slot->trailers);
  return leave(shell, n > 0 ? 0 : n == TOO_LARGE ? MALFORMED : n);
}

/* An interim response: a head in HTTP/1.1's form. 0, MALFORMED, or GONE, also when the reply has begun. */
int64_t heddle_h2_interim(struct shell *shell, uint32_t index, int32_t id, const uint8_t *head, int64_t count) {
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (!slot || !slot->open || slot->replied) return leave(shell, GONE);
  size_t lines = 2;
  for (int64_t i = 0; i < count; i++) lines += head[i] == '\n';
  uint8_t *copy = malloc((size_t)count);
  nghttp2_nv *fields = malloc(lines * sizeof *fields);
  int64_t n = GONE;
  if (copy && fields) {
    memcpy(copy, head, (size_t)count);
    n = fields_of(copy, (size_t)count, fields, lines);
    if (n > 0 && nghttp2_submit_headers(core->session, NGHTTP2_FLAG_NONE, id, NULL, fields, (size_t)n, NULL)) n = GONE;
  }
  free(copy);
  free(fields);
  return leave(shell, n > 0 ? 0 : n);
}

/* Give a stream up. own: the client has not provoked it. */
void heddle_h2_reset(struct shell *shell, uint32_t index, int32_t id, uint32_t code, int own) {
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (slot && slot->open) {
    slot->own_reset = (uint8_t)own;
    nghttp2_submit_rst_stream(core->session, NGHTTP2_FLAG_NONE, id, code);
  }
  leave(shell, 0);
}

/* The handler has ended; a reply that is not complete is given up. */
void heddle_h2_done(struct shell *shell, uint32_t index, int32_t id) {
  struct core *core = enter(shell);
  struct slot *slot = slot_of(core, index, id);
  if (slot && slot->open) {
    slot->done = 1;
    slot->moved = core->now;
    if (held(&slot->in)) {
      nghttp2_session_consume_connection(core->session, held(&slot->in));
      slot->dropped += held(&slot->in);
      release(&slot->in);
    }
    heddle_h2_stop_upload(core, slot);
    if (!slot->finished) {
      slot->own_reset = 1;
      nghttp2_submit_rst_stream(core->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
    }
  } else if (slot)
    heddle_h2_free_slot(core, slot);
  leave(shell, 0);
}
