/* What an HTTP/2 client sends: limits, libnghttp2's callbacks for it, and the frames that libnghttp2
 * skips unseen. See heddle_h2.c. */
#include "heddle_h2.h"

/* Limits ------------------------------------------------------------------------- */

static void calm(struct core *core) {
  if (core->calmed) return;
  core->calmed = 1;
  heddle_h2_calmed++;
  nghttp2_session_terminate_session(core->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void spend(struct core *core, struct bucket *bucket, int64_t burst, int64_t rate) {
  double elapsed = (double)(core->now - bucket->since) / 1e9;
  bucket->since = core->now;
  bucket->tokens += elapsed * (double)rate;
  if (bucket->tokens > (double)burst) bucket->tokens = (double)burst;
  bucket->tokens -= 1;
  if (bucket->tokens < 0) calm(core);
}

void heddle_h2_spend_reset(struct core *core) { spend(core, &core->resets, core->limits.reset_burst, core->limits.reset_rate); }

/* Receiving ---------------------------------------------------------------------- */

static struct past *past_of(struct core *core, int32_t id) { return &core->recent[(id / 2) % RECENT]; }

/* libnghttp2 takes a stream that was skipped for one that is closed (nghttp2#2278), and remembers
 * none that is closed. A stream that this side has reset may still receive what was on its way. */
static void check_order(struct core *core, uint8_t type, int32_t id) {
  if (id <= 0 || id % 2 == 0 || nghttp2_session_find_stream(core->session, id)) return;
  struct past *past = past_of(core, id);
  if (id > core->last_id) {
    if (type != NGHTTP2_HEADERS) return;
    core->last_id = id;
    *past = (struct past){id, 0};
  } else if (past->id == id) {
    if (past->by_client) nghttp2_session_terminate_session(core->session, NGHTTP2_STREAM_CLOSED);
  } else if (type == NGHTTP2_HEADERS && past->id < id)
    nghttp2_session_terminate_session(core->session, NGHTTP2_PROTOCOL_ERROR);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user) {
  struct core *core = user;
  (void)session;
  if (hd->type != NGHTTP2_HEADERS) return 0;
  check_order(core, hd->type, hd->stream_id);
  return 0;
}

static void receive(struct core *core, const uint8_t *p, size_t count) {
  if (count == 0 || core->dead) return;
  ssize_t n = nghttp2_session_mem_recv(core->session, p, count);
  if (n == NGHTTP2_ERR_FLOODED) calm(core);
  if (n < 0) core->dead = 1;
}

static uint32_t number31(const uint8_t *p) { return (uint32_t)(p[0] & 0x7F) << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

/* Whatever libnghttp2 made of a header block, it is complete. */
static void end_block(struct core *core) {
  if (core->scan.closes) core->head_began = 0;
  core->scan.closes = 0;
}

/* Give input to libnghttp2, looking at each frame's head for what libnghttp2 skips unseen: how many bytes
 * there are; DATA on a closed stream, once what stands before it was taken; PRIORITY frames, unread
 * once we have said that we do not use them, but malformed they must not be (RFC 9113, section 6.3;
 * RFC 7540, section 5.3.1). An incomplete frame head is kept back: libnghttp2 counts every piece of a
 * CONTINUATION's as one more of these frames. */
void heddle_h2_receive(struct core *core, const uint8_t *p, size_t count) {
  struct scan *scan = &core->scan;
  const uint8_t *taken = p, *end = p + count, *frame = p;
  size_t kept = scan->have;
  int closing = 0; /* what was not given yet may close a stream */
  while (p < end) {
    if (scan->skip > 0) {
      size_t n = scan->skip < (size_t)(end - p) ? scan->skip : (size_t)(end - p);
      scan->skip -= n;
      p += n;
      continue;
    }
    if (scan->have == 0) {
      end_block(core);
      frame = p;
    }
    const uint8_t *h = scan->head;
    scan->head[scan->have++] = *p++;
    if (scan->have < FRAME_HEAD) continue;
    size_t length = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
    uint32_t id = number31(h + 5);
    if (h[3] == NGHTTP2_PRIORITY) {
      if (length >= 4 && scan->have < FRAME_HEAD + 4) continue;
      if (id == 0 || (length >= 4 && id == number31(h + FRAME_HEAD)))
        nghttp2_session_terminate_session(core->session, NGHTTP2_PROTOCOL_ERROR);
    } else if (h[3] == NGHTTP2_DATA && (closing || !nghttp2_session_find_stream(core->session, (int32_t)id))) {
      receive(core, taken, (size_t)(frame - taken));
      taken = frame;
      closing = 0;
      check_order(core, NGHTTP2_DATA, (int32_t)id);
    }
    if (h[3] == NGHTTP2_HEADERS || h[3] == NGHTTP2_CONTINUATION) {
      if (!core->head_began) core->head_began = core->now;
      scan->closes = h[4] & NGHTTP2_FLAG_END_HEADERS;
    }
    if (h[3] == NGHTTP2_RST_STREAM || (h[3] <= NGHTTP2_HEADERS && (h[4] & NGHTTP2_FLAG_END_STREAM))) closing = 1;
    receive(core, h, kept);
    kept = 0;
    core->total += (int64_t)length + FRAME_HEAD;
    if (core->total / 8 > core->useful + core->limits.useless) calm(core);
    scan->skip = length - (scan->have - FRAME_HEAD);
    scan->have = 0;
  }
  if (scan->have == 0 && scan->skip == 0) end_block(core);
  if (scan->have == 0) receive(core, taken, (size_t)(end - taken));
  else if (kept == 0) receive(core, taken, (size_t)(frame - taken));
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  struct core *core = user;
  core->block = NULL;
  core->listed = core->fields_count = 0;
  core->signalled = 0;
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  int32_t id = frame->hd.stream_id;
  /* libnghttp2 counts the open streams; a reset one counts here until its handler has ended. */
  if (core->calmed || core->abandoned >= (size_t)core->limits.streams || core->used >= 2 * (size_t)core->limits.streams + 16) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
    return 0;
  }
  struct slot *slot = heddle_h2_new_slot(core, id);
  if (!slot) return NGHTTP2_ERR_CALLBACK_FAILURE;
  nghttp2_session_set_stream_user_data(session, id, slot);
  core->block = slot;
  clear(&core->method);
  clear(&core->path);
  clear(&core->authority);
  clear(&core->host);
  clear(&core->cookies);
  clear(&core->fields);
  return 0;
}

/* Bytes that would end a line (1) or a word (2) of the HTTP/1.1 head early. */
static const uint8_t ends[256] = {['\r'] = 1, ['\n'] = 1, [0] = 1, [' '] = 2};

/* Whether there is such a byte. libnghttp2 has refused it already. */
static int unfit(const uint8_t *p, size_t n, int word) {
  uint8_t found = 0;
  for (size_t i = 0; i < n; i++) found |= ends[p[i]];
  return found & (word ? 3 : 1);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_count,
                     const uint8_t *value, size_t value_count, uint8_t flags, void *user) {
  struct core *core = user;
  struct slot *slot = core->block;
  (void)session, (void)flags;
  core->listed += name_count + value_count + 32;
  core->fields_count++;
  if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
    /* Trailers are dropped, within a limit. */
    return core->listed > (size_t)core->limits.trailers ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
  }
  if (!slot || slot->large) return 0;
  if (core->listed > (size_t)core->limits.header_list || core->fields_count > (size_t)core->limits.fields) {
    slot->large = 1;
    return 0;
  }
  int pseudo = name_count > 0 && name[0] == ':';
  if (unfit(name, name_count, 1) || unfit(value, value_count, pseudo)) slot->faulty = 1;
  int failed = 0;
  if (same(name, name_count, "priority")) core->signalled = 1;
  if (pseudo) {
    if (same(name, name_count, ":method")) failed = append(&core->method, value, value_count);
    else if (same(name, name_count, ":path")) failed = append(&core->path, value, value_count);
    else if (same(name, name_count, ":authority")) failed = append(&core->authority, value, value_count);
  } else if (same(name, name_count, "cookie")) {
    failed = (held(&core->cookies) && append_text(&core->cookies, "; ")) || append(&core->cookies, value, value_count);
  } else if (same(name, name_count, "host") && !held(&core->host)) {
    failed = append(&core->host, value, value_count);
  } else {
    failed = append(&core->fields, name, name_count) || append_text(&core->fields, ": ") ||
             append(&core->fields, value, value_count) || append_text(&core->fields, "\r\n");
  }
  return failed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int caseless(const struct bytes *a, const struct bytes *b) {
  if (held(a) != held(b)) return 0;
  for (size_t i = 0; i < held(a); i++) {
    uint8_t x = a->at[a->start + i], y = b->at[b->start + i];
    if (x >= 'A' && x <= 'Z') x += 32;
    if (y >= 'A' && y <= 'Z') y += 32;
    if (x != y) return 0;
  }
  return 1;
}

/* The head that the HTTP/1.1 parser reads. A Host that differs from :authority stays, and the parser
 * refuses two. */
static int write_head(struct core *core, struct slot *slot) {
  struct bytes *head = &slot->head;
  const struct bytes *target = held(&core->path) ? &core->path : &core->authority;
  int with_host = held(&core->host) && !(held(&core->authority) && caseless(&core->host, &core->authority));
  if (ensure(head, held(&core->method) + held(target) + held(&core->authority) + held(&core->host) + held(&core->cookies) +
                       held(&core->fields) + 64))
    return -1;
  append_bytes(head, &core->method);
  append_text(head, " ");
  append_bytes(head, target);
  append_text(head, " HTTP/1.1\r\n");
  if (held(&core->authority)) {
    append_text(head, "host: ");
    append_bytes(head, &core->authority);
    append_text(head, "\r\n");
  }
  if (with_host) {
    append_text(head, "host: ");
    append_bytes(head, &core->host);
    append_text(head, "\r\n");
  }
  append_bytes(head, &core->fields);
  if (held(&core->cookies)) {
    append_text(head, "cookie: ");
    append_bytes(head, &core->cookies);
    append_text(head, "\r\n");
  }
  append_text(head, "\r\n");
  return 0;
}

static int wake_reader(struct core *core, struct slot *slot) {
  if (!slot->wants_data) return 0;
  slot->wants_data = 0;
  return heddle_h2_announce(&core->wakes, EVENT_WAKE, slot, 0) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* A field with a character that none may have. libnghttp2 resets such a stream or drops the field and goes on, depending
 * on its release (1.52, 1.70); here the stream is always reset (RFC 9113, section 8.2.1). */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name, nghttp2_rcbuf *value,
                             uint8_t flags, void *user) {
  (void)name, (void)value, (void)flags, (void)user;
  nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
  return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* The request has ended. A client that has had the whole reply before may learn that its stream is over only when it hears
 * something more: curl 7.88 waits for ever. So it is sent a PING. That of heddle_h2_notice has zeros. */
static int ended(struct core *core, struct slot *slot) {
  static const uint8_t late[8] = {1};
  slot->ended = 1;
  if (slot->end_sent && nghttp2_submit_ping(core->session, NGHTTP2_FLAG_NONE, late)) return NGHTTP2_ERR_CALLBACK_FAILURE;
  return wake_reader(core, slot);
}

/* There is room for a reply that waits. */
static int wake_writer(struct core *core, struct slot *slot) {
  if (!slot->open || !slot->wants_room) return 0;
  slot->wants_room = 0;
  return heddle_h2_announce(&core->wakes, EVENT_WAKE, slot, 0) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  struct core *core = user;
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS: {
      struct slot *slot = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
      core->block = NULL;
      if (!slot) break;
      core->useful += (int64_t)frame->hd.length;
      if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) slot->ended = 1;
        slot->bodiless = held(&core->method) == 4 && memcmp(core->method.at, "HEAD", 4) == 0;
        /* RFC 9113, section 8.3.1. Another path would be read as a target of HTTP/1.1 with a host of its own. */
        if (held(&core->path) && core->path.at[core->path.start] != '/' && !(held(&core->path) == 1 && core->path.at[core->path.start] == '*'))
          slot->faulty = 1;
        if (!slot->large && !slot->faulty && write_head(core, slot)) return NGHTTP2_ERR_CALLBACK_FAILURE;
        /* RFC 9218's default would serve streams one after the other, and a small reply would wait for
         * the end of a download that began before it. Clients that say nothing share. */
        nghttp2_extpri shared = {NGHTTP2_EXTPRI_DEFAULT_URGENCY, 1};
        if (!core->signalled) nghttp2_session_change_extpri_stream_priority(session, slot->id, &shared, 0);
        if (heddle_h2_announce(&core->requests, EVENT_REQUEST, slot, 0)) return NGHTTP2_ERR_CALLBACK_FAILURE;
      } else if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        return ended(core, slot);
      break;
    }
    case NGHTTP2_DATA:
      if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        struct slot *slot = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (slot) return ended(core, slot);
      }
      break;
    case NGHTTP2_RST_STREAM:
      if (past_of(core, frame->hd.stream_id)->id == frame->hd.stream_id) past_of(core, frame->hd.stream_id)->by_client = 1;
      heddle_h2_spend_reset(core);
      break;
    case NGHTTP2_SETTINGS:
      if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        core->settings_awaited = 0;
        spend(core, &core->controls, core->limits.control_burst, core->limits.control_rate);
        /* The windows of all streams may have changed. */
        for (size_t i = 0; i < core->slot_count; i++)
          if (wake_writer(core, core->slots[i])) return NGHTTP2_ERR_CALLBACK_FAILURE;
      }
      break;
    case NGHTTP2_WINDOW_UPDATE: {
      struct slot *slot = frame->hd.stream_id ? nghttp2_session_get_stream_user_data(session, frame->hd.stream_id) : NULL;
      if (slot) return wake_writer(core, slot);
      break;
    }
    case NGHTTP2_PING:
      if (frame->hd.flags & NGHTTP2_FLAG_ACK) {
        if (!frame->ping.opaque_data[0]) core->ping_answered = 1;
      } else
        spend(core, &core->controls, core->limits.control_burst, core->limits.control_rate);
      break;
    default:
      break;
  }
  return 0;
}

/* After a reply, the rest of a small body is dropped; that of a large one is refused. */
void heddle_h2_stop_upload(struct core *core, struct slot *slot) {
  if (slot->end_sent && !slot->ended && slot->dropped * 2 > (size_t)core->limits.stream_window)
    nghttp2_submit_rst_stream(core->session, NGHTTP2_FLAG_NONE, slot->id, NGHTTP2_NO_ERROR);
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t count, void *user) {
  struct core *core = user;
  struct slot *slot = nghttp2_session_get_stream_user_data(session, id);
  (void)flags;
  core->useful += (int64_t)count;
  if (!slot || slot->done) {
    /* Nobody will read it: only the connection's window grows again. */
    nghttp2_session_consume_connection(session, count);
    if (slot) {
      slot->dropped += count;
      heddle_h2_stop_upload(core, slot);
    }
    return 0;
  }
  if (append(&slot->in, data, count)) return NGHTTP2_ERR_CALLBACK_FAILURE;
  return wake_reader(core, slot);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user) {
  struct core *core = user;
  struct slot *slot = nghttp2_session_get_stream_user_data(session, id);
  if (!slot) return 0;
  slot->open = 0;
  if (slot->ended && past_of(core, id)->id == id) past_of(core, id)->by_client = 1;
  if (held(&slot->in)) {
    nghttp2_session_consume_connection(session, held(&slot->in));
    if (error != NGHTTP2_NO_ERROR || !slot->ended) {
      /* What was not read is lost, so the body has no end. */
      clear(&slot->in);
      slot->ended = 0;
    }
  }
  core->waiting -= held(&slot->out);
  clear(&slot->out);
  nghttp2_session_set_stream_user_data(session, id, NULL);
  if (!slot->dispatched || slot->done) {
    slot->error = NGHTTP2_NO_ERROR;
    heddle_h2_free_slot(core, slot);
    return 0;
  }
  /* A stream that closed without error before its reply was complete was cut short too. */
  slot->error = error != NGHTTP2_NO_ERROR ? error : slot->finished ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL;
  if (slot->error != NGHTTP2_NO_ERROR) core->abandoned++;
  return heddle_h2_announce(&core->wakes, EVENT_CLOSED, slot, slot->error) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

void heddle_h2_receiving(nghttp2_session_callbacks *callbacks) {
  nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, on_invalid_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
