#!/usr/bin/env python3
"""Writes an event log as GHC's runtime does, of any size: eventlog.py OUT [MEGABYTES] [CAPABILITIES]

Threads run, block on MVars, are woken by other capabilities; now and then there is a collection. Each block is 2 MB.
"""
import struct
import sys

TYPES = {0: 4, 1: 4, 2: 10, 3: 4, 4: 6, 8: 6, 9: 0, 10: 0, 18: 14, 53: 50}
RUN, STOP, WAKE, MARK = struct.Struct(">HQI"), struct.Struct(">HQIHI"), struct.Struct(">HQIH"), struct.Struct(">HQIQH")
BARE, STATISTICS = struct.Struct(">HQ"), struct.Struct(">HQIHQQQIQQ")
BLOCK = 2 << 20


def block(capability, capabilities, number):
    """One block of a capability: its bytes, and the time at which it ends."""
    parts, size, time = [], 24, number * 40_000_000 + 1
    begin, turn = time, 0
    while size < BLOCK - 200:
        turn += 1
        thread = 10 + (turn * 7 + capability) % 97 * capabilities + capability
        other = (capability + 1) % capabilities
        parts += [RUN.pack(1, time, thread), WAKE.pack(8, time + 150, 10 + (turn * 7 + 3) % 97 * capabilities + other, other),
                  STOP.pack(2, time + 300 + turn % 400, thread, 7, 0)]
        size += 14 + 16 + 20
        time += 900
        if turn % 500 == 0:
            parts += [BARE.pack(9, time), BARE.pack(10, time + 5000), STATISTICS.pack(53, time + 5000, 0, turn % 2500 == 0, 4096, 0, 0, 1, 0, 0)]
            size += 20 + 60
            time += 6000
    return MARK.pack(18, begin, size, time, capability) + b"".join(parts)


def main():
    out, megabytes, capabilities = sys.argv[1], int((sys.argv + ["200"])[2]) if len(sys.argv) > 2 else 200, int(sys.argv[3]) if len(sys.argv) > 3 else 4
    with open(out, "wb") as file:
        file.write(b"hdrbhetb")
        for kind, size in TYPES.items():
            file.write(b"etb\0" + struct.pack(">HHI", kind, size, 4) + b"type" + struct.pack(">I", 0) + b"ete\0")
        file.write(b"hetehdredatb")
        number = 0
        while file.tell() < megabytes * 1_000_000:
            for capability in range(capabilities):
                file.write(block(capability, capabilities, number))
            number += 1
        file.write(b"\xff\xff")


main()
