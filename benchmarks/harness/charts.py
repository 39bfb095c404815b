"""SVG by hand: grouped bars, and lines on two logarithmic axes; readable on a light and on a dark page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#3b7ddd", "#e08a1e", "#3f9b5b", "#c44e52", "#8a63c9", "#7a8794", "#b8860b", "#2a9d9d")
WIDTH = 760
_STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #24292f } .faint { fill: #6e7781 }
.title { font-weight: 600; font-size: 15px } line.grid { stroke: #d0d7de } rect.page { fill: #ffffff }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #9198a1 } line.grid { stroke: #3d444d } rect.page { fill: #0d1117 } }
</style>"""
_LABEL, _BAR, _GAP, _TOP = 130, 18, 26, 44

Groups = Mapping[str, Mapping[str, float]]
"""By the name of the group: the value of each member."""
Points = Sequence[tuple[float, float]]


def bars(title: str, groups: Groups, colours: Mapping[str, str]) -> str:
    """Lying bars, a block for each group, the value at the end of each bar. A group has a scale of its own."""
    parts, at = [_text(title, 12, 24, "title")], _TOP
    for name, members in groups.items():
        parts.append(_text(name, 12, at + 14, "faint"))
        at += _GAP
        most = max(members.values(), default=1) or 1
        for member, value in members.items():
            long = max(1.0, value / most * (WIDTH - _LABEL - 110))
            parts.append(_text(member, _LABEL - 8, at + 13, anchor="end"))
            parts.append(_box(_LABEL, at, long, _BAR - 3, colours[member]))
            parts.append(_text(_figure(value), _LABEL + long + 6, at + 13))
            at += _BAR
        at += 10
    return _page(parts, at + 8)


def lines(title: str, series: Mapping[str, Points], *, x: str, y: str) -> str:
    """Lines with a point for each size; both axes are logarithmic, with a line at each power of ten."""
    frame = _Frame([point for points in series.values() for point in points])
    parts = [_text(title, 12, 24, "title"), _text(y, 12, 46, "faint"), *frame.grid()]
    parts.append(_text(x, WIDTH / 2, frame.bottom + 38, "faint", anchor="middle"))
    for place, (name, points) in enumerate(series.items()):
        colour = COLOURS[place % len(COLOURS)]
        shown = " ".join(f"{frame.x(a):.1f},{frame.y(b):.1f}" for a, b in points)
        parts.append(f'<polyline points="{shown}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{frame.x(a):.1f}" cy="{frame.y(b):.1f}" r="4" fill="{colour}"/>' for a, b in points]
        at = frame.top + 8 + place * 22
        parts.append(_box(frame.right + 16, at, 12, 12, colour))
        parts.append(_text(name, frame.right + 34, at + 11))
    return _page(parts, frame.bottom + 52)


class _Frame:
    """Where points lie."""

    left, right, top, bottom = 86, 560, 60, 340

    def __init__(self, points: Points) -> None:
        self._x = _decades([a for a, _ in points])
        self._y = _decades([b for _, b in points])

    def x(self, value: float) -> float:
        low, high = self._x
        return self.left + (math.log10(value) - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        low, high = self._y
        return self.bottom - (math.log10(value) - low) / (high - low) * (self.bottom - self.top)

    def grid(self) -> list[str]:
        parts = []
        for power in range(self._x[0], self._x[1] + 1):
            at = self.x(10.0**power)
            parts.append(f'<line class="grid" x1="{at:.1f}" y1="{self.top}" x2="{at:.1f}" y2="{self.bottom}"/>')
            parts.append(_text(_figure(10.0**power), at, self.bottom + 18, "faint", anchor="middle"))
        for power in range(self._y[0], self._y[1] + 1):
            at = self.y(10.0**power)
            parts.append(f'<line class="grid" x1="{self.left}" y1="{at:.1f}" x2="{self.right}" y2="{at:.1f}"/>')
            parts.append(_text(_figure(10.0**power), self.left - 8, at + 4, "faint", anchor="end"))
        return parts


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around them; two at least."""
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{height}" rx="2" fill="{colour}"/>'


def _text(words: str, x: float, y: float, kind: str = "", *, anchor: str = "start") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{shown}>{escape(words)}</text>'


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _page(parts: Sequence[str], height: float) -> str:
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    body = "\n".join([_STYLE, f'<rect class="page" width="{WIDTH}" height="{height:.0f}" rx="6"/>', *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n{body}\n</svg>\n'
