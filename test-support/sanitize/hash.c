/* SipHash against a twin written from the paper, in one piece and in many; and memory that grows. */
#include "harness.h"

#include <string.h>

#include "heddle_memory.h"
#include "heddle_siphash.h"

static struct text text;

static uint64_t turn(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = turn(v[1], 13) ^ v[0], v[0] = turn(v[0], 32);
    v[2] += v[3], v[3] = turn(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = turn(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = turn(v[1], 17) ^ v[2], v[2] = turn(v[2], 32);
}

static uint64_t twin(const uint64_t start[4], const uint8_t *p, int64_t length, int rounds)
{
    uint64_t v[4];
    memcpy(v, start, sizeof v);
    for (int64_t at = 0;; at += 8) {
        uint64_t word = 0;
        int64_t left = length - at;
        for (int64_t i = 0; i < 8 && i < left; i++) word |= (uint64_t)p[at + i] << 8 * i;
        if (left < 8) word |= (uint64_t)length << 56;
        v[3] ^= word;
        for (int i = 0; i < rounds; i++) sip_round(v);
        v[0] ^= word;
        if (left < 8) break;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < rounds + 2; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void check_hash(void)
{
    random_bytes(&text);
    uint64_t start[4] = {any(), any(), any(), any()};
    const uint8_t *p = holding(INPUT, text.bytes, text.length, 1);
    CHECK(heddle_sip13(start[0], start[1], start[2], start[3], p, text.length) == twin(start, text.bytes, text.length, 1));
    CHECK(heddle_sip24(start[0], start[1], start[2], start[3], p, text.length) == twin(start, text.bytes, text.length, 2));
    for (int rounds = 1; rounds <= 2; rounds++) {
        uint64_t *stream = (uint64_t *)room(STATE, 48, 8);
        memset(stream, 0, 48);
        memcpy(stream, start, sizeof start);
        for (int64_t at = 0; at < text.length;) {
            int64_t piece = below(chance(2) ? 20 : text.length + 1), from = below(5);
            if (piece > text.length - at) piece = text.length - at;
            /* Piece by piece, each with a guard page of its own. */
            uint8_t *some = room(INPUT, from + piece, 1);
            memcpy(some + from, text.bytes + at, (size_t)piece);
            heddle_sip_update(stream, some, from, piece, rounds);
            at += piece;
        }
        CHECK(heddle_sip_finish(stream, rounds) == twin(start, text.bytes, text.length, rounds));
        intact(STATE);
    }
}

void check_memory(void)
{
    int64_t held = heddle_memory_held(), count = heddle_memory_count();
    size_t size = (size_t)below(chance(8) ? 1 << 22 : 5000), used = 0;
    struct heddle_memory *memory = heddle_memory_new(size);
    CHECK(memory && memory->size >= size);
    for (int64_t n = below(6); n >= 0; n--) {
        for (; used < size; used++) memory->at[used] = (uint8_t)(used * 31);
        size_t next = chance(3) ? (size_t)below((int64_t)size + 1) : size + (size_t)below(chance(8) ? 1 << 22 : 5000);
        CHECK(heddle_memory_resize(memory, next) == 0 && memory->size >= next);
        if (next < used) used = next;
        size = next;
        for (size_t i = 0; i < used; i += 1 + (size_t)below(64)) CHECK(memory->at[i] == (uint8_t)(i * 31));
    }
    heddle_memory_trim(memory, used);
    for (size_t i = 0; i < used; i++) CHECK(memory->at[i] == (uint8_t)(i * 31));
    heddle_memory_free(memory);
    CHECK(heddle_memory_held() == held && heddle_memory_count() == count);
}
