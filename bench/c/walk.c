/*
 * The floor of a directory walk: prints every path below the given ones, and them, depth first in the
 * directories' own order.
 *
 *   walk [PATH...] [-name NAME]
 *
 * With -name, only the paths whose last component is NAME, literally. Links are not followed. Each
 * directory costs openat, getdents64 until it answers 0, and close: what is a directory is read from
 * d_type. A directory is read whole into one growing stack of entries, above those of its parents, and
 * into 64 KiB at a time, so small directories share a few hot pages. One output buffer, written when full.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

enum { READ_SIZE = 65536, OUT_SIZE = 65536 };

/* Address space for the entries of one whole path of directories; only what is used is ever touched. */
static const size_t STACK_SIZE = (size_t)1 << 34;

struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

static char *stack, *top;
static char *path;
static size_t path_room = 1 << 16;
static char out[OUT_SIZE];
static size_t out_used;
static const char *wanted;
static size_t wanted_length;
static int status;

static void flush(void)
{
    for (size_t done = 0; done < out_used;) {
        ssize_t wrote = write(STDOUT_FILENO, out + done, out_used - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            die("write");
        done += wrote;
    }
    out_used = 0;
}

/* Prints the first bytes of the path, whose last component may have to be the wanted one. */
static inline void put_path(size_t length, const char *name, size_t name_length)
{
    if (wanted && (name_length != wanted_length || memcmp(name, wanted, name_length) != 0))
        return;
    if (out_used + length + 1 > OUT_SIZE)
        flush();
    if (length + 1 > OUT_SIZE) {
        fprintf(stderr, "walk: a path of %zu bytes is longer than the output buffer\n", length);
        exit(1);
    }
    memcpy(out + out_used, path, length);
    out_used += length;
    out[out_used++] = '\n';
}

static void complain(size_t length)
{
    fprintf(stderr, "walk: %.*s: %s\n", (int)length, path, strerror(errno));
    status = 1;
}

/* Walks the directory at the path's first bytes, which at this parent has this name. */
static void walk(int parent, const char *name, size_t length)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        complain(length);
        return;
    }
    char *const first = top;
    for (;;) {
        if (top + READ_SIZE > stack + STACK_SIZE) {
            fprintf(stderr, "walk: too many entries\n");
            exit(1);
        }
        long got = syscall(SYS_getdents64, fd, top, READ_SIZE);
        if (got < 0)
            complain(length);
        if (got <= 0)
            break;
        top += got;
    }
    char *const end = top;
    if (length == 0 || path[length - 1] != '/')
        path[length++] = '/';
    for (char *at = first; at < end;) {
        const struct entry *entry = (const struct entry *)at;
        const char *child = entry->name;
        at += entry->length;
        if (child[0] == '.' && (child[1] == 0 || (child[1] == '.' && child[2] == 0)))
            continue;
        size_t child_length = strlen(child), whole = length + child_length;
        if (whole + 2 > path_room) {
            path = realloc(path, path_room *= 2);
            if (!path)
                die("realloc");
        }
        memcpy(path + length, child, child_length);
        put_path(whole, child, child_length);
        bool directory = entry->type == DT_DIR;
        if (entry->type == DT_UNKNOWN) {
            struct stat about;
            directory = fstatat(fd, child, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
        }
        if (directory)
            walk(fd, child, whole);
    }
    top = first;
    close(fd);
}

static void walk_root(const char *root)
{
    size_t length = strlen(root);
    if (length + 2 > path_room) {
        fprintf(stderr, "walk: a path of %zu bytes is too long\n", length);
        exit(1);
    }
    memcpy(path, root, length);
    size_t name_end = length;
    while (name_end > 1 && root[name_end - 1] == '/')
        name_end--;
    size_t name_start = name_end;
    while (name_start > 0 && root[name_start - 1] != '/')
        name_start--;
    struct stat about;
    if (lstat(root, &about) < 0) {
        complain(length);
        return;
    }
    put_path(length, root + name_start, name_end - name_start);
    if (S_ISDIR(about.st_mode))
        walk(AT_FDCWD, root, length);
}

int main(int argc, char **argv)
{
    int roots = argc;
    if (argc >= 3 && strcmp(argv[argc - 2], "-name") == 0) {
        wanted = argv[argc - 1];
        wanted_length = strlen(wanted);
        roots = argc - 2;
    }
    stack = top = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    path = malloc(path_room);
    if (stack == MAP_FAILED || !path)
        die("memory");
    raise_descriptors(4096);
    if (roots == 1)
        walk_root(".");
    for (int i = 1; i < roots; i++)
        walk_root(argv[i]);
    flush();
    return status;
}
