/* The fixed response: a head and a page of 151 bytes, the same bytes in every language. */
#ifndef HEDDLE_BENCH_RESPONSE_H
#define HEDDLE_BENCH_RESPONSE_H

static const char response[] =
    "HTTP/1.1 200 OK\r\n"
    "Server: fixed\r\n"
    "Date: Sat, 21 Nov 2026 19:00:00 GMT\r\n"
    "Content-Type: text/html\r\n"
    "Content-Length: 151\r\n"
    "Last-Modified: Sat, 21 Nov 2026 19:00:00 GMT\r\n"
    "\r\n"
    "<html><head><title>Hi</title></head><body bgcolor=white text=black>"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "</body></html>";

enum { RESPONSE_LENGTH = sizeof response - 1 };

#endif
