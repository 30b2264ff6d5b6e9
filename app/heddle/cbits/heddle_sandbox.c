// Gives up rights that the server does not need: which files (Landlock), which system calls (seccomp).
//
// Landlock restricts the thread that asks for it and those that it starts, so this runs before the runtime system has
// any. What to allow is known only after the options have been read, in Haskell: that process writes the rules into a file
// in memory and executes its program again, which finds them here.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// The numbers of Landlock, which are one kernel's interface and not one header's: Debian 12's does not have all.
enum { landlock_create = 444, landlock_add = 445, landlock_restrict = 446 };
enum {
  may_execute = 1 << 0,
  may_write = 1 << 1,
  may_read = 1 << 2,
  may_list = 1 << 3,
  may_remove_file = 1 << 5,
  may_make_file = 1 << 8,
  may_make_socket = 1 << 9,
  may_truncate = 1 << 14,
  all_of_version_1 = (1 << 13) - 1,
  may_rename_across = 1 << 13,
  may_control_devices = 1 << 15,
};
struct rules {
  uint64_t files, network, scopes;
};
struct __attribute__((packed)) path_rule {
  uint64_t allowed;
  int32_t directory;
};

// Of heddle-tls: load libssl, whose files the rules need not allow; without it, whoever needs it says so.
extern int heddle_tls_load(char text[256]);

// Landlock's version, or 0.
int heddle_sandbox_landlock(void)
{
  long version = syscall(landlock_create, NULL, 0, 1);
  return version < 0 ? 0 : (int)version;
}

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#endif

// Calls that neither a web server nor a program behind it needs, and that help whoever has taken it over: debugging other
// processes, mounts, namespaces, modules, keys, the clock, and io_uring, which seccomp does not see into.
static const int refused[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_pidfd_getfd, SYS_perf_event_open, SYS_bpf,
    SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_mount, SYS_umount2, SYS_pivot_root,
    SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_setns,
    SYS_unshare, SYS_swapon, SYS_swapoff, SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_add_key, SYS_request_key, SYS_keyctl, SYS_acct, SYS_quotactl, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime,
    SYS_adjtimex, SYS_sethostname, SYS_setdomainname, SYS_personality, SYS_syslog, SYS_open_by_handle_at, SYS_fanotify_init,
    SYS_vhangup, SYS_nfsservctl, SYS_lookup_dcookie,
#if defined(__x86_64__)
    SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_kexec_file_load, SYS_uselib, SYS_create_module, SYS__sysctl,
#endif
};
enum { refusals = sizeof refused / sizeof *refused };

#ifdef NATIVE
static int filter_calls(void)
{
  // A new user namespace would give all rights in it.
  const uint32_t namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  struct sock_filter program[refusals + 16];
  unsigned short n = 0;
  const struct sock_filter
      no = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      missing = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      yes = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
  program[n++] = no;
  program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
  // The numbers of x32, which are others for the same calls.
  program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
  program[n++] = no;
#endif
  // The flags of clone3 are in memory, where a filter cannot look; the C library uses clone then.
  program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
  program[n++] = missing;
  for (int i = 0; i < refusals; i++)
    program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused[i], (uint8_t)(refusals - i + 3), 0);
  program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2);
  program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
  program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, namespaces, 1, 0);
  program[n++] = yes;
  program[n++] = no;
  struct sock_fprog filter = {n, program};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0 ? 0 : errno;
}
#else
static int filter_calls(void)
{
  return ENOSYS;
}
#endif

static int allow(int ruleset, uint64_t handled, char kind, const char *path)
{
  uint64_t files = may_read | may_execute | may_write | may_truncate | may_control_devices;
  uint64_t allowed = kind == 'r'   ? may_read | may_list
                     : kind == 'x' ? may_read | may_list | may_execute
                                   : may_read | may_list | may_write | may_truncate | may_make_file | may_remove_file | may_make_socket | may_control_devices;
  struct path_rule rule;
  struct stat found;
  int error = 0, fd = open(path, O_PATH | O_CLOEXEC);
  // What is not there need not be allowed.
  if (fd < 0)
    return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : errno;
  if (fstat(fd, &found) < 0)
    error = errno;
  else {
    rule.allowed = allowed & handled & (S_ISDIR(found.st_mode) ? ~(uint64_t)0 : files);
    rule.directory = fd;
    if (syscall(landlock_add, ruleset, 1, &rule, 0) < 0)
      error = errno;
  }
  close(fd);
  return error;
}

// Records: a letter, a path, a zero byte. 'n' alone: no connections by TCP to other machines. Without a record nothing is
// said of files.
static int restrict_files(const char *records, size_t size)
{
  int version = heddle_sandbox_landlock(), error = 0;
  struct rules rules = {all_of_version_1, 0, 0};
  if (!size)
    return 0;
  if (version < 1)
    return ENOSYS;
  rules.files |= (version >= 2 ? may_rename_across : 0) | (version >= 3 ? may_truncate : 0) | (version >= 5 ? may_control_devices : 0);
  if (version >= 4 && records[0] == 'n')
    rules.network = 2;
  // Signals reach only processes that are restricted likewise.
  if (version >= 6)
    rules.scopes = 2;
  int ruleset = (int)syscall(landlock_create, &rules, version >= 6 ? 24 : version >= 4 ? 16 : 8, 0);
  if (ruleset < 0)
    return errno;
  for (size_t at = 0; at < size && !error; at += strlen(records + at) + 1)
    if (records[at] != 'n' && records[at] != '-')
      error = allow(ruleset, rules.files, records[at], records + at + 1);
  if (!error && syscall(landlock_restrict, ruleset, 0) < 0)
    error = errno;
  close(ruleset);
  return error;
}

// This system, or a filter that the process is in already, does not let us.
static int is_missing(int error)
{
  return error == ENOSYS || error == EOPNOTSUPP || error == EINVAL || error == EPERM;
}

static void complain(const char *what, int error)
{
  fprintf(stderr, "heddle serve: the sandbox cannot be entered: %s: %s.\n  Give --sandbox auto to do without what this system does not have, or --sandbox off.\n", what, strerror(error));
  exit(2);
}

// Called first in main. HEDDLE_SANDBOX_RULES is a descriptor and whether all must succeed.
void heddle_sandbox_enter(void)
{
  const char *given = getenv("HEDDLE_SANDBOX_RULES");
  int fd, strict, error;
  struct stat file;
  if (!given)
    return;
  if (sscanf(given, "%d %d", &fd, &strict) != 2 || fd < 3 || fstat(fd, &file) < 0)
    complain("HEDDLE_SANDBOX_RULES", EINVAL);
  unsetenv("HEDDLE_SANDBOX_RULES");
  char *records = malloc((size_t)file.st_size + 1);
  if (!records || pread(fd, records, (size_t)file.st_size, 0) != file.st_size)
    complain("its rules", EIO);
  records[file.st_size] = 0;
  close(fd);
  char why[256];
  heddle_tls_load(why);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    complain("no_new_privs", errno);
  error = restrict_files(records, (size_t)file.st_size);
  if (error && (strict || !is_missing(error)))
    complain("Landlock", error);
  error = filter_calls();
  if (error && (strict || !is_missing(error)))
    complain("seccomp", error);
  free(records);
  setenv("HEDDLE_SANDBOXED", "1", 1);
}

// Execute this program again with these rules. Returns an error number.
int heddle_sandbox_restart(const char *records, size_t size, int strict, char *const arguments[])
{
  char value[40];
  int fd = memfd_create("heddle-sandbox", 0);
  if (fd < 0)
    return errno;
  if (write(fd, records, size) != (ssize_t)size) {
    close(fd);
    return EIO;
  }
  snprintf(value, sizeof value, "%d %d", fd, strict);
  setenv("HEDDLE_SANDBOX_RULES", value, 1);
  execv("/proc/self/exe", arguments);
  int error = errno;
  unsetenv("HEDDLE_SANDBOX_RULES");
  close(fd);
  return error;
}
