/*
 * What cores pay for each other: a line of memory that all of them write, and a barrier that one asks of all.
 *
 *   shared --line THREADS       nanoseconds for an atomic addition to one word by THREADS threads in turn
 *   shared --own THREADS        nanoseconds of each for one to a word in a line of its own
 *   shared --wake 1             nanoseconds for a thread to wake another one on the next core, which sleeps in futex(2)
 *   shared --barrier THREADS    nanoseconds for a membarrier(2) while THREADS other threads run
 *
 * Prints "timed NS". Each thread has a core of its own, as far as there are some.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

enum { MOST = 64, ROUNDS = 4000000, TURNS = 1000000, WAKES = 50000, BARRIERS = 20000, LINE = 128 };

static _Alignas(LINE) atomic_long words[MOST][LINE / sizeof(atomic_long)];
static atomic_bool begun, ended;
static atomic_int ready;
static long members;
static double spent[MOST];
static pthread_t threads[MOST];

static void stay_on(int number)
{
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        die("sched_getaffinity");
    int wanted = number % CPU_COUNT(&allowed), core = 0;
    for (;; core++)
        if (CPU_ISSET(core, &allowed) && wanted-- == 0)
            break;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    pthread_setaffinity_np(pthread_self(), sizeof own, &own);
}

static void wait_for_all(void)
{
    atomic_fetch_add(&ready, 1);
    while (!atomic_load(&begun))
        ;
}

static void *add(void *argument)
{
    long number = (long)argument;
    stay_on((int)number);
    wait_for_all();
    int64_t before = now_ns();
    for (long i = 0; i < ROUNDS; i++)
        atomic_fetch_add(words[number], 1);
    spent[number] = (double)(now_ns() - before) / ROUNDS;
    return NULL;
}

/* Each time another thread has written the line. */
static void *add_in_turn(void *argument)
{
    long number = (long)argument;
    stay_on((int)number);
    wait_for_all();
    int64_t before = now_ns();
    for (long turn = number; turn < TURNS; turn += members) {
        while (atomic_load(words[0]) != turn)
            ;
        atomic_fetch_add(words[0], 1);
    }
    spent[number] = (double)(now_ns() - before) / TURNS;
    return NULL;
}

static atomic_int turn_of;

/* Two threads sleep and wake each other in turn. */
static void *wake_in_turn(void *argument)
{
    int number = (int)(long)argument;
    stay_on(number);
    wait_for_all();
    int64_t before = now_ns();
    for (long i = 0; i < WAKES; i++) {
        while (atomic_load(&turn_of) != number)
            syscall(SYS_futex, &turn_of, FUTEX_WAIT_PRIVATE, !number, NULL, NULL, 0);
        atomic_store(&turn_of, !number);
        syscall(SYS_futex, &turn_of, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    spent[number] = (double)(now_ns() - before) / (2 * WAKES);
    return NULL;
}

static void *run(void *argument)
{
    stay_on(1 + (int)(long)argument);
    atomic_fetch_add(&ready, 1);
    while (!atomic_load_explicit(&ended, memory_order_relaxed))
        ;
    return NULL;
}

static void start(long count, void *(*body)(void *))
{
    for (long i = 0; i < count; i++)
        if ((errno = pthread_create(&threads[i], NULL, body, (void *)i)) != 0)
            die("pthread_create");
    while (atomic_load(&ready) < count)
        sched_yield();
}

static void finish(long count)
{
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static double timed(long count, void *(*body)(void *))
{
    double sum = 0;
    members = count;
    start(count, body);
    atomic_store(&begun, true);
    finish(count);
    for (long i = 0; i < count; i++)
        sum += spent[i];
    return sum / count;
}

static double barriers(long count)
{
    stay_on(0);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) < 0)
        die("membarrier");
    start(count, run);
    int64_t before = now_ns();
    for (long i = 0; i < BARRIERS; i++)
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) < 0)
            die("membarrier");
    double each = (double)(now_ns() - before) / BARRIERS;
    atomic_store(&ended, true);
    finish(count);
    return each;
}

int main(int argc, char **argv)
{
    long line = -1, own = -1, wake = -1, barrier = -1;
    parse_options(argc, argv,
                  (struct option_number[]){
                      {"--line", &line, 1, MOST}, {"--own", &own, 1, MOST}, {"--wake", &wake, 1, 1}, {"--barrier", &barrier, 0, MOST - 1}, {NULL, NULL, 0, 0}});
    if ((line >= 0) + (own >= 0) + (wake >= 0) + (barrier >= 0) != 1) {
        fprintf(stderr, "usage: shared --line THREADS | --own THREADS | --wake 1 | --barrier THREADS\n");
        return 2;
    }
    double ns = barrier >= 0 ? barriers(barrier) : wake >= 0 ? timed(2, wake_in_turn) : line >= 0 ? timed(line, add_in_turn) : timed(own, add);
    printf("timed %.2f\n", ns);
    return 0;
}
