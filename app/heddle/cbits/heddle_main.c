// The program's entry: what must be decided before the runtime system starts.
//
// `heddle find` takes any words, +RTS among them; the other sub-commands are tuned with `+RTS ... -RTS`.

#define _GNU_SOURCE
#include "Rts.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern StgClosure ZCMain_main_closure;
extern void heddle_commands_end(int number);
extern void heddle_sandbox_enter(void);
extern const char *heddle_timeline_prepare(int argc, char **argv, RtsConfig *config);
extern void heddle_timeline_ready(void);

// A standard descriptor that is closed must not become that of a file opened later, or of the runtime's, which would then
// get the output: it becomes one that fails; for a server, which may well be started so, one that takes everything.
static void occupy(int serves)
{
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", serves ? O_RDWR : fd == 0 ? O_WRONLY : O_RDONLY);
}

static void survive(int signal, siginfo_t *info, void *context)
{
  (void)signal, (void)info, (void)context;
}

// The runtime interrupts a foreign call by sending SIGPIPE to its thread (pthread_kill): only the kernel's ends us.
static void end_unless_interrupted(int number, siginfo_t *info, void *context)
{
  (void)context;
  if (info->si_code != SI_TKILL) {
    signal(number, SIG_DFL);
    raise(number);
  }
}

// What writing to a pipe without a reader does. A handler also where it changes nothing for this process, instead of
// SIG_IGN: programs that we start would inherit that. If SIGPIPE was ignored when we were started, it stays so.
static void on_broken_pipe(void (*handler)(int, siginfo_t *, void *))
{
  struct sigaction action;
  if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGPIPE, &action, NULL);
  }
}

// Standard output has lost its reader: end by SIGPIPE as every C program. Returns if the parent process ignores
// that signal, and so wants to be told.
void heddle_end_by_broken_pipe(void)
{
  struct sigaction action;
  if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
  }
}

// A signal ends the commands of a pipeline, too. It is ignored if it was when we were started (nohup).
static void end_with_commands(int number)
{
  heddle_commands_end(number);
  signal(number, SIG_DFL);
  raise(number);
}

static void on_end(int number)
{
  struct sigaction action;
  if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
    memset(&action, 0, sizeof action);
    action.sa_handler = end_with_commands;
    sigaction(number, &action, NULL);
  }
}

// Start the runtime without GHC's event manager, by making it believe that it is there: it takes three threads and
// a dozen descriptors, which is most of what a small search takes, and more than `ulimit -n 8` has. What is waited for
// without it is waited for in safe foreign calls. Heddle.Prim.Thread.startEventManager starts it where it is needed.
static void start_without_events(int argc, char **argv, RtsConfig config)
{
  setTimerManagerControlFd(INT_MAX);
  setIOManagerWakeupFd(INT_MAX);
  hs_init_ghc(&argc, &argv, config);
  setTimerManagerControlFd(-1);
  setIOManagerWakeupFd(-1);
}

static struct sigaction first_interrupt;

// Undo what GHC's start of `main` does to SIGINT, which it handles whatever --install-signal-handlers says.
void heddle_inherit_interrupt(void)
{
  sigaction(SIGINT, &first_interrupt, NULL);
}

int main(int argc, char **argv)
{
  int finds = argc > 1 && strcmp(argv[1], "find") == 0;
  int pipes = argc > 1 && (strcmp(argv[1], "pipe") == 0 || strcmp(argv[1], "json") == 0);
  int sites = argc > 1 && strcmp(argv[1], "serve") == 0;
  int serves = sites || (argc > 1 && (strcmp(argv[1], "controller") == 0 || strcmp(argv[1], "ofbench") == 0));
  occupy(serves);
  if (serves)
    heddle_sandbox_enter();
  if (pipes) {
    on_end(SIGTERM);
    on_end(SIGHUP);
    on_end(SIGINT);
  }
  sigaction(SIGINT, NULL, &first_interrupt);
  char options[80];
  RtsConfig config = defaultRtsConfig;
  // As -with-rtsopts would; GHC leaves that to us with -no-hs-main. Only the server handles signals by itself: others
  // have them as they were when the process started, ignored or not, and so have the programs that they start.
  /* -ki: the frames of a request, or of a tunnel, need more than the 1 KB with which a thread's stack begins, and the next
   * piece has 32 KB. A proxied request needs a little more than 2 KB;
   * with 2 KB each one got such a piece and gave it back. */
  // The thread of a switch, which lives as long as its connection, needs more than that, and less than a piece.
  int switches = argc > 1 && strcmp(argv[1], "controller") == 0;
  config.rts_opts = switches ? "-I0 -A4m -ki4k" : serves ? "-I0 -A4m -ki3k" : "-I0 -A1m -qg --install-signal-handlers=no";
  // --help and --version, and the shell's questions for completions, end before a first tick.
  if (argc < 2 || argv[1][0] == '-')
    config.rts_opts = "-I0 -A512k -qg -V0 --install-signal-handlers=no";
  config.rts_hs_main = true;
  config.rts_opts_enabled = finds ? RtsOptsIgnoreAll : RtsOptsAll;
  if (pipes)
    on_broken_pipe(survive);
  if (finds) {
    on_broken_pipe(end_unless_interrupted);
    // A find needs no tick, since nothing in it is preempted, and little memory, which stays in the cache: the few
    // collections there are go fastest on one core. It begins on one capability, since the runtime starts a thread for each
    // further one, and raises the number when it has found a second directory.
    config.rts_opts = "-I0 -A512k -qg -V0 --install-signal-handlers=no";
  }
  if (sites) {
    snprintf(options, sizeof options, "%s%s", config.rts_opts, heddle_timeline_prepare(argc, argv, &config));
    config.rts_opts = options;
  }
  start_without_events(argc, argv, config);
  if (sites)
    heddle_timeline_ready();
  return hs_main(argc, argv, &ZCMain_main_closure, config);
}
