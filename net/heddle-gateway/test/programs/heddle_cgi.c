/* A CGI program for heddle-gateway's tests: it does what QUERY_STRING says, one word after the other. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void put(const char *text)
{
  fputs(text, stdout);
}

int main(void)
{
  const char *query = getenv("QUERY_STRING");
  char *words = strdup(query ? query : "");
  char buffer[65536];
  size_t n;

  if (!*words)
    words = strdup("env");
  for (char *word = strtok(words, "+"); word; word = strtok(NULL, "+")) {
    char *arg = strchr(word, ':');
    if (arg)
      *arg++ = 0;
    if (!strcmp(word, "type"))
      put("Content-Type: text/plain\n\n");
    else if (!strcmp(word, "crlf"))
      put("Content-Type: text/plain\r\n\r\n");
    else if (!strcmp(word, "hello"))
      put("hello\n");
    else if (!strcmp(word, "env")) {
      put("Content-Type: text/plain\n\n");
      for (char **e = environ; *e; e++)
        puts(*e);
    } else if (!strcmp(word, "echo"))
      while ((n = fread(buffer, 1, sizeof buffer, stdin)) > 0) {
        fwrite(buffer, 1, n, stdout);
        fflush(stdout);
      }
    else if (!strcmp(word, "count")) {
      size_t all = 0;
      while ((n = fread(buffer, 1, sizeof buffer, stdin)) > 0)
        all += n;
      printf("%zu\n", all);
    } else if (!strcmp(word, "given")) {
      /* As PHP reads its input: so many bytes as CONTENT_LENGTH says. Then how many bytes follow, of which there are none. */
      const char *given = getenv("CONTENT_LENGTH");
      size_t left = given ? strtoul(given, NULL, 10) : 0;
      printf("%s ", given ? given : "none");
      while (left > 0 && (n = fread(buffer, 1, left < sizeof buffer ? left : sizeof buffer, stdin)) > 0) {
        fwrite(buffer, 1, n, stdout);
        left -= n;
      }
      printf(" %zu", fread(buffer, 1, sizeof buffer, stdin));
    } else if (!strcmp(word, "flush"))
      fflush(stdout);
    else if (!strcmp(word, "line"))
      printf("%s\n", arg);
    else if (!strcmp(word, "length"))
      printf("Content-Length: %s\n", arg);
    else if (!strcmp(word, "status"))
      printf("Status: %s\n", arg);
    else if (!strcmp(word, "location"))
      printf("Location: %s\n", arg);
    else if (!strcmp(word, "raw"))
      put(arg);
    else if (!strcmp(word, "folded"))
      put("\tfolded\n");
    else if (!strcmp(word, "nl"))
      put("\n");
    else if (!strcmp(word, "http"))
      printf("HTTP/1.1 %s Fine\r\n", arg);
    else if (!strcmp(word, "err")) {
      fprintf(stderr, "%s\n", arg);
    } else if (!strcmp(word, "errors")) {
      for (long i = atol(arg); i > 0; i--)
        fprintf(stderr, "one of many lines\n");
    } else if (!strcmp(word, "errpart")) {
      fprintf(stderr, "%s", arg);
    } else if (!strcmp(word, "bytes"))
      for (long i = atol(arg); i > 0; i--)
        putchar('x');
    else if (!strcmp(word, "headers"))
      for (long i = atol(arg); i > 0; i--)
        printf("X-%ld: y\n", i);
    else if (!strcmp(word, "control"))
      put("X-Bad: a\001b\n");
    else if (!strcmp(word, "tell")) {
      /* Tell the test that this point has been reached: by a file. */
      FILE *f = fopen(arg, "w");
      fprintf(f, "%d\n", (int)getpid());
      fclose(f);
    } else if (!strcmp(word, "hang"))
      for (;;)
        pause();
    else if (!strcmp(word, "stubborn")) {
      signal(SIGTERM, SIG_IGN);
      signal(SIGPIPE, SIG_IGN);
    } else if (!strcmp(word, "child")) {
      if (fork() == 0)
        for (;;)
          pause();
    } else if (!strcmp(word, "exit"))
      exit(atoi(arg));
    else if (!strcmp(word, "abort")) {
      fflush(stdout);
      signal(SIGABRT, SIG_DFL);
      abort();
    } else if (!strcmp(word, "close")) {
      fflush(stdout);
      close(1);
    } else if (!strcmp(word, "descriptors")) {
      for (int i = 3; i < 1024; i++)
        if (dup2(i, 1023) >= 0) {
          printf("open %d\n", i);
          close(1023);
        }
    } else if (!strcmp(word, "pwd"))
      puts(getcwd(buffer, sizeof buffer));
  }
  return 0;
}
