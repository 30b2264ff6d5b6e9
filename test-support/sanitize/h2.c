/* The HTTP/2 shim: frames, valid and not, in random pieces, with random calls of handlers in between. */
#include "harness.h"

#include <string.h>
#include <sys/mman.h>

#include "heddle_h2.h"

int64_t heddle_h2_live(int which);
struct shell *heddle_h2_new(const struct limits *limits, int64_t now);
void heddle_h2_end(struct shell *shell);
void heddle_h2_free(struct shell *shell);
int64_t heddle_h2_feed(struct shell *shell, uint8_t *p, int64_t count, int64_t now);
int64_t heddle_h2_events(struct shell *shell, struct event *to);
int64_t heddle_h2_drain(struct shell *shell, uint8_t *to, int64_t room, struct event *events, int64_t now);
int64_t heddle_h2_state(struct shell *shell);
int64_t heddle_h2_check(struct shell *shell, int64_t now, int64_t head_patience, int64_t reply_patience);
void heddle_h2_rest(struct shell *shell, int64_t now);
void heddle_h2_notice(struct shell *shell);
void heddle_h2_goaway(struct shell *shell);
int64_t heddle_h2_head(struct shell *shell, uint32_t index, int32_t id, uint8_t *to, int64_t room);
int64_t heddle_h2_read(struct shell *shell, uint32_t index, int32_t id, uint8_t *to, int64_t room);
int64_t heddle_h2_reply(struct shell *shell, uint32_t index, int32_t id, const uint8_t *head, int64_t head_count,
                        const uint8_t *content, int64_t count, int last);
int64_t heddle_h2_write(struct shell *shell, uint32_t index, int32_t id, const uint8_t *p, int64_t count, int last);
int64_t heddle_h2_interim(struct shell *shell, uint32_t index, int32_t id, const uint8_t *head, int64_t count);
int64_t heddle_h2_trailers(struct shell *shell, uint32_t index, int32_t id, const uint8_t *lines, int64_t count);
void heddle_h2_reset(struct shell *shell, uint32_t index, int32_t id, uint32_t code, int own);
int64_t heddle_h2_done(struct shell *shell, uint32_t index, int32_t id);

enum { FRAMES = 60000, HANDLERS = 4096 };

static uint8_t input[FRAMES + 20000];
static int64_t length;
static struct event handlers[HANDLERS];
static int64_t running, clock_now;

static void put(const void *p, int64_t n)
{
    memcpy(input + length, p, (size_t)n);
    length += n;
}

static void frame(int type, int flags, uint32_t stream, const void *payload, int64_t n)
{
    uint8_t h[9] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, (uint8_t)type, (uint8_t)flags,
                    (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    put(h, 9);
    if (n) put(payload, n);
}

/* A field of which neither name nor value is in a table. */
static int64_t literal(uint8_t *to, const char *name, const char *value)
{
    int64_t n = (int64_t)strlen(name), m = (int64_t)strlen(value);
    to[0] = 0;
    to[1] = (uint8_t)n;
    memcpy(to + 2, name, (size_t)n);
    to[2 + n] = (uint8_t)m;
    memcpy(to + 3 + n, value, (size_t)m);
    return 3 + n + m;
}

static void request(uint32_t stream)
{
    static const char *const names[] = {"cookie", "host", "x-a", "priority", "content-length", "expect", "te", "connection", ":path"};
    static const char *const values[] = {"a=b", "a", "", "u=1, i", "5", "100-continue", "trailers", "close", "/"};
    uint8_t block[8192];
    int64_t n = 0;
    block[n++] = chance(8) ? 0x83 : 0x82;
    block[n++] = 0x86;
    block[n++] = 0x84;
    if (!chance(4)) n += literal(block + n, chance(10) ? "host" : ":authority", "a");
    for (int64_t fields = chance(20) ? 140 : below(5); fields > 0; fields--) {
        int64_t which = below(9);
        n += literal(block + n, names[which], values[chance(3) ? below(9) : which]);
    }
    int64_t first = chance(3) ? below(n + 1) : n;
    int end = chance(2);
    frame(1, (end ? 1 : 0) | (first == n ? 4 : 0), stream, block, first);
    if (first < n) frame(9, chance(30) ? 0 : 4, stream, block + first, n - first);
}

static void conversation(void)
{
    uint8_t zero[4096] = {0}, four[4];
    uint32_t stream = 1;
    length = 0;
    put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    frame(4, 0, 0, zero, 0);
    while (length < FRAMES && !chance(200)) {
        uint32_t some = chance(10) ? (uint32_t)below(20) : (uint32_t)(1 + 2 * below(stream / 2 + 1));
        switch (below(12)) {
        case 0: case 1: case 2:
            request(chance(30) ? some : stream);
            stream += 2;
            break;
        case 3: case 4:
            frame(0, chance(3), some, zero, chance(4) ? below(4096) : below(40));
            break;
        case 5:
            four[0] = four[1] = four[2] = 0;
            four[3] = 8;
            frame(3, 0, some, four, 4);
            break;
        case 6: case 7:
            four[0] = chance(20) ? 0x7F : 0;
            four[1] = (uint8_t)below(8);
            four[2] = four[3] = (uint8_t)any();
            frame(8, 0, chance(2) ? 0 : some, four, 4);
            break;
        case 8:
            frame(6, chance(4), 0, zero, 8);
            break;
        case 9: {
            uint8_t setting[6] = {0, 4, 0, chance(3) ? 1 : 0, (uint8_t)any(), (uint8_t)any()};
            frame(4, 0, 0, setting, chance(10) ? below(7) : 6);
            break;
        }
        case 10:
            frame(2, 0, some, zero, chance(10) ? below(9) : 5);
            break;
        default:
            frame((int)below(20), (int)below(256), some, zero, below(100));
        }
    }
    if (chance(3))
        for (int64_t flips = below(6); flips > 0; flips--) input[below(length)] = (uint8_t)any();
}

static void hear(const struct event *events, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        CHECK(events[i].kind >= EVENT_REQUEST && events[i].kind <= EVENT_CLOSED && events[i].id > 0);
        if (events[i].kind == EVENT_REQUEST) {
            CHECK(running < HANDLERS);
            handlers[running++] = events[i];
        }
    }
}

/* What a handler may do at any moment, also one that has ended, or of another session. */
static void handle(struct shell *shell)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nDate: x\r\nX-Mixed: a b \r\nConnection: close\r\nContent-Length: 10\r\n\r\n";
    if (running == 0) return;
    int64_t which = below(running);
    struct event one = handlers[which];
    if (chance(40)) one.slot += (uint32_t)below(3);
    if (chance(40)) one.id += (int32_t)below(3);
    int64_t size = chance(4) ? below(70000) : below(200);
    switch (below(11)) {
    case 0: {
        int64_t room_for = below(2000);
        uint8_t *to = room(OUTPUT, room_for, 1);
        int64_t n = heddle_h2_head(shell, one.slot, one.id, to, room_for);
        CHECK(n >= TOO_LARGE);
        intact(OUTPUT);
        break;
    }
    case 1: case 2: {
        uint8_t *to = room(OUTPUT, 1 + size, 1);
        int64_t n = heddle_h2_read(shell, one.slot, one.id, to, 1 + size);
        CHECK(n < 0 ? n == GONE || n == NOTHING_YET : (n & 0xFFFFFFFF) <= 1 + size);
        intact(OUTPUT);
        break;
    }
    case 3: case 4: {
        int64_t head_count = (int64_t)sizeof head - 1;
        if (chance(20)) head_count = below(head_count);
        const uint8_t *h = holding(INPUT_2, head, head_count, 1);
        uint8_t *content = room(OUTPUT_2, size, 1);
        memset(content, 'x', (size_t)size);
        int64_t n = heddle_h2_reply(shell, one.slot, one.id, h, head_count, content, size, chance(2));
        CHECK(n >= MALFORMED && n <= size);
        break;
    }
    case 5: case 6: {
        uint8_t *content = room(OUTPUT_2, size, 1);
        memset(content, 'y', (size_t)size);
        int64_t n = heddle_h2_write(shell, one.slot, one.id, content, size, chance(3));
        CHECK(n >= GONE && n <= size);
        break;
    }
    case 7: {
        static const char early[] = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        int64_t count = (int64_t)sizeof early - 1;
        if (chance(5)) count = 1 + below(count);
        CHECK(heddle_h2_interim(shell, one.slot, one.id, holding(INPUT_2, early, count, 1), count) <= 0);
        break;
    }
    case 8: {
        static const char lines[] = "X-Sum: abc\r\nConnection: close\r\nX-Other:\tlast \r\n\r\n";
        int64_t count = (int64_t)sizeof lines - 1;
        if (chance(5)) count = below(count);
        int64_t n = heddle_h2_trailers(shell, one.slot, one.id, holding(INPUT_2, lines, count, 1), count);
        CHECK(n == 0 || n == GONE || n == MALFORMED);
        break;
    }
    case 9:
        heddle_h2_reset(shell, one.slot, one.id, (uint32_t)below(14), chance(2));
        break;
    default:
        heddle_h2_done(shell, handlers[which].slot, handlers[which].id);
        handlers[which] = handlers[--running];
    }
}

static void drain(struct shell *shell)
{
    int64_t room_for = 1 + below(chance(3) ? 65536 : 300);
    struct event *events = (struct event *)room(STATE, 64 * (int64_t)sizeof *events, 8);
    uint8_t *to = room(OUTPUT, room_for, 1);
    int64_t n = heddle_h2_drain(shell, to, room_for, events, clock_now);
    intact(OUTPUT);
    intact(STATE);
    if (n < 0) return;
    CHECK((n & 0xFFFFFFFF) <= room_for && n >> 32 <= 64);
    hear(events, n >> 32);
}

static const struct limits usual = {100, 65535, 1048576, 32768, 128, 4096, 200, 20, 1000, 100, 1048576, 65536};
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { SECOND = 1000000000 };

/* A session that has been given the preface, SETTINGS, and what the action adds; the events are in 'handlers'. */
static struct shell *begun(void (*add)(void), int64_t *count)
{
    struct shell *shell = heddle_h2_new(&usual, SECOND);
    CHECK(shell != 0);
    length = 0;
    put(preface, 24);
    frame(4, 0, 0, 0, 0);
    add();
    uint8_t *p = room(INPUT, 512 * (int64_t)sizeof(struct event), 8);
    memcpy(p, input, (size_t)length);
    *count = heddle_h2_feed(shell, p, length, SECOND);
    memcpy(handlers, p, (size_t)(*count > 0 ? *count : 0) * sizeof *handlers);
    return shell;
}

static void half_a_head(void) { frame(1, 0, 1, "\202", 1), input[length - 10] = 0, input[length - 8] = 100; }

static void upload(void)
{
    frame(1, 4, 1, "\203\206\204\101\1a", 6);
    frame(0, 0, 1, "abc", 3);
}

static void other_path(void)
{
    uint8_t fields[64] = "\202\206\101\1a";
    int64_t n = 5 + literal(fields + 5, ":path", "http://evil/");
    frame(1, 5, 1, fields, n);
}

static void nothing(void) {}

/* Feed what 'input' has: how many events there are then, in 'handlers'. */
static int64_t fed(struct shell *shell)
{
    uint8_t *p = room(INPUT, 512 * (int64_t)sizeof(struct event), 8);
    memcpy(p, input, (size_t)length);
    int64_t count = heddle_h2_feed(shell, p, length, SECOND);
    if (count > 0) memcpy(handlers, p, (size_t)count * sizeof *handlers);
    return count;
}

/* A session that rests within a frame's head, and after it has learnt a field, which the next request names by its place in the table. */
static void check_rest(void)
{
    static const char head[] = "HTTP/1.1 204 No Content\r\nX-Kept: 1\r\n\r\n";
    static const char learns[] = "\202\206\204\101\1a\100\4x-at\5there", knows[] = "\202\206\204\277\276";
    int64_t count;
    uint8_t *to = room(OUTPUT, 65536, 1);
    struct event *events = (struct event *)room(STATE, 64 * (int64_t)sizeof *events, 8);
    struct shell *shell = begun(nothing, &count);
    for (uint32_t stream = 1; stream < 9; stream += 2) {
        while ((heddle_h2_drain(shell, to, 65536, events, SECOND) & 0xFFFFFFFF) > 0) {}
        heddle_h2_rest(shell, stream * (int64_t)SECOND);
        heddle_h2_rest(shell, (stream + 1) * (int64_t)SECOND);
        CHECK(heddle_h2_live(3) == 1);
        uint8_t present = 0;
        CHECK(mincore((void *)((uintptr_t)shell->core & ~(uintptr_t)4095), 4096, &present) == 0 && !(present & 1));
        length = 0;
        if (stream == 1) frame(1, 5, stream, learns, (int64_t)sizeof learns - 1);
        else frame(1, 5, stream, knows, (int64_t)sizeof knows - 1);
        int64_t whole = length;
        length = below(9);
        CHECK(fed(shell) == 0);
        heddle_h2_rest(shell, (stream + 1) * (int64_t)SECOND);
        CHECK(heddle_h2_live(3) == 1);
        memmove(input, input + length, (size_t)(whole - length));
        length = whole - length;
        CHECK(fed(shell) == 1 && heddle_h2_live(3) == 0);
        int64_t n = heddle_h2_head(shell, handlers[0].slot, handlers[0].id, to, 65536) & 0xFFFFFFFF;
        CHECK(n == 40 && memcmp(to, "GET / HTTP/1.1\r\nhost: a\r\nx-at: there\r\n\r\n", 40) == 0);
        heddle_h2_reply(shell, handlers[0].slot, handlers[0].id, (const uint8_t *)head, (int64_t)sizeof head - 1, 0, 0, 1);
        heddle_h2_done(shell, handlers[0].slot, handlers[0].id);
    }
    heddle_h2_free(shell);
}

/* settingsEndedTheDeadlineOfAHead, resetEndedABodyAsIfItWereWhole, aPathBroughtItsOwnHost. */
static void check_known(void)
{
    int64_t count;
    uint8_t *to = room(OUTPUT, 65536, 1);
    struct shell *shell = begun(half_a_head, &count);
    CHECK(heddle_h2_check(shell, 2 * (int64_t)SECOND, 10 * (int64_t)SECOND, SECOND) == SECOND);
    CHECK(heddle_h2_state(shell) & STATE_HEAD_PENDING);
    heddle_h2_check(shell, 100 * (int64_t)SECOND, 10 * (int64_t)SECOND, SECOND);
    CHECK(!(heddle_h2_state(shell) & STATE_HEAD_PENDING));
    CHECK((heddle_h2_drain(shell, to, 65536, (struct event *)room(STATE, 64 * (int64_t)sizeof(struct event), 8), SECOND) & 0xFFFFFFFF) > 0);
    heddle_h2_free(shell);

    shell = begun(upload, &count);
    CHECK(count == 1 && handlers[0].kind == EVENT_REQUEST);
    CHECK(heddle_h2_head(shell, handlers[0].slot, handlers[0].id, to, 65536) > 0);
    CHECK((heddle_h2_read(shell, handlers[0].slot, handlers[0].id, to, 65536) & 0xFFFFFFFF) == 3);
    length = 0;
    frame(0, 1, 1, "def", 3);
    frame(3, 0, 1, "\0\0\0\10", 4);
    uint8_t *p = room(INPUT, 512 * (int64_t)sizeof(struct event), 8);
    memcpy(p, input, (size_t)length);
    heddle_h2_feed(shell, p, length, SECOND);
    CHECK(heddle_h2_read(shell, handlers[0].slot, handlers[0].id, to, 65536) == GONE);
    heddle_h2_done(shell, handlers[0].slot, handlers[0].id);
    heddle_h2_free(shell);

    shell = begun(other_path, &count);
    CHECK(count == 0 || heddle_h2_head(shell, handlers[0].slot, handlers[0].id, to, 65536) == MALFORMED);
    if (count > 0) heddle_h2_done(shell, handlers[0].slot, handlers[0].id);
    heddle_h2_free(shell);

    check_rest();
    CHECK(heddle_h2_live(0) == 0 && heddle_h2_live(1) == 0);
}

void check_h2(void)
{
    if (chance(50)) check_known();
    struct limits limits = {1 + below(20), 1 + below(70000), 65535 + below(100000), 200 + below(4000), 1 + below(140), below(200),
                            1 + below(50), below(20), 1 + below(50), below(20), below(100000), 1 + below(70000)};
    clock_now = 1 + (int64_t)(any() >> 20);
    running = 0;
    struct shell *shell = heddle_h2_new(&limits, clock_now);
    CHECK(shell != 0);
    conversation();
    for (int64_t at = 0; at < length;) {
        int64_t n = chance(3) ? 1 + below(16) : 1 + below(2000);
        if (n > length - at) n = length - at;
        int64_t memory = 512 * (int64_t)sizeof(struct event);
        uint8_t *p = room(INPUT, n > memory ? n : memory, 8);
        memcpy(p, input + at, (size_t)n);
        at += n;
        int64_t count = heddle_h2_feed(shell, p, n, clock_now);
        intact(INPUT);
        while (count > 0) {
            hear((struct event *)p, count);
            count = heddle_h2_events(shell, (struct event *)p);
        }
        clock_now += below(chance(30) ? 2000000000 : 1000000);
        for (int64_t turns = below(4); turns > 0; turns--) handle(shell);
        if (chance(2)) drain(shell);
        if (chance(20)) heddle_h2_check(shell, clock_now, 1000000000, 1000000000);
        if (chance(3)) heddle_h2_rest(shell, clock_now);
        if (chance(300)) heddle_h2_notice(shell);
        if (chance(300)) heddle_h2_goaway(shell);
        if (chance(500)) heddle_h2_end(shell);
        heddle_h2_state(shell);
    }
    for (int64_t turns = below(200); turns > 0; turns--) handle(shell), drain(shell);
    heddle_h2_rest(shell, clock_now + SECOND);
    if (chance(2)) heddle_h2_end(shell);
    for (int64_t turns = below(5); turns > 0; turns--) handle(shell), drain(shell);
    heddle_h2_free(shell);
    CHECK(heddle_h2_live(0) == 0 && heddle_h2_live(1) == 0);
}
