// The program's entry: decides, before the runtime system reads the command line, whether it may.
//
// `heddle find` takes any words, +RTS among them; the other sub-commands are tuned with `+RTS ... -RTS`.

#include "Rts.h"

#include <fcntl.h>
#include <string.h>

extern StgClosure ZCMain_main_closure;

// A standard descriptor that is closed must not become that of a file opened later, which would then get the
// output: it becomes one that fails.
static void occupy(void)
{
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
  int finds = argc > 1 && strcmp(argv[1], "find") == 0;
  int pipes = argc > 1 && (strcmp(argv[1], "pipe") == 0 || strcmp(argv[1], "json") == 0);
  if (finds || pipes)
    occupy();
  RtsConfig config = defaultRtsConfig;
  // As -with-rtsopts would; GHC leaves that to us with -no-hs-main.
  // A find needs no tick, since nothing in it is preempted, and little memory, which stays in the cache: the few
  // collections there are go fastest on one core.
  config.rts_opts = finds ? "-I0 -A512k -qg -V0" : pipes ? "-I0 -A1m -qg" : "-I0 -A4m";
  config.rts_hs_main = true;
  config.rts_opts_enabled = finds ? RtsOptsIgnoreAll : RtsOptsAll;
  return hs_main(argc, argv, &ZCMain_main_closure, config);
}
