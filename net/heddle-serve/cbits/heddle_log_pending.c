/*
 * The file in which lines wait: opening it, its memory, and the note of a write that is under way. The lock is one of the open
 * file (flock), so the kernel releases it when the process ends, however that happens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A descriptor of the file, locked, or minus the error number. Links are refused, because who may write to the directory could
 * have made one to a file of somebody else's.
 */
int heddle_pending_open(const char *path, int create)
{
    for (int again = 100;; again--) {
        struct stat opened, named;
        int error = 0, fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | (create ? O_CREAT : 0), 0600);
        if (fd < 0) return -errno;
        if (fstat(fd, &opened) < 0) error = errno;
        else if (!S_ISREG(opened.st_mode)) error = EINVAL;
        else if (flock(fd, LOCK_EX | LOCK_NB) < 0) error = errno;
        /* The process that had the lock may have removed the file since it was opened. */
        else if (lstat(path, &named) < 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev) error = ESTALE;
        else if (named.st_nlink != 1) error = EMLINK;
        if (!error) return fd;
        close(fd);
        if (error != ESTALE || again == 0) return -error;
    }
}

/* Cut the file to nothing, and give it this size, with its blocks, so that no store meets a full disk. */
int heddle_pending_size(int fd, int64_t size)
{
    int error = ftruncate(fd, 0) < 0 ? errno : size ? posix_fallocate(fd, 0, size) : 0;
    if (error && size && ftruncate(fd, 0) < 0) return -error;
    return -error;
}

/* Unlock and close a file into whose memory nobody stores any more. Closing alone does not unlock it while it is mapped. */
void heddle_pending_release(int fd)
{
    flock(fd, LOCK_UN);
    close(fd);
}

void *heddle_pending_map(int fd, int64_t size)
{
    void *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* A finalizer; its environment is the size. */
void heddle_pending_unmap(int64_t *size, void *p)
{
    munmap(p, (size_t)*size);
    free(size);
}

/* A descriptor to append to a file that is no link, or minus the error number. */
int heddle_pending_append(const char *path)
{
    struct stat file;
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return -errno;
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 1) return fd;
    close(fd);
    return -EMLINK;
}

enum { current = 16, slots = 24, slot_words = 8 };

/*
 * Two slots, so that a note replaces another one by a single store. A process that is killed has executed the stores before that
 * point and none after it, so only the compiler must keep their order.
 */
void heddle_pending_note(int64_t *words, int64_t ring, int64_t device, int64_t inode, int64_t size, int64_t begin, int64_t length)
{
    int64_t next = words[current] == 1 ? 2 : 1, *slot = words + slots + slot_words * (next - 1);
    slot[0] = ring;
    slot[1] = device;
    slot[2] = inode;
    slot[3] = size;
    slot[4] = begin;
    slot[5] = length;
    __atomic_store_n(&words[current], next, __ATOMIC_RELEASE);
}

void heddle_pending_clear(int64_t *words)
{
    __atomic_store_n(&words[current], 0, __ATOMIC_RELEASE);
}
