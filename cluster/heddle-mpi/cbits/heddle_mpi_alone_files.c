/*
 * The world of one process: files, with POSIX calls.
 *
 * A view is a region like that of a buffer in memory, repeated as far as offsets go; a transfer walks over both.
 * Transfers that use a pointer hold the file's lock, for they move it by what was transferred; those at an offset
 * go on beside each other, unless the file is atomic.
 */
#define _GNU_SOURCE
#include "heddle_mpi_alone.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct file {
  struct object object;
  pthread_mutex_t lock;
  int descriptor, mode;
  char *path;
  bool atomic;
  struct region view;
  int64_t element;      /* its bytes */
  int64_t own, shared;  /* the pointers, in elements */
};

/* Pieces of memory that one system call takes, and its bytes: Linux has 1024, and a little less than 2 GiB. */
enum { PIECES = 64, MOST_BYTES = 1 << 30 };

/* Errors. */

static int class_of(int error)
{
  switch (error) {
    case ENOENT: return C_NO_SUCH_FILE;
    case EEXIST: return C_FILE_EXISTS;
    case EACCES: case EPERM: return C_ACCESS;
    case ENOSPC: return C_NO_SPACE;
    case EDQUOT: return C_QUOTA;
    case EROFS: return C_READ_ONLY;
    case EBUSY: case ETXTBSY: return C_FILE_IN_USE;
    case EISDIR: case ENOTDIR: case ENAMETOOLONG: case ELOOP: return C_BAD_FILE;
    case ENOMEM: return NO_MEMORY;
    default: return C_IO;
  }
}

static int failed_with(int error, const char *path)
{
  char text[128];
  heddle_mpi_set_detail("%s: %s", path, strerror_r(error, text, sizeof text));
  return class_of(error);
}

static int failed(const char *path)
{
  return failed_with(errno, path);
}

static int wrong(const struct file *file, int code, const char *why)
{
  heddle_mpi_set_detail("%s: %s", file->path, why);
  return code;
}

/* Views. */

/* The bytes that a type shows of a file, from an offset on. */
static int view_of(native handle, int64_t offset, struct region *view)
{
  const struct type *type = alone_type(handle);
  if (!type) return C_TYPE;
  if (offset < 0) return C_ARG;
  if (type->size > 0 && (type->extent <= 0 || alone_low(&type->run) < 0)) return C_ARG;
  /* Half of what fits: no offset is near the greatest, so that none of their sums is too great. */
  int64_t step = type->size > type->extent ? type->size : type->extent;
  int64_t count = step > 0 ? (INT64_MAX - offset) / 2 / step : 0;
  int code = alone_region("", count, handle, view);
  view->base = 0;
  view->whole.offset += offset;
  return code;
}

/* The position in the view of an element, if so many bytes of the view are from there on. */
static int reach(const struct file *file, int64_t element, int64_t bytes, int64_t *position)
{
  if (element < 0) return C_ARG;
  if (bytes % file->element != 0) return wrong(file, C_ARG, "a part of an element of the view");
  if (__builtin_mul_overflow(element, file->element, position)) return TOO_LARGE;
  if (bytes == 0) return 0;
  if (file->view.total == 0) return wrong(file, C_ARG, "the view shows nothing of the file");
  return *position > file->view.total - bytes ? TOO_LARGE : 0;
}

/* The first element of the view that begins at the end of the file or behind it. */
static int64_t first_behind(const struct file *file, int64_t size)
{
  int64_t low = 0, high = file->view.total / file->element;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (alone_cursor(&file->view, middle * file->element).at < size) low = middle + 1; else high = middle;
  }
  return low;
}

/* Opening and closing. */

static struct file *file_of(native handle)
{
  return alone_object(handle, A_FILE);
}

static int check_mode(int mode)
{
  const int both = F_READ | F_WRITE, all = 2 * F_APPEND - 1;
  if ((mode & ~all) || !(mode & both)) return C_AMODE;
  if (!(mode & F_WRITE) && (mode & (F_CREATE | F_EXCLUSIVE))) return C_AMODE;
  return (mode & both) == both && (mode & F_SEQUENTIAL) ? C_AMODE : 0;
}

static int open_flags(int mode)
{
  int flags = O_CLOEXEC | (!(mode & F_WRITE) ? O_RDONLY : mode & F_READ ? O_RDWR : O_WRONLY);
  if (mode & F_CREATE) flags |= O_CREAT | (mode & F_EXCLUSIVE ? O_EXCL : 0);
  return flags;
}

static int open_descriptor(struct file *file)
{
  struct stat about;
  do
    file->descriptor = open(file->path, open_flags(file->mode), 0666);
  while (file->descriptor < 0 && errno == EINTR);
  if (file->descriptor < 0 || fstat(file->descriptor, &about) < 0) return failed(file->path);
  if (S_ISDIR(about.st_mode)) return failed_with(EISDIR, file->path);
  if (!(file->mode & F_APPEND)) return 0;
  file->own = file->shared = about.st_size;
  /* A pipe has no end, and needs none. */
  if ((file->mode & F_SEQUENTIAL) && lseek(file->descriptor, 0, SEEK_END) < 0 && errno != ESPIPE)
    return failed(file->path);
  return 0;
}

/* What is deleted when it is closed may be closed in another directory. */
static void make_path_absolute(struct file *file)
{
  char *absolute = realpath(file->path, 0);
  if (!absolute) return;
  free(file->path);
  file->path = absolute;
}

static int set_up(struct file *file, const char *path)
{
  file->path = strdup(path);
  file->element = 1;
  if (!file->path) return NO_MEMORY;
  int code = view_of((native)alone_element(E_BYTE), 0, &file->view);
  if (!code) code = open_descriptor(file);
  if (!code && (file->mode & F_DELETE)) make_path_absolute(file);
  return code;
}

static int file_open(native comm, const char *path, int mode, const char *const *hints, int hint_count, native *made)
{
  (void)hints, (void)hint_count; /* They are no more than hints. */
  if (!alone_comm(comm)) return C_COMM;
  int code = check_mode(mode);
  if (code) return code;
  struct file *file = alone_new(A_FILE, sizeof *file, 0);
  if (!file) return NO_MEMORY;
  pthread_mutex_init(&file->lock, 0);
  file->descriptor = -1;
  file->mode = mode;
  code = set_up(file, path);
  if (code) {
    file->mode &= ~F_DELETE;
    alone_free(file);
    return code;
  }
  *made = (native)file;
  return 0;
}

static int close_descriptor(struct file *file)
{
  int descriptor = file->descriptor, code = 0;
  file->descriptor = -1;
  if (descriptor < 0) return 0;
  /* Linux has closed it even if it says EINTR. */
  if (close(descriptor) < 0 && errno != EINTR) code = failed(file->path);
  if ((file->mode & F_DELETE) && unlink(file->path) < 0 && !code) code = failed(file->path);
  return code;
}

void alone_clear_file(struct object *object)
{
  struct file *file = (struct file *)object;
  close_descriptor(file);
  alone_region_drop(&file->view);
  pthread_mutex_destroy(&file->lock);
  free(file->path);
}

static int file_close(native *handle)
{
  struct file *file = file_of(*handle);
  if (!file) return C_FILE;
  int code = close_descriptor(file);
  alone_free(file);
  *handle = 0;
  return code;
}

static int file_delete(const char *path)
{
  return unlink(path) < 0 ? failed(path) : 0;
}

/* The file as a whole. */

/* A file with offsets, which one in sequential mode has not. */
static int with_offsets(native handle, struct file **file)
{
  *file = file_of(handle);
  if (!*file) return C_FILE;
  return (*file)->mode & F_SEQUENTIAL ? wrong(*file, C_UNSUPPORTED_OPERATION, "it is in sequential mode") : 0;
}

static int size_of(const struct file *file, int64_t *bytes)
{
  struct stat about;
  if (fstat(file->descriptor, &about) < 0) return failed(file->path);
  *bytes = about.st_size;
  return 0;
}

static int file_size(native handle, int64_t *bytes)
{
  struct file *file;
  int code = with_offsets(handle, &file);
  return code ? code : size_of(file, bytes);
}

/* Each returns 0 or the number of the error. */
static int truncate_to(int descriptor, int64_t bytes)
{
  return ftruncate(descriptor, bytes) < 0 ? errno : 0;
}

static int allocate_to(int descriptor, int64_t bytes)
{
  return bytes > 0 ? posix_fallocate(descriptor, 0, bytes) : 0;
}

static int file_resize(native handle, int64_t bytes, int preallocate)
{
  struct file *file;
  int error, code = with_offsets(handle, &file);
  if (code) return code;
  if (bytes < 0) return C_ARG;
  if (!(file->mode & F_WRITE)) return wrong(file, C_READ_ONLY, "it is open only for reading");
  do
    error = preallocate ? allocate_to(file->descriptor, bytes) : truncate_to(file->descriptor, bytes);
  while (error == EINTR);
  return error ? failed_with(error, file->path) : 0;
}

static int file_sync(native handle)
{
  const struct file *file = file_of(handle);
  if (!file) return C_FILE;
  int result;
  do
    result = fsync(file->descriptor);
  while (result < 0 && errno == EINTR);
  /* EINVAL: a pipe or the like, of which nothing can be kept. */
  return result < 0 && errno != EINVAL ? failed(file->path) : 0;
}

static int file_atomic(native handle, int yes)
{
  struct file *file = file_of(handle);
  if (!file) return C_FILE;
  pthread_mutex_lock(&file->lock);
  file->atomic = yes != 0;
  pthread_mutex_unlock(&file->lock);
  return 0;
}

static bool shows_everything(const struct type *type)
{
  return !type->run.child && type->run.count == 1 && type->run.offset == 0 && type->size == type->extent;
}

static int check_view(const struct file *file, int64_t offset, const struct type *element, const struct type *view)
{
  if (!element || !view || element->size == 0) return C_TYPE;
  if (view->size % element->size != 0) return wrong(file, C_ARG, "a view has to consist of whole elements");
  if ((file->mode & F_SEQUENTIAL) && (offset != 0 || !shows_everything(view)))
    return wrong(file, C_UNSUPPORTED_OPERATION, "in sequential mode a view has to show everything");
  return 0;
}

static int file_view(native handle, int64_t offset_bytes, native element, native type)
{
  struct file *file = file_of(handle);
  struct region view;
  if (!file) return C_FILE;
  int code = check_view(file, offset_bytes, alone_type(element), alone_type(type));
  if (!code) code = view_of(type, offset_bytes, &view);
  if (code) return code;
  pthread_mutex_lock(&file->lock);
  alone_region_drop(&file->view);
  file->view = view;
  file->element = alone_type(element)->size;
  file->own = file->shared = 0;
  pthread_mutex_unlock(&file->lock);
  return 0;
}

/* Pointers. */

static int seek_from(const struct file *file, int whence, int64_t pointer, int64_t *from)
{
  int64_t size = 0;
  int code = 0;
  switch (whence) {
    case 0: *from = 0; return 0;
    case 1: *from = pointer; return 0;
    case 2:
      code = size_of(file, &size);
      if (!code) *from = first_behind(file, size);
      return code;
    default: return C_ARG;
  }
}

static int file_seek(native handle, int64_t by, int whence, int shared)
{
  struct file *file;
  int64_t from;
  int code = with_offsets(handle, &file);
  if (code) return code;
  pthread_mutex_lock(&file->lock);
  int64_t *pointer = shared ? &file->shared : &file->own;
  code = seek_from(file, whence, *pointer, &from);
  if (!code && (__builtin_add_overflow(from, by, &from) || from < 0)) code = C_ARG;
  if (!code) *pointer = from;
  pthread_mutex_unlock(&file->lock);
  return code;
}

static int file_tell(native handle, int shared, int64_t *offset)
{
  struct file *file;
  int code = with_offsets(handle, &file);
  if (code) return code;
  pthread_mutex_lock(&file->lock);
  *offset = shared ? file->shared : file->own;
  pthread_mutex_unlock(&file->lock);
  return 0;
}

static int file_byte(native handle, int64_t offset, int64_t *byte)
{
  struct file *file;
  int64_t position;
  int code = with_offsets(handle, &file);
  if (code) return code;
  pthread_mutex_lock(&file->lock);
  code = reach(file, offset, file->element, &position);
  if (!code) *byte = alone_cursor(&file->view, position).at;
  pthread_mutex_unlock(&file->lock);
  return code;
}

/* Transfers. */

/* The pieces of memory that make up the next bytes, `most` at most. */
static int gather(struct cursor memory, int64_t most, struct iovec *pieces)
{
  int count = 0;
  if (most > MOST_BYTES) most = MOST_BYTES;
  while (count < PIECES && most > 0 && memory.position < memory.region->total) {
    int64_t step = memory.left < most ? memory.left : most;
    pieces[count++] = (struct iovec){.iov_base = memory.region->base + memory.at, .iov_len = (size_t)step};
    most -= step;
    alone_advance(&memory, step);
  }
  return count;
}

static ssize_t call(const struct file *file, bool write, const struct iovec *pieces, int count, off_t at)
{
  if (file->mode & F_SEQUENTIAL)
    return write ? writev(file->descriptor, pieces, count) : readv(file->descriptor, pieces, count);
  return write ? pwritev(file->descriptor, pieces, count, at) : preadv(file->descriptor, pieces, count, at);
}

static void skip(struct cursor *cursor, int64_t bytes)
{
  while (bytes > 0) {
    int64_t step = bytes < cursor->left ? bytes : cursor->left;
    alone_advance(cursor, step);
    bytes -= step;
  }
}

/* Until all is transferred, or the file ends. */
static int transfer(const struct file *file, bool write, const struct region *memory, const struct region *view,
                    int64_t position, int64_t *bytes)
{
  struct cursor from = alone_cursor(memory, 0), to = alone_cursor(view, position);
  struct iovec pieces[PIECES];
  int code = 0;
  while (from.position < memory->total) {
    ssize_t moved = call(file, write, pieces, gather(from, to.left, pieces), to.at);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) code = failed(file->path);
    if (moved == 0 && write) code = wrong(file, C_IO, "nothing could be written");
    if (moved <= 0) break;
    skip(&from, moved);
    alone_advance(&to, moved);
  }
  *bytes = from.position;
  return code;
}

/* Returns what is wrong with the arguments; `status` gets what became of the transfer. */
static int perform(struct file *file, bool write, int place, int64_t offset, const struct region *memory,
                   heddle_mpi_status *status)
{
  int64_t position;
  pthread_mutex_lock(&file->lock);
  const struct region view = file->view;
  int64_t *pointer = place == P_OWN ? &file->own : place == P_SHARED ? &file->shared : &offset;
  int code = reach(file, *pointer, memory->total, &position);
  bool locked = code || place != P_AT || file->atomic;
  if (!code) {
    alone_region_hold(&view);
    if (!locked) pthread_mutex_unlock(&file->lock);
    status->error = transfer(file, write, memory, &view, position, &status->bytes);
    if (place != P_AT) *pointer += status->bytes / file->element;
    alone_region_drop(&view);
  }
  if (locked) pthread_mutex_unlock(&file->lock);
  return code;
}

static int check_transfer(const struct file *file, bool write, int place)
{
  if (!file) return C_FILE;
  if (write && !(file->mode & F_WRITE)) return wrong(file, C_READ_ONLY, "it is open only for reading");
  if (!write && !(file->mode & F_READ)) return wrong(file, C_ACCESS, "it is open only for writing");
  if (place != P_AT && place != P_OWN && place != P_SHARED) return C_ARG;
  if ((file->mode & F_SEQUENTIAL) && place != P_SHARED)
    return wrong(file, C_UNSUPPORTED_OPERATION, "in sequential mode only the shared pointer can be used");
  return 0;
}

static int file_transfer(native handle, int write, int place, int together, int64_t offset, void *data, int64_t count,
                         native type, native *request, heddle_mpi_status *status)
{
  (void)together;
  struct region memory;
  struct file *file = file_of(handle);
  heddle_mpi_status result = alone_no_status;
  int code = check_transfer(file, write, place);
  if (!code) code = alone_region(data, count, type, &memory);
  if (code) return code;
  /* First what may fail for want of memory: then no bytes have moved yet, and no pointer. */
  native done = 0;
  if (request) code = alone_done(&result, &done);
  if (!code) code = perform(file, write, place, offset, &memory, &result);
  alone_region_drop(&memory);
  if (code) {
    if (done) alone_free((void *)done);
    return code;
  }
  if (request) {
    alone_set_status(done, &result);
    *request = done;
    return 0;
  }
  if (status) *status = result;
  return result.error;
}

void alone_offer_files(struct heddle_mpi_calls *calls)
{
  calls->file_open = file_open;
  calls->file_close = file_close;
  calls->file_delete = file_delete;
  calls->file_size = file_size;
  calls->file_resize = file_resize;
  calls->file_sync = file_sync;
  calls->file_atomic = file_atomic;
  calls->file_view = file_view;
  calls->file_seek = file_seek;
  calls->file_tell = file_tell;
  calls->file_byte = file_byte;
  calls->file_transfer = file_transfer;
}
