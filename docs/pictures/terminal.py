#!/usr/bin/env python3
"""Draws what a program has printed as a picture of a terminal.

    make demo | python3 docs/pictures/terminal.py COMMAND >docs/pictures/demo.svg
"""

import sys
from html import escape

WIDTH, SIZE, LINE = 100, 13, 18  # columns; of the font; from one line to the next


def draw(command: str, lines: list[str]) -> str:
    """An SVG of the command and its lines; those that are too long are broken."""
    shown = [f"$ {command}"]
    for line in lines:
        while len(line) > WIDTH:
            cut = line.rfind(" ", 0, WIDTH) if " " in line[:WIDTH] else WIDTH
            shown.append(line[:cut])
            line = "    " + line[cut:].lstrip()
        shown.append(line)
    width, height = int(WIDTH * SIZE * 0.61) + 32, LINE * len(shown) + 48
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>What {escape(command)} prints</title>",
        '<rect width="100%" height="100%" rx="8" fill="#161b22"/>',
        *(f'<circle cx="{18 + 18 * i}" cy="16" r="5" fill="#484f58"/>' for i in range(3)),
        f'<g font-family="Menlo,DejaVu Sans Mono,Liberation Mono,monospace" font-size="{SIZE}" fill="#e6edf3">',
    ]
    for number, line in enumerate(shown):
        colour = ' fill="#58a6ff"' if number == 0 else ""
        y = 44 + LINE * number
        parts.append(f'<text x="16" y="{y}" xml:space="preserve"{colour}>{escape(line)}</text>')
    return "\n".join([*parts, "</g></svg>\n"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(draw(sys.argv[1], sys.stdin.read().rstrip().splitlines()))
