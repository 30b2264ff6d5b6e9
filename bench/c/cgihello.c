/* The CGI program of `run.py gateways`: a head and a short text in one write. */
#include <string.h>
#include <unistd.h>

int main(void)
{
  const char *answer = "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
  return write(1, answer, strlen(answer)) < 0;
}
