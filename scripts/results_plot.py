"""The plots of the results' page: bars as HTML, curves as SVG. Colours and fonts are the page's."""
import html
import math

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 28, 24, 44
COLOURS = 7
NOTHING = '<p class="soft">not measured</p>'


def escape(text):
    return html.escape(str(text), quote=True)


def bars(unit, rows, log):
    """A bar for each row (label, number, its interval or None twice, its text); a number may be missing."""
    known = [number for row in rows for number in row[1:4] if number is not None]
    if not known:
        return NOTHING
    most, least = max(known), min(known)
    floor = 10 ** math.floor(math.log10(least)) if log and least > 0 else 0
    scale = (math.log10(most / floor) if floor else most) or 1
    place = lambda number: 100 * (math.log10(max(number, floor) / floor) if floor else number) / scale
    own = next((at for at, row in enumerate(rows) if "eddle" in row[0]), 0)
    parts = [f'<div class="bars"><span class="unit">{escape(unit)}{", logarithmic" if log else ""}</span>']
    for at, (label, number, low, high, text) in enumerate(rows):
        drawn = ""
        if number is not None:
            drawn = f'<span class="bar{" own" if at == own else ""}" style="width:{max(place(number), 0.5):.1f}%"></span>'
            if low is not None:
                drawn += f'<span class="spread" style="left:{place(low):.1f}%;width:{place(high) - place(low):.1f}%"></span>'
        parts.append(f'<span>{escape(label)}</span><span class="track">{drawn}</span><span>{escape(text)}</span>')
    return "\n".join(parts + ["</div>"])


def colour(number):
    return f"var(--c{number % COLOURS})"


def key(lines):
    """The names of the lines, and of those that have no points."""
    parts = ['<ul class="key">']
    for number, (name, points, given) in enumerate(lines):
        text = name if points else f"{name}: not measured"
        parts.append(f'<li><i{" class=" + chr(34) + "given" + chr(34) if given else ""} style="border-color:{colour(number) if points else "transparent"}"></i>{escape(text)}</li>')
    return "".join(parts + ["</ul>"])


def decades(low, high):
    tick = low
    while tick <= high * 1.001:
        yield tick
        tick *= 10


def steps(high):
    """A few round numbers from 0 to a little more than the greatest."""
    step = 10 ** math.floor(math.log10(high))
    step = next(step * part for part in (0.2, 0.5, 1, 2) if high / (step * part) <= 6)
    return [step * number for number in range(math.ceil(high / step) + 1)]


def curve(x, y, lines, log=True):
    """Lines of (place, middle, least, most), places on a logarithmic axis; with `log` the values, too: ratios are what is compared."""
    drawn = [points for _, points, _ in lines if points]
    if not drawn:
        return NOTHING
    numbers = [number for points in drawn for point in points for number in point[1:] if number]
    places = sorted({point[0] for points in drawn for point in points})
    if log:
        low, high = 10 ** math.floor(math.log10(min(numbers))), 10 ** math.ceil(math.log10(max(numbers) * 0.999))
        high = max(high, low * 10)
        ticks = list(decades(low, high))
        up = lambda number: TOP + (HEIGHT - TOP - BOTTOM) * (1 - math.log(max(number, low) / low) / math.log(high / low))
    else:
        ticks = steps(max(numbers))
        high = ticks[-1]
        up = lambda number: TOP + (HEIGHT - TOP - BOTTOM) * (1 - number / high)
    first, last = math.log(places[0]), math.log(places[-1])
    # One place alone stands in the middle.
    across = lambda place: LEFT + (WIDTH - LEFT - RIGHT) * ((math.log(place) - first) / (last - first) if last > first else 0.5)
    parts = frame(f"{y} by {x}", x, y)
    for tick in ticks:
        parts.append(f'<path class="axis" d="M{LEFT} {up(tick):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="soft" x="{LEFT - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    shown = -99
    for place in places:
        parts.append(f'<path class="axis" d="M{across(place):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        if across(place) - shown > 32:
            shown = across(place)
            parts.append(f'<text class="soft" x="{shown:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(place)}</text>')
    for number, (name, points, given) in enumerate(lines):
        if points:
            parts += line(colour(number), name, [(across(place), up(middle), f"{short(place)}: {middle:,.4g}") for place, middle, _, _ in points], given)
            for place, _, least, most in points:
                if least and most:
                    parts.append(f'<path d="M{across(place):.1f} {up(least):.1f}V{up(most):.1f}" style="stroke:{colour(number)}"/>')
    return "\n".join(parts + ["</svg></div>", key(lines)])


def shares(x, lines):
    """Cumulative distributions: lines of (share in percent, value), values on a logarithmic axis."""
    drawn = [points for _, points, _ in lines if points]
    if not drawn:
        return NOTHING
    numbers = [point[1] for points in drawn for point in points if point[1] > 0]
    low, high = 10 ** math.floor(math.log10(min(numbers))), 10 ** math.ceil(math.log10(max(numbers) * 0.999))
    high = max(high, low * 10)
    across = lambda number: LEFT + (WIDTH - LEFT - RIGHT) * math.log(max(number, low) / low) / math.log(high / low)
    up = lambda share: TOP + (HEIGHT - TOP - BOTTOM) * (1 - share / 100)
    parts = frame(f"share by {x}", x, "% of the requests")
    for share in (0, 25, 50, 75, 100):
        parts.append(f'<path class="axis" d="M{LEFT} {up(share):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="soft" x="{LEFT - 6}" y="{up(share) + 4:.1f}" text-anchor="end">{share}</text>')
    for tick in decades(low, high):
        parts.append(f'<path class="axis" d="M{across(tick):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text class="soft" x="{across(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(tick)}</text>')
    for number, (name, points, given) in enumerate(lines):
        if points:
            parts += line(colour(number), name, [(across(value), up(float(share)), f"{share} %: {value:,.4g}") for share, value, _, _ in points], given)
    return "\n".join(parts + ["</svg></div>", key(lines)])


def frame(label, x, y):
    return [
        f'<div class="wide"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">',
        f'<text class="soft" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{escape(x)}</text>',
        f'<text class="soft" x="4" y="14">{escape(y)}</text>',
    ]


def line(stroke, name, points, given):
    dash = ";stroke-dasharray:5 4" if given else ""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
    parts = [f'<path d="M{path}" style="fill:none;stroke:{stroke};stroke-width:2{dash}"/>']
    return parts + [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill:{stroke}"><title>{escape(name)}, {escape(text)}</title></circle>' for x, y, text in points]


def short(number):
    """A number on an axis: 1, 2.5, 400, 10 k, 1 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if number >= size:
            return f"{number / (1000 if unit == ' k' else size):g}{unit}"
    return f"{number:g}"
