"""A float to the other rank and back by mpi4py's pickling send and recv; half a round is a step.

usage: pingpong_pickle.py ROUNDS TIMES

Debian's python3-mpi4py is built for Open MPI only. Prints "timed WALL CPU ANSWER" as the other programs do.
"""
import sys
import time

from mpi4py import MPI


def main():
    rounds, times = map(int, sys.argv[1:])
    world = MPI.COMM_WORLD
    rank = world.Get_rank()

    def value(count):
        x = 0.0
        for _ in range(count):
            if rank == 0:
                world.send(x, dest=1)
                x = world.recv(source=1)
            else:
                x = world.recv(source=0) + 1
                world.send(x, dest=0)
        return x

    value(1 + rounds // 10)
    for _ in range(times):
        world.Barrier()
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        answer = value(rounds)
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        if rank == 0:
            print(f"timed {wall / (2 * rounds):.3f} {cpu / (2 * rounds):.3f} {answer}", flush=True)


main()
