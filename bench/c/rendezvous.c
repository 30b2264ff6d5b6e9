/*
 * The floor of a multi-way rendezvous: one writer and N - 1 readers on one channel, on one core.
 *
 *   rendezvous N ROUNDS
 *
 * A member is a state machine: a function that goes on from where it stopped, and a few words. It arrives
 * with one atomic fetch-add on the channel's word; all others of the channel wait in a list. Whoever comes
 * last sets the word back, puts the list at the end of the ready list in one piece, and goes on itself. So
 * there is no stack to switch, no system call, and nothing is allocated. The lists are not made for a
 * second core, only the word is.
 *
 * Prints `timed WALL CPU ANSWER`: nanoseconds for each rendezvous, after some that are not counted, and the
 * sum of what all readers received.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>

#include "common.h"

/* One writer and a channel's word. The writer is never two values ahead of a reader, so two slots do. */
static _Alignas(64) _Atomic uint64_t arrived;
static uint64_t members;
static int64_t slots[2];

struct member {
    void (*resume)(struct member *); /* returns when it waits or has ended */
    struct member *next;             /* in the channel while it waits, then in the ready list */
    int64_t left, sum;
};

static struct member *waiting, *waiting_end;
static struct member *ready, *ready_end;
static int64_t rounds;
static struct timespec wall[2], cpu[2];

/* True for the last member, which goes on; the others return to the loop. */
static inline bool arrive(struct member *self)
{
    if (atomic_fetch_add_explicit(&arrived, 1, memory_order_acq_rel) + 1 == members) {
        atomic_store_explicit(&arrived, 0, memory_order_relaxed);
        waiting_end->next = NULL;
        if (ready)
            ready_end->next = waiting;
        else
            ready = waiting;
        ready_end = waiting_end;
        waiting = NULL;
        return true;
    }
    if (waiting)
        waiting_end->next = self;
    else
        waiting = self;
    waiting_end = self;
    return false;
}

static void read_clocks(int which)
{
    clock_gettime(CLOCK_MONOTONIC, &wall[which]);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu[which]);
}

/* Goes on after a rendezvous, or begins. */
static void writer(struct member *self)
{
    do {
        if (self->left == rounds)
            read_clocks(0);
        if (self->left == 0) {
            read_clocks(1);
            return;
        }
        slots[self->left & 1] = self->left > rounds ? self->left - rounds : self->left;
        self->left--;
    } while (arrive(self));
}

/* Goes on after a rendezvous. */
static void reader(struct member *self)
{
    do {
        self->sum += slots[self->left & 1];
        if (--self->left == 0)
            return;
    } while (arrive(self));
}

static void new_reader(struct member *self)
{
    self->resume = reader;
    if (arrive(self))
        reader(self);
}

static int64_t argument(const char *text, int64_t least, int64_t most)
{
    char *end;
    int64_t number = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || *end || number < least || number > most) {
        fprintf(stderr, "usage: %s N ROUNDS\n", program_invocation_short_name);
        exit(2);
    }
    return number;
}

static double per_round(const struct timespec *t)
{
    return ((t[1].tv_sec - t[0].tv_sec) * 1e9 + (double)(t[1].tv_nsec - t[0].tv_nsec)) / (double)rounds;
}

int main(int argc, char **argv)
{
    members = (uint64_t)argument(argc == 3 ? argv[1] : NULL, 2, 1000000);
    rounds = argument(argv[2], 1, 1000000000);
    int64_t unmeasured = 1 + rounds / 10;
    struct member *all = calloc(members, sizeof *all);
    if (!all)
        die("calloc");
    for (uint64_t i = 0; i < members; i++)
        all[i] = (struct member){
            .resume = i == 0 ? writer : new_reader,
            .next = i + 1 < members ? &all[i + 1] : NULL,
            .left = unmeasured + rounds,
        };
    ready = all;
    ready_end = &all[members - 1];
    while (ready) {
        struct member *now = ready;
        ready = now->next;
        now->resume(now);
    }
    int64_t answer = 0;
    for (uint64_t i = 0; i < members; i++)
        answer += all[i].sum;
    if (answer != (int64_t)(members - 1) * (unmeasured * (unmeasured + 1) / 2 + rounds * (rounds + 1) / 2)) {
        fprintf(stderr, "%s: wrong: %lld\n", program_invocation_short_name, (long long)answer);
        return 1;
    }
    printf("timed %.1f %.1f %lld\n", per_round(wall), per_round(cpu), (long long)answer);
    return 0;
}
