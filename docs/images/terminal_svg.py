#!/usr/bin/env python3
"""Draws what the client prints in colour as an SVG: the pictures of the README are made with it.

usage: headcount --color always heads JOB | docs/images/terminal_svg.py TITLE > docs/images/heads.svg

Understands bold, dim, and 24-bit or 256-colour text and backgrounds, which is all that the client uses.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import escape

CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 14
SGR = re.compile(r"\x1b\[([\d;]*)m")


@dataclass
class Look:
    foreground: str = "#e6e6e6"
    background: str = ""
    bold: bool = False
    dim: bool = False


def apply(look: Look, codes: list[int]) -> Look:
    """The look after one SGR sequence."""
    new = Look(**vars(look))
    while codes:
        code = codes.pop(0)
        if code == 0:
            new = Look()
        elif code == 1:
            new.bold = True
        elif code == 2:
            new.dim = True
        elif code in (38, 48) and codes:
            if codes.pop(0) == 2:
                color = "#{:02x}{:02x}{:02x}".format(*codes[:3])
                del codes[:3]
            else:
                color = "#000000" if codes.pop(0) == 16 else "#ffffff"
            if code == 38:
                new.foreground = color
            else:
                new.background = color
    return new


def main() -> None:
    title = sys.argv[1] if len(sys.argv) > 1 else ""
    lines = [f"$ {title}", *sys.stdin.read().rstrip("\n").split("\n")]
    widest = max(len(SGR.sub("", line)) for line in lines)
    width, height = widest * CELL_WIDTH + 2 * MARGIN, len(lines) * CELL_HEIGHT + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#1e1e1e"/>',
    ]
    for row, line in enumerate(lines):
        look, column = Look(), 0
        top = MARGIN + row * CELL_HEIGHT
        for i, part in enumerate(SGR.split(line)):
            if i % 2 == 1:
                look = apply(look, [int(code or 0) for code in part.split(";")])
                continue
            x = MARGIN + column * CELL_WIDTH
            if look.background:
                out.append(
                    f'<rect x="{x:.1f}" y="{top}" width="{len(part) * CELL_WIDTH:.1f}" height="{CELL_HEIGHT}" '
                    f'fill="{look.background}" shape-rendering="crispEdges"/>'
                )
            for word in re.finditer(r"\S+(?: \S+)*", part):
                weight = ' font-weight="bold"' if look.bold else ""
                opacity = ' opacity="0.65"' if look.dim else ""
                at = x + word.start() * CELL_WIDTH
                out.append(
                    f'<text x="{at:.1f}" y="{top + 13}" textLength="{len(word.group()) * CELL_WIDTH:.1f}" '
                    f'fill="{look.foreground}"{weight}{opacity}>{escape(word.group())}</text>'
                )
            column += len(part)
    print("\n".join([*out, "</svg>"]))


if __name__ == "__main__":
    main()
