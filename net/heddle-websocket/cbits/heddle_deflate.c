#include "heddle_deflate.h"

#include <stdlib.h>
#include <zlib.h>

struct heddle_flate {
    z_stream stream;
    int inflates;
    /* The input so far ends with a block. */
    int whole;
};

static int64_t count;

static struct heddle_flate *opened(struct heddle_flate *flate, int result)
{
    if (result != Z_OK) {
        free(flate);
        return NULL;
    }
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return flate;
}

/* Negative bits: without zlib's header. */
struct heddle_flate *heddle_deflater(int level, int bits)
{
    struct heddle_flate *flate = calloc(1, sizeof *flate);
    if (!flate)
        return NULL;
    return opened(flate, deflateInit2(&flate->stream, level, Z_DEFLATED, -bits, 8, Z_DEFAULT_STRATEGY));
}

struct heddle_flate *heddle_inflater(void)
{
    struct heddle_flate *flate = calloc(1, sizeof *flate);
    if (!flate)
        return NULL;
    flate->inflates = 1;
    return opened(flate, inflateInit2(&flate->stream, -15));
}

void heddle_flate_free(struct heddle_flate *flate)
{
    if (flate->inflates)
        inflateEnd(&flate->stream);
    else
        deflateEnd(&flate->stream);
    free(flate);
    __atomic_add_fetch(&count, -1, __ATOMIC_RELAXED);
}

int heddle_flate_reset(struct heddle_flate *flate)
{
    flate->whole = 0;
    return flate->inflates ? inflateReset(&flate->stream) : deflateReset(&flate->stream);
}

/* No object is longer: the caller subtracted and got less than nothing. */
static int impossible(size_t size)
{
    return size > PTRDIFF_MAX;
}

/* zlib's counts have 32 bits, and each of them half of the answer, which has a sign. */
static size_t at_most(size_t size)
{
    return size < INT32_MAX ? size : INT32_MAX;
}

static void lend(z_stream *stream, const uint8_t *from, size_t length, uint8_t *to, size_t room)
{
    /* zlib does not write to its input. */
    stream->next_in = (Bytef *)(uintptr_t)from;
    stream->avail_in = (uInt)length;
    stream->next_out = to;
    stream->avail_out = (uInt)room;
}

/* The memory is the caller's after the call. */
static int64_t taken(z_stream *stream, size_t length, size_t room)
{
    int64_t used = (int64_t)(length - stream->avail_in), made = (int64_t)(room - stream->avail_out);
    stream->next_in = NULL;
    stream->next_out = NULL;
    stream->avail_in = stream->avail_out = 0;
    return used << 32 | made;
}

int64_t heddle_deflate_step(struct heddle_flate *flate, const uint8_t *from, size_t length, uint8_t *to, size_t room,
                            int finish)
{
    z_stream *stream = &flate->stream;
    if (impossible(length) || impossible(room))
        return -1;
    length = at_most(length);
    room = at_most(room);
    lend(stream, from, length, to, room);
    int result = deflate(stream, finish ? Z_SYNC_FLUSH : Z_NO_FLUSH);
    /* Z_BUF_ERROR: nothing was left to do. */
    if (result != Z_OK && result != Z_BUF_ERROR)
        return -1;
    return taken(stream, length, room);
}

int64_t heddle_inflate_step(struct heddle_flate *flate, const uint8_t *from, size_t length, uint8_t *to, size_t room)
{
    z_stream *stream = &flate->stream;
    if (impossible(length) || impossible(room))
        return -1;
    length = at_most(length);
    room = at_most(room);
    lend(stream, from, length, to, room);
    for (;;) {
        int result = inflate(stream, Z_SYNC_FLUSH), ended = result == Z_STREAM_END;
        if (ended) {
            /* A block marked as the last one: more blocks may follow (RFC 7692, section 7.2.3.5). */
            inflateReset(stream);
            if (stream->avail_in && stream->avail_out)
                continue;
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            return -1;
        }
        /*
         * zlib.h on data_type: 128 is set immediately after a block; the low bits count the unused bits of the last byte.
         * A call that can do nothing clears it.
         */
        if (stream->avail_in < length || stream->avail_out < room)
            flate->whole = ended ? stream->avail_in == 0 : (stream->data_type & 128) != 0 && (stream->data_type & 31) == 0;
        return taken(stream, length, room);
    }
}

int heddle_inflate_whole(const struct heddle_flate *flate)
{
    return flate->whole;
}

int64_t heddle_flate_count(void)
{
    return __atomic_load_n(&count, __ATOMIC_RELAXED);
}
