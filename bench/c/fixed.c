/*
 * The C twin of the fixed response: finds the end of each request's head, wherever the packets
 * break, and answers with the same bytes every time. Pipelined requests are answered in order.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>

#include "response.h"

struct connection {
    int fd;
    bool hangup; /* sticky: the other side has finished */
    unsigned matched; /* how much of CR LF CR LF the input ends with */
    size_t owed;      /* bytes of whole responses not yet sent */
};

#include "server.h"

/* The requests that end in these bytes. */
static size_t count_heads(struct connection *connection, const char *input, size_t length)
{
    size_t heads = 0;
    unsigned matched = connection->matched;
    const char *end = input + length;
    while (input < end) {
        if (matched == 0) {
            input = memchr(input, '\r', end - input);
            if (!input)
                break;
            input++;
            matched = 1;
            continue;
        }
        char byte = *input++;
        if (byte == "\r\n\r\n"[matched]) {
            if (++matched == 4) {
                heads++;
                matched = 0;
            }
        } else {
            matched = byte == '\r';
        }
    }
    connection->matched = matched;
    return heads;
}

/* True when nothing is owed any more, or the socket is full; false when it is broken. */
static bool pay(struct connection *connection)
{
    while (connection->owed > 0) {
        size_t piece = (connection->owed - 1) % RESPONSE_LENGTH + 1;
        ssize_t sent = send(connection->fd, response + RESPONSE_LENGTH - piece, piece, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            return errno == EAGAIN;
        }
        connection->owed -= sent;
    }
    return true;
}

static bool serve(struct worker *worker, struct connection *connection, bool hangup)
{
    connection->hangup |= hangup;
    const size_t room = 4096;
    for (;;) {
        if (connection->owed > 0) {
            if (!pay(connection))
                return false;
            if (connection->owed > 0)
                return true; /* EPOLLOUT comes when there is room */
        }
        ssize_t got = recv(connection->fd, worker->buffer, room, 0);
        if (got <= 0) {
            if (got < 0 && errno == EINTR)
                continue;
            return got < 0 && errno == EAGAIN;
        }
        size_t heads = count_heads(connection, worker->buffer, got);
        worker->served += heads;
        connection->owed = heads * RESPONSE_LENGTH;
        if (!pay(connection))
            return false;
        if ((size_t)got < room && connection->owed == 0 && !connection->hangup)
            return true; /* less than asked for: the next bytes are a new edge */
    }
}

static void dispose(struct connection *connection)
{
    (void)connection;
}

int main(int argc, char **argv)
{
    return run_server(argc, argv);
}
