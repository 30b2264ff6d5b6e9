/*
 * What heddle-serve needs of files besides heddle-prim: opening through symbolic links, reading a directory in one call,
 * and compressing. The functions that read a disk or compress are called as safe foreign calls.
 */
#define _GNU_SOURCE
#include <brotli/encode.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/* Symbolic links may lead anywhere; those of /proc that name no path may not. */
long heddle_open_following(int root, const char *path, int flags, int cached)
{
    struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_NO_MAGICLINKS | (cached ? RESOLVE_CACHED : 0) };
    long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    return fd < 0 ? -(long)errno : fd;
}

/*
 * Where a path that RESOLVE_BENEATH refuses leads beneath the root: a symbolic link in it is absolute, or climbs above the root and comes
 * back. Nothing is opened for reading here. The caller opens the place beneath the root by its own path, so a link that is changed
 * meanwhile cannot lead out. The answer is the length of the place; -EXDEV if it is outside, or there is no /proc to ask.
 */
long heddle_place_within(int root, const char *path, char *place, size_t most)
{
    struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
    char name[32], top[PATH_MAX], full[PATH_MAX];
    long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd < 0) return -(long)errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", (int)fd);
    ssize_t n = readlink(name, full, sizeof full);
    close((int)fd);
    snprintf(name, sizeof name, "/proc/self/fd/%d", root);
    ssize_t t = readlink(name, top, sizeof top);
    if (n <= 0 || t <= 0 || n == sizeof full || t == sizeof top) return -EXDEV;
    if (t == 1) t = 0;
    if (n == t && !memcmp(full, top, (size_t)t)) return most ? (*place = '.', 1) : -ENAMETOOLONG;
    if (n < t + 2 || memcmp(full, top, (size_t)t) || full[t] != '/') return -EXDEV;
    size_t length = (size_t)(n - t - 1);
    if (length > most) return -ENAMETOOLONG;
    memcpy(place, full + t + 1, length);
    return (long)length;
}

/*
 * The entries of a directory, at most this many, in one block of memory that heddle_free_list frees: for each the kind
 * (0 a file, 1 a directory, 2 a symbolic link), whether it may be read, the length of the name (two bytes, lowest first), size and time of
 * modification (eight bytes each, in the processor's order), the name. Other kinds are left out, and what has gone
 * meanwhile. The answer is the block's length, or minus the error number. The descriptor stays open.
 */
#define RECORD 20

int64_t heddle_list_directory(int directory, int64_t most, uint8_t **list, int64_t *left_out)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -(int64_t)errno;
    DIR *stream = fdopendir(fd);
    if (!stream) {
        int e = errno;
        close(fd);
        return -(int64_t)e;
    }
    size_t used = 0, room = 16384;
    uint8_t *block = malloc(room);
    int64_t count = 0;
    *left_out = 0;
    struct dirent *entry;
    while (block && (entry = readdir(stream))) {
        size_t length = strlen(entry->d_name);
        if (length > 0xffff || !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (count == most) {
            *left_out += 1;
            continue;
        }
        struct stat s;
        if (fstatat(fd, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) < 0) continue;
        int kind = S_ISREG(s.st_mode) ? 0 : S_ISDIR(s.st_mode) ? 1 : S_ISLNK(s.st_mode) ? 2 : -1;
        if (kind < 0) continue;
        if (used + RECORD + length > room) {
            room = 2 * room + RECORD + length;
            uint8_t *larger = realloc(block, room);
            if (!larger) free(block);
            block = larger;
            if (!block) break;
        }
        uint8_t *p = block + used;
        int64_t size = s.st_size, seconds = s.st_mtim.tv_sec;
        p[0] = (uint8_t)kind;
        p[1] = kind == 2 || faccessat(fd, entry->d_name, R_OK, AT_EACCESS) == 0;
        p[2] = (uint8_t)length;
        p[3] = (uint8_t)(length >> 8);
        memcpy(p + 4, &size, 8);
        memcpy(p + 12, &seconds, 8);
        memcpy(p + RECORD, entry->d_name, length);
        used += RECORD + length;
        count++;
    }
    closedir(stream);
    *list = block;
    return block ? (int64_t)used : -(int64_t)ENOMEM;
}

void heddle_free_list(uint8_t *list) { free(list); }

/* Compress in one piece, by coding: 0 br, 1 zstd, 2 gzip. The length, or -1 when it does not fit the room. */
int64_t heddle_compress(int coding, const uint8_t *in, int64_t length, uint8_t *out, int64_t room)
{
    if (coding == 0) {
        size_t n = (size_t)room;
        return BrotliEncoderCompress(5, 22, BROTLI_MODE_GENERIC, (size_t)length, in, &n, out) ? (int64_t)n : -1;
    }
    if (coding == 1) {
        size_t n = ZSTD_compress(out, (size_t)room, in, (size_t)length, 6);
        return ZSTD_isError(n) ? -1 : (int64_t)n;
    }
    z_stream z = { 0 };
    /* 15 bits of window, and gzip's framing rather than zlib's. */
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return -1;
    z.next_in = (Bytef *)in;
    z.avail_in = (uInt)length;
    z.next_out = out;
    z.avail_out = (uInt)room;
    int r = deflate(&z, Z_FINISH);
    int64_t n = r == Z_STREAM_END ? (int64_t)z.total_out : -1;
    deflateEnd(&z);
    return n;
}
