/* The temporary file of Heddle.Gateway.Content.
 *
 * It never has a name that another process could open, or that a crash would leave behind: O_TMPFILE, and where the file
 * system lacks that (NFS, overlayfs before Linux 6.3), a name that is removed at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int open_in(const char *directory)
{
  char path[4096];
  int fd;

  do
    fd = open(directory, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  while (fd < 0 && errno == EINTR);
  if (fd >= 0 || errno != EOPNOTSUPP)
    return fd;
  if (snprintf(path, sizeof path, "%s/heddle-XXXXXX", directory) >= (int)sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0)
    unlink(path);
  return fd;
}

/* A new file in $TMPDIR, or without that variable in /var/tmp or else in /tmp: its descriptor, or minus the error number.
 * Either way where is the directory that was tried last, which stays valid as long as the environment does. */
long heddle_temporary_file(const char **where)
{
  int fd;

  *where = getenv("TMPDIR");
  if (*where && **where) {
    fd = open_in(*where);
    return fd < 0 ? -errno : fd;
  }
  *where = "/var/tmp";
  fd = open_in(*where);
  if (fd < 0) {
    *where = "/tmp";
    fd = open_in(*where);
  }
  return fd < 0 ? -errno : fd;
}
