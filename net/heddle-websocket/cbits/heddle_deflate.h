/*
 * permessage-deflate (RFC 7692) by zlib. A compressor or decompressor serves one message after another and forgets each.
 *
 * The steps answer with the number of input bytes used in the high 32 bits and that of output bytes written in the low
 * 32, or with -1. Of a length or a room from 2 GiB on they use the first 2 GiB - 1; to one that was negative, as a signed
 * number, they answer -1 and touch nothing. Nothing sleeps; callers that hold a capability pass little at a time.
 */
#ifndef HEDDLE_DEFLATE_H
#define HEDDLE_DEFLATE_H

#include <stddef.h>
#include <stdint.h>

struct heddle_flate;

/* Level 1 to 9, window of 2^bits bytes, 9 to 15; NULL if memory is short. About 2^(bits+2) + 2^17 bytes. */
struct heddle_flate *heddle_deflater(int level, int bits);

/* NULL if memory is short. About 40 KB; any window of up to 32 KB. */
struct heddle_flate *heddle_inflater(void);

void heddle_flate_free(struct heddle_flate *flate);

/* Begin a message. */
int heddle_flate_reset(struct heddle_flate *flate);

/*
 * Compresses a piece of a message. After the last piece it is called with finish = 1 until it writes less than there is
 * room for: the message is then complete, with the four bytes at its end that the sender removes.
 */
int64_t heddle_deflate_step(struct heddle_flate *flate, const uint8_t *from, size_t length, uint8_t *to, size_t room,
                            int finish);

/* Decompresses a piece of a message; -1 if it is malformed. */
int64_t heddle_inflate_step(struct heddle_flate *flate, const uint8_t *from, size_t length, uint8_t *to, size_t room);

/*
 * Is the message complete that was given to the decompressor? 1 after the four bytes that the sender has removed, if
 * they end a block, and before them if a block marked as the last one came last: then they are not to be given.
 */
int heddle_inflate_whole(const struct heddle_flate *flate);

/* How many compressors and decompressors exist. */
int64_t heddle_flate_count(void);

#endif
