"""Draw a waveform: some signals of a VCD file, such as a test bench writes with +waves, between two times.

python tools/waveform.py life_bench.vcd waveform.png 120 160 clk step load cell_out c0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from matplotlib.figure import Figure

from samebits.report.pictures import CELL_1, INK, PAPER

MOST_DIGITS = 9  # of a vector's value, in hex


def changes(text: str, wanted: list[str]) -> dict[str, list[tuple[int, str]]]:
    """When each signal took which value, as digits of 0, 1 and x."""
    head, _, body = text.partition("$enddefinitions")
    codes: dict[str, str] = {}
    for code, name in re.findall(r"\$var \w+ +\d+ (\S+) (\w+)", head):
        if name in wanted and name not in codes.values():
            codes[code] = name
    found: dict[str, list[tuple[int, str]]] = {name: [] for name in wanted}
    now = 0
    for line in body.splitlines():
        if line.startswith("#"):
            now = int(line[1:])
            continue
        match = re.fullmatch(r"b(\S+) (\S+)|([01xz])(\S+)", line)
        if match and (match[2] or match[4]) in codes:
            found[codes[match[2] or match[4]]].append((now, match[1] or match[3]))
    return found


def draw(path: Path, found: dict[str, list[tuple[int, str]]], first: int, last: int) -> None:
    ink, line, paper = (tuple(part / 255 for part in colour) for colour in (INK, CELL_1, PAPER))
    figure = Figure(figsize=(9.6, 0.55 * len(found) + 0.5), facecolor=paper, layout="constrained")
    axes = figure.add_subplot()
    for row, (name, points) in enumerate(found.items()):
        base = -row
        axes.text(first - (last - first) * 0.01, base + 0.3, name, ha="right", va="center", color=ink, size=9)
        ends = [time for time, _ in points[1:]] + [last]
        before, vector = "", any(len(value) > 1 for _, value in points)
        for (begin, value), end in zip(points, ends, strict=True):
            left, right = max(begin, first), min(end, last)
            if begin == end or left >= right:  # set and set again in one moment
                continue
            if not vector:
                level = base + (0.6 if value == "1" else 0.0)
                axes.plot([left, right], [level, level], color=line, linewidth=1.4)
                if before not in ("", "x", value):
                    axes.plot([left, left], [base, base + 0.6], color=line, linewidth=1.4)
                before = value
            else:
                axes.fill([left, left, right, right], [base, base + 0.6, base + 0.6, base], facecolor="white",
                          edgecolor=line, linewidth=1.0)  # fmt: skip
                digits = f"{int(value, 2):x}" if set(value) <= {"0", "1"} else "x"
                shown = digits if len(digits) <= MOST_DIGITS else f"…{digits[-MOST_DIGITS:]}"
                if right - left > (last - first) * 0.05:
                    axes.text((left + right) / 2, base + 0.28, shown, ha="center", va="center", size=6.5, color=ink)
    axes.set(xlim=(first - (last - first) * 0.09, last), ylim=(-len(found) + 0.8, 0.8), yticks=[])
    axes.set_facecolor(paper)
    axes.tick_params(colors=ink, labelsize=8)
    axes.set_xlabel("nanoseconds of the simulation", color=ink, size=8)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    source, target, first, last, *names = sys.argv[1:]
    found = changes(Path(source).read_text(encoding="utf-8"), names)
    draw(Path(target), found, int(first), int(last))


if __name__ == "__main__":
    main()
