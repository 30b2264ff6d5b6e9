// Shell commands that are running, so that they end with the program: a shell that is sent a signal leaves the programs that
// it started behind. Everything here may be called in a handler of a signal.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define DEEPEST 32

static char *decimal(char *at, pid_t value)
{
  char digits[12];
  int n = 0;
  do
    digits[n++] = '0' + value % 10;
  while (value /= 10);
  while (n > 0)
    *at++ = digits[--n];
  return at;
}

static char *text(char *at, const char *from)
{
  while (*from)
    *at++ = *from++;
  return at;
}

static void end_tree(pid_t pid, int number, int depth);

// Send a signal to the children of a thread, and to all that descend from them.
static void end_children(pid_t pid, pid_t thread, int number, int depth)
{
  char path[64], *end = path;
  end = decimal(text(end, "/proc/"), pid);
  end = decimal(text(end, "/task/"), thread);
  *text(end, "/children") = 0;
  int list = depth < DEEPEST ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (list < 0)
    return;
  char block[256];
  pid_t child = 0;
  ssize_t n;
  while ((n = read(list, block, sizeof block)) > 0)
    for (ssize_t i = 0; i < n; i++) {
      if (block[i] >= '0' && block[i] <= '9') {
        child = 10 * child + (block[i] - '0');
      } else if (child > 0) {
        end_tree(child, number, depth + 1);
        child = 0;
      }
    }
  close(list);
}

static void end_tree(pid_t pid, int number, int depth)
{
  // Stopped, it starts no more programs while its children are looked for.
  if (kill(pid, SIGSTOP) < 0)
    return;
  end_children(pid, pid, number, depth);
  kill(pid, number);
  kill(pid, SIGCONT);
}

// Send a signal to a process and to all that descend from it.
void heddle_command_end(pid_t pid, int number)
{
  if (pid > 1)
    end_tree(pid, number, 0);
}

// What getdents64 fills in; the C library's readdir must not be called in a handler.
struct entry {
  uint64_t inode;
  int64_t next;
  uint16_t length;
  uint8_t type;
  char name[];
};

// Send a signal to all that descend from this process.
void heddle_commands_end(int number)
{
  int threads = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (threads < 0)
    return;
  _Alignas(struct entry) char block[1024];
  long n;
  while ((n = syscall(SYS_getdents64, threads, block, sizeof block)) > 0)
    for (long at = 0; at < n; at += ((struct entry *)(block + at))->length) {
      pid_t thread = 0;
      for (const char *digit = ((struct entry *)(block + at))->name; *digit >= '0' && *digit <= '9'; digit++)
        thread = 10 * thread + (*digit - '0');
      if (thread > 0)
        end_children(getpid(), thread, number, 0);
    }
  close(threads);
}
