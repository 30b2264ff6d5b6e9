/*
 * The C twin of `heddle controller --app learning`: an OpenFlow 1.0 learning switch. Everything that has come is handled in
 * place, and the answers leave in one send. The table of a switch is the same as Heddle's: open addressing, 16 bytes a slot,
 * doubled when it is three quarters full.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slot {
    uint64_t key, port;
};

struct connection {
    int fd;
    bool hangup, greeted;
    char *held;          /* the beginning of a message that is not complete */
    size_t held_length;
    char *waiting;       /* what the socket had no room for */
    size_t from, length;
    struct slot *slots;
    size_t mask, used;
};

#include "server.h"

static uint16_t get16(const void *p) { uint16_t x; memcpy(&x, p, 2); return ntohs(x); }
static void put16(void *p, uint16_t x) { x = htons(x); memcpy(p, &x, 2); }
static void put32(void *p, uint32_t x) { x = htonl(x); memcpy(p, &x, 4); }
static uint64_t get48(const void *p) { uint64_t x = 0; memcpy((char *)&x + 2, p, 6); return be64toh(x); }

static uint64_t scatter(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 32);
}

static struct slot *find(struct connection *c, uint64_t key)
{
    for (size_t i = scatter(key) & c->mask;; i = (i + 1) & c->mask)
        if (c->slots[i].key == key || !c->slots[i].key)
            return &c->slots[i];
}

static void learn(struct connection *c, uint64_t key, uint64_t port)
{
    struct slot *slot = find(c, key);
    if (!slot->key) {
        if (4 * (c->used + 1) > 3 * (c->mask + 1)) {
            struct slot *old = c->slots;
            size_t size = c->mask + 1;
            if (c->used > 0x2000000)
                return;
            c->slots = calloc(2 * size, sizeof *old);
            if (!c->slots)
                die("calloc");
            c->mask = 2 * size - 1;
            for (size_t i = 0; i < size; i++)
                if (old[i].key)
                    *find(c, old[i].key) = old[i];
            free(old);
            slot = find(c, key);
        }
        slot->key = key;
        c->used++;
    }
    if (slot->port != port)
        slot->port = port;
}

/* Answers one message at `out`, where there is room for 256 bytes and its length; returns how many bytes that took. */
static size_t answer(struct connection *c, const unsigned char *m, size_t n, unsigned char *out)
{
    switch (m[1]) {
    case 0: { /* hello: ours, and the question for the features, and whole packets */
        static const unsigned char greeting[] = {1, 0, 0, 8, 0, 0, 0, 1, 1, 5, 0, 8, 0, 0, 0, 2,
                                                 1, 9, 0, 12, 0, 0, 0, 3, 0, 0, 0xff, 0xff};
        if (c->greeted)
            return 0;
        c->greeted = true;
        c->mask = 127;
        c->slots = calloc(128, sizeof *c->slots);
        if (!c->slots)
            die("calloc");
        memcpy(out, greeting, sizeof greeting);
        return sizeof greeting;
    }
    case 2: /* echo */
        memcpy(out, m, n);
        out[1] = 3;
        return n;
    case 10: {
        if (n < 18 + 14 || !c->greeted)
            return 0;
        const unsigned char *packet = m + 18;
        uint64_t destination = get48(packet), source = get48(packet + 6);
        uint16_t in_port = get16(m + 14), type = get16(packet + 12), out_port = 0xfffb;
        bool tagged = type == 0x8100 || type == 0x88a8;
        if (tagged && n < 18 + 18)
            return 0;
        uint16_t identifier = tagged ? get16(packet + 14) & 0xfff : 0;
        uint64_t vlan = (uint64_t)identifier << 48;
        uint32_t buffer;
        memcpy(&buffer, m + 8, 4);
        if (type == 0x88cc)
            return 0;
        if (!(packet[6] & 1))
            learn(c, 1ull << 60 | vlan | source, in_port + 1);
        bool known = false;
        if (!(packet[0] & 1)) {
            struct slot *slot = find(c, 1ull << 60 | vlan | destination);
            if (slot->key) {
                known = true;
                out_port = slot->port - 1;
            }
        }
        size_t size = 0;
        if (known && out_port == in_port) {
            if (buffer == 0xffffffff)
                return 0;
            /* drop it: no actions */
            memcpy(out, (unsigned char[16]){1, 13, 0, 16}, 16);
            memcpy(out + 8, &buffer, 4);
            put16(out + 12, in_port);
            return 16;
        }
        if (known) {
            memset(out, 0, 80);
            memcpy(out, (unsigned char[4]){1, 14, 0, 80}, 4);
            put32(out + 8, 0x3820f0);
            put16(out + 12, in_port);
            memcpy(out + 14, packet + 6, 6);
            memcpy(out + 20, packet, 6);
            put16(out + 26, tagged ? identifier : 0xffff);
            put16(out + 58, 60);
            put16(out + 62, 1000);
            memcpy(out + 64, &buffer, 4);
            put16(out + 68, 0xffff);
            put16(out + 74, 8);
            put16(out + 76, out_port);
            put16(out + 78, 0xffff);
            size = 80;
            if (buffer != 0xffffffff)
                return size;
            out += size;
        }
        size_t bytes = buffer == 0xffffffff ? n - 18 : 0;
        memcpy(out, (unsigned char[4]){1, 13}, 4);
        put16(out + 2, 24 + bytes);
        memset(out + 4, 0, 4);
        memcpy(out + 8, &buffer, 4);
        put16(out + 12, in_port);
        put16(out + 14, 8);
        put32(out + 16, 8);
        put16(out + 20, out_port);
        put16(out + 22, 0);
        memcpy(out + 24, packet, bytes);
        return size + 24 + bytes;
    }
    }
    return 0;
}

static bool flush(struct connection *c)
{
    while (c->from < c->length) {
        ssize_t sent = send(c->fd, c->waiting + c->from, c->length - c->from, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            return errno == EAGAIN;
        }
        c->from += sent;
    }
    free(c->waiting);
    c->waiting = NULL;
    return true;
}

static bool push(struct connection *c, const char *bytes, size_t n)
{
    ssize_t sent = c->waiting ? 0 : send(c->fd, bytes, n, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return false;
        sent = 0;
    }
    if ((size_t)sent < n) {
        size_t left = c->waiting ? c->length - c->from : 0;
        char *all = malloc(left + n - sent);
        if (!all)
            return false;
        if (left)
            memcpy(all, c->waiting + c->from, left);
        memcpy(all + left, bytes + sent, n - sent);
        free(c->waiting);
        c->waiting = all, c->from = 0, c->length = left + n - sent;
    }
    return true;
}

static bool serve(struct worker *worker, struct connection *c, bool hangup)
{
    static __thread char out[0x40000];
    c->hangup |= hangup;
    for (;;) {
        if (c->waiting) {
            if (!flush(c))
                return false;
            if (c->waiting)
                return true; /* EPOLLOUT comes when there is room */
        }
        size_t at = c->held_length, room = sizeof worker->buffer;
        if (at)
            memcpy(worker->buffer, c->held, at);
        ssize_t got = recv(c->fd, worker->buffer + at, room - at, 0);
        if (got <= 0) {
            if (got < 0 && errno == EINTR)
                continue;
            return got < 0 && errno == EAGAIN;
        }
        size_t end = at + got, made = 0;
        at = 0;
        while (end - at >= 8) {
            const unsigned char *m = (unsigned char *)worker->buffer + at;
            size_t n = get16(m + 2);
            if (m[0] > 6 || n < 8)
                return false;
            if (n > end - at)
                break;
            if (made + n + 256 > sizeof out) {
                if (!push(c, out, made))
                    return false;
                made = 0;
            }
            made += answer(c, m, n, (unsigned char *)out + made);
            worker->served++;
            at += n;
        }
        if (made && !push(c, out, made))
            return false;
        c->held_length = end - at;
        if (c->held_length) {
            if (!c->held && !(c->held = malloc(sizeof worker->buffer)))
                return false;
            memcpy(c->held, worker->buffer + at, c->held_length);
        } else {
            free(c->held);
            c->held = NULL;
        }
        if (end < room && !c->hangup)
            return true; /* a short read: the socket is empty */
    }
}

static void dispose(struct connection *c)
{
    free(c->held);
    free(c->waiting);
    free(c->slots);
    c->held = c->waiting = NULL;
    c->slots = NULL;
    c->held_length = c->used = 0;
    c->greeted = c->hangup = false;
}

int main(int argc, char **argv)
{
    return run_server(argc, argv);
}
