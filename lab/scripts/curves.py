#!/usr/bin/env python3
"""Draws the time of an episode over the number of members, from the output of `syncline-lab bench barrier --json`.

    syncline-lab bench barrier --members 2,3,4,6,8,12,16,24,32 --json > curves.jsonl
    python3 lab/scripts/curves.py curves.jsonl curves.svg

The same for simulated times, with another unit:

    cargo run -p syncline-logp --example table -- --json > curves.jsonl

Draws medians, without work between episodes, on logarithmic axes. Beyond the vertical line members outnumber cores.
Also prints the medians as a table. Needs only Python.
"""

import json
import math
import statistics
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 460, 70, 30, 230, 50
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999", "#8b4513", "#6a0dad"]


def read(path):
    """Returns medians by contender and number of members, the hop, the number of cores, and the unit."""
    curves, hops, cores, unit = {}, [], None, "ns"
    with open(path) as lines:
        for record in map(json.loads, lines):
            kind = record.get("kind")
            if kind == "machine":
                cores = record["processors"]
            if kind == "unit":
                unit = record["name"]
            if kind == "hop":
                hops.append(record["median_ns"])
            if kind == "cell" and not record["work_ns"]:
                curves.setdefault(record["way"], {})[record["members"]] = record["median"]
    return curves, statistics.median(hops) if hops else None, cores, unit


def draw(curves, cores, unit):
    """Returns the curves as SVG."""
    xs = sorted({n for curve in curves.values() for n in curve})
    ys = [y for curve in curves.values() for y in curve.values()]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    span = math.log(xs[-1] / xs[0]) or 1

    def at(n, y):
        return LEFT + wide * math.log(n / xs[0]) / span, TOP + tall * (high - math.log10(y)) / max(high - low, 1)

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for power in range(low, high + 1):
        _, y = at(xs[0], 10 ** power)
        name = f"{10 ** (power - 3)} us" if unit == "ns" and power >= 3 else f"{10 ** power} {unit}"
        svg.append(f'<path d="M{LEFT} {y:.1f}h{wide}" stroke="#ddd"/><text x="{LEFT - 6}" y="{y + 4:.1f}" '
                   f'text-anchor="end">{name}</text>')
    for n in xs:
        x, _ = at(n, ys[0])
        svg.append(f'<text x="{x:.1f}" y="{TOP + tall + 18}" text-anchor="middle">{n}</text>')
    if cores and xs[0] <= cores < xs[-1]:
        x, _ = at(cores, ys[0])
        svg.append(f'<path d="M{x:.1f} {TOP}v{tall}" stroke="#888" stroke-dasharray="4"/><text x="{x + 4:.1f}" '
                   f'y="{TOP + 12}" fill="#555">{cores} cores; beyond, members take turns</text>')
    svg.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 10}" text-anchor="middle">members</text>')
    for i, (way, curve) in enumerate(sorted(curves.items(), key=lambda item: -max(item[1].values()))):
        colour, dash = COLOURS[i % len(COLOURS)], ' stroke-dasharray="6 3"' if i >= len(COLOURS) else ""
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(n, curve[n]) for n in sorted(curve)))
        y = TOP + 16 * i + 8
        svg.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>'
                   f'<path d="M{WIDTH - RIGHT + 12} {y}h18" stroke="{colour}" stroke-width="1.6"{dash}/>'
                   f'<text x="{WIDTH - RIGHT + 36}" y="{y + 4}">{way}</text>')
    return "\n".join(svg + ["</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    curves, hop, cores, unit = read(sys.argv[1])
    if not curves:
        sys.exit(f"{sys.argv[1]} holds no medians of `syncline-lab bench barrier --json`")
    xs = sorted({n for curve in curves.values() for n in curve})
    print(f"{unit} per episode".ljust(32), *(f"{n:>9}" for n in xs), f"  H {hop:.0f} ns" if hop else "")
    for way, curve in sorted(curves.items()):
        print(way.ljust(32), *(f"{curve[n]:>9.0f}" if n in curve else f"{'-':>9}" for n in xs))
    with open(sys.argv[2], "w") as out:
        out.write(draw(curves, cores, unit))


if __name__ == "__main__":
    main()
