/* The C twin of the echo server: what comes in goes out. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>

struct connection {
    int fd;
    bool hangup; /* sticky: the other side has finished */
    char *held;          /* what the socket had no room for */
    size_t from, length; /* where it begins and ends in there */
};

#include "server.h"

/* False when the connection is broken. */
static bool flush(struct connection *connection)
{
    while (connection->from < connection->length) {
        ssize_t sent = send(connection->fd, connection->held + connection->from,
                            connection->length - connection->from, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            return errno == EAGAIN;
        }
        connection->from += sent;
    }
    free(connection->held);
    connection->held = NULL;
    return true;
}

static bool serve(struct worker *worker, struct connection *connection, bool hangup)
{
    connection->hangup |= hangup;
    for (;;) {
        if (connection->held) {
            if (!flush(connection))
                return false;
            if (connection->held)
                return true; /* EPOLLOUT comes when there is room */
        }
        ssize_t got = recv(connection->fd, worker->buffer, sizeof worker->buffer, 0);
        if (got <= 0) {
            if (got < 0 && errno == EINTR)
                continue;
            return got < 0 && errno == EAGAIN;
        }
        worker->served++;
        ssize_t sent = send(connection->fd, worker->buffer, got, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR)
                return false;
            sent = 0;
        }
        if (sent < got) {
            connection->held = malloc(got - sent);
            if (!connection->held)
                return false;
            memcpy(connection->held, worker->buffer + sent, got - sent);
            connection->from = 0;
            connection->length = got - sent;
        } else if ((size_t)got < sizeof worker->buffer && !connection->hangup) {
            return true; /* less than asked for: the next bytes are a new edge */
        }
    }
}

static void dispose(struct connection *connection)
{
    free(connection->held);
    connection->held = NULL;
}

int main(int argc, char **argv)
{
    return run_server(argc, argv);
}
