// Timelines of a server that runs: what its cores and threads do, recorded when somebody asks.
//
// GHC's event log runs from the start with a writer that discards, so that the runtime has a buffer for each core. All
// classes of events are off, which costs what a program without a log costs. To record, the log is ended and started
// again with a file to write to, and the classes are switched on; to stop, the same without a file.

#define _GNU_SOURCE
#include "Rts.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The runtime's classes of events, which its scheduler and collector read at each event: they are set from the flags once,
// and no function of the runtime changes them later. Ints in GHC 9.0, bytes in later versions; on a little-endian machine
// their first byte says it in both. Weak, since a runtime in a shared library does not export them.
#define CLASSES(each) each(TRACE_sched) each(TRACE_gc) each(TRACE_spark_sampled) each(TRACE_user) each(TRACE_cap)
#define DECLARE(name) extern unsigned char name __attribute__((weak));
CLASSES(DECLARE)
#define ADDRESS(name) &name,
static unsigned char *const classes[] = {CLASSES(ADDRESS)};
enum { class_count = sizeof classes / sizeof *classes };
static unsigned char wanted[class_count];

// Of heddle-prim: whether Heddle's own markers are written.
extern unsigned char heddle_trace_markers;

static bool available;

// Of the recording: its file (-1: none), its bytes, after how many of these it ends, and why it failed.
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static int file = -1, failure;
static size_t written, most;
static bool begun;

static void set_classes(bool on)
{
  for (int i = 0; i < class_count; i++)
    *classes[i] = on ? wanted[i] : 0;
  heddle_trace_markers = on;
}

// Several cores may call it at once, each with its whole buffer.
static bool keep(void *events, size_t size)
{
  pthread_mutex_lock(&writing);
  const char *from = events;
  // The first that comes has the log's header. Before it may be a mark that the log before has left in the buffer.
  if (file >= 0 && !begun) {
    const char *header = memmem(from, size, "hdrbhetb", 8);
    size -= header ? (size_t)(header - from) : 0;
    from = header ? header : from;
    begun = true;
  }
  for (size_t done = 0; file >= 0 && !failure && done < size;) {
    ssize_t n = write(file, from + done, size - done);
    if (n >= 0)
      done += (size_t)n;
    else if (errno != EINTR)
      failure = errno;
  }
  if (file >= 0) {
    written += size;
    // The other cores' buffers, at most 2 MB each, still come, so that all end at about the same time.
    if (failure || written >= most)
      set_classes(false);
  }
  pthread_mutex_unlock(&writing);
  return true;
}

static const EventLogWriter writer = {NULL, keep, NULL, NULL};

static void restart(int next)
{
  set_classes(false);
  // Writes what the buffers hold to where it belongs.
  endEventLogging();
  file = next;
  begun = false;
  startEventLogging(&writer);
  set_classes(next >= 0);
}

#if __GLASGOW_HASKELL__ < 902
// This version ends a log only while no core runs, as at the end of a collection. Its lock of the buffer that belongs to no core
// is taken here, since threads without a core may write to it.
extern Mutex eventBufMutex;
static atomic_int pending;
static int pending_file;

static void at_collection(const struct GCDetails_ *details)
{
  (void)details;
  if (atomic_load(&pending)) {
    ACQUIRE_LOCK(&eventBufMutex);
    restart(pending_file);
    RELEASE_LOCK(&eventBufMutex);
    atomic_store(&pending, 0);
  }
}

static void restart_safely(int next)
{
  pending_file = next;
  atomic_store(&pending, 1);
  while (atomic_load(&pending))
    performGC();
}
#else
static void restart_safely(int next)
{
  restart(next);
}
#endif

// Whether the user wants a log of the whole run, by +RTS -l or the variable GHCRTS: then there is no other.
static bool logs_already(int argc, char **argv)
{
  const char *variable = getenv("GHCRTS");
  bool ours = false;
  for (int i = 1; i < argc && strcmp(argv[i], "--RTS"); i++)
    if (strcmp(argv[i], "+RTS") == 0)
      ours = true;
    else if (strcmp(argv[i], "-RTS") == 0)
      ours = false;
    else if (ours && (strncmp(argv[i], "-l", 2) == 0 || strncmp(argv[i], "-ol", 3) == 0))
      return true;
  return variable && (strstr(variable, "-l") || strstr(variable, "-ol"));
}

// Before the runtime starts: the options that it needs besides.
const char *heddle_timeline_prepare(int argc, char **argv, RtsConfig *config)
{
  for (int i = 0; i < class_count; i++)
    if (!classes[i])
      return "";
  if (logs_already(argc, argv))
    return "";
  available = true;
  config->eventlog_writer = &writer;
#if __GLASGOW_HASKELL__ < 902
  config->gcDoneHook = at_collection;
#endif
  return " -l";
}

// After the runtime has started, and before any thread runs.
void heddle_timeline_ready(void)
{
  if (!available)
    return;
  for (int i = 0; i < class_count; i++)
    wanted[i] = *classes[i];
  set_classes(false);
}

// A file in memory that is being recorded to from now on, or minus an error number: ENOSYS if there can be none.
int heddle_timeline_start(size_t limit)
{
  if (!available)
    return -ENOSYS;
  int fd = memfd_create("heddle-timeline", MFD_CLOEXEC);
  if (fd < 0)
    return -errno;
  failure = 0;
  written = 0;
  most = limit;
  restart_safely(fd);
  return fd;
}

// Whether the recording has ended, for it is as long as it may be or cannot be written.
int heddle_timeline_over(void)
{
  pthread_mutex_lock(&writing);
  int over = failure || written >= most;
  pthread_mutex_unlock(&writing);
  return over;
}

// End the recording: its bytes, or minus an error number.
long heddle_timeline_stop(void)
{
  restart_safely(-1);
  return failure ? -failure : (long)written;
}
