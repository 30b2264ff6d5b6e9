#!/usr/bin/env python3
"""Draws draft.svg, the weaving draft of this page: python3 draw.py > draft.svg

A draft says how to set a loom up. At the top, the threading: which shaft lifts each warp thread. On the
right, the treadling: which treadle is pressed for each weft thread. In the corner, the tie-up: which shafts
each treadle lifts. The cloth below follows from the three. Only integers are used, so the file is the same
everywhere, byte for byte.
"""
SHAFTS, ENDS, PICKS = 8, 192, 192
LIFTED = {0, 1, 2, 5}  # a treadle lifts these shafts, counted from its own: a 3/2/1/2 twill
WARP = ["#1f3a5f", "#2f6690", "#3a7d7b", "#b5442e", "#d99a2b"]
STRIPES = [0, 0, 0, 3, 0, 1, 1, 1, 1, 4, 1, 2, 2, 2, 3, 2, 0, 0, 0, 0, 4, 0, 1, 3]  # four ends each
WEFT = "#f3ead8"


def wave(i, length):
    """An undulating twill, mirrored in the middle: the shafts advance now quickly, now slowly."""
    x = min(i, length - 1 - i)
    y = x % 48
    return (x + (y * (48 - y) * 6) // 576) % SHAFTS


def stripe(end):
    return STRIPES[min(end, ENDS - 1 - end) // 4]


def main():
    threading = [wave(end, ENDS) for end in range(ENDS)]
    treadling = [wave(pick, PICKS) for pick in range(PICKS)]
    out = []
    width, height = ENDS + 4 + SHAFTS * 2, PICKS + 4 + SHAFTS * 2
    out.append(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 -2 {width + 4} {height + 4}" role="img">\n'
        "<title>Draft of an undulating twill on eight shafts</title>\n"
        f'<rect x="-2" y="-2" width="{width + 4}" height="{height + 4}" fill="#fbf8f1"/>'
    )
    # Threading, tie-up, treadling: one square of two units per shaft and treadle.
    squares = []
    for end, shaft in enumerate(threading):
        squares.append(f"M{end} {2 * (SHAFTS - 1 - shaft)}h1v2h-1z")
    for pick, treadle in enumerate(treadling):
        squares.append(f"M{ENDS + 4 + 2 * treadle} {2 * SHAFTS + 4 + pick}h2v1h-2z")
    for treadle in range(SHAFTS):
        for shaft in range(SHAFTS):
            if (shaft - treadle) % SHAFTS in LIFTED:
                squares.append(f"M{ENDS + 4 + 2 * treadle} {2 * (SHAFTS - 1 - shaft)}h2v2h-2z")
    out.append(f'<path fill="#3b3631" d="{"".join(squares)}"/>')
    out.append(
        f'<path fill="none" stroke="#c9bfae" stroke-width=".3" d="M0 0h{ENDS}v{2 * SHAFTS}h-{ENDS}z'
        f"M{ENDS + 4} 0h{2 * SHAFTS}v{2 * SHAFTS}h-{2 * SHAFTS}z"
        f'M{ENDS + 4} {2 * SHAFTS + 4}h{2 * SHAFTS}v{PICKS}h-{2 * SHAFTS}z"/>'
    )
    # The cloth: the weft everywhere, and each warp thread where it is lifted.
    out.append(f'<g transform="translate(0 {2 * SHAFTS + 4})">')
    out.append(f'<rect width="{ENDS}" height="{PICKS}" fill="{WEFT}"/>')
    rows = "".join(f"M0 {pick}h{ENDS}" for pick in range(1, PICKS))
    out.append(f'<path stroke="#d8c9ab" stroke-width=".16" d="{rows}"/>')
    for colour, paint in enumerate(WARP):
        runs = []
        for end in range(ENDS):
            if stripe(end) != colour:
                continue
            start = None
            for pick in range(PICKS + 1):
                up = pick < PICKS and (threading[end] - treadling[pick]) % SHAFTS in LIFTED
                if up and start is None:
                    start = pick
                elif not up and start is not None:
                    runs.append(f"M{end}.5 {start}v{pick - start}")
                    start = None
        out.append(f'<path fill="none" stroke="{paint}" stroke-width=".88" d="{"".join(runs)}"/>')
    out.append("</g>\n</svg>")
    print("\n".join(out))


main()
