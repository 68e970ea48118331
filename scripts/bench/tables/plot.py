"""Lines on logarithmic axes, as SVG."""
import html
import math
from dataclasses import dataclass

WIDTH, HEIGHT = 460, 340            # of a panel, labels included
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 30, 44
COLOURS = ("#777777", "#e69f00", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#0072b2")


@dataclass(frozen=True)
class Panel:
    title: str                      # of the horizontal axis
    xs: list
    labels: list                    # one for each x
    series: dict                    # name -> the y for each x


class Scale:
    """Maps a range of values onto a range of pixels, by their logarithms."""

    def __init__(self, low, high, start, end):
        self.low, self.span = math.log(low), math.log(high) - math.log(low) or 1
        self.start, self.end = start, end

    def __call__(self, v):
        return self.start + (math.log(v) - self.low) / self.span * (self.end - self.start)


def steps(low, high):
    """1, 2 and 5 of each power of ten between the two."""
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [m * 10.0**t for t in tens for m in (1, 2, 5) if low <= m * 10.0**t <= high]


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(str(words))}</text>'


def panel(p, offset):
    values = [y for ys in p.series.values() for y in ys]
    low, high = min(values) / 1.2, max(values) * 1.2
    across = Scale(p.xs[0], p.xs[-1], offset + LEFT, offset + WIDTH - RIGHT)
    up = Scale(low, high, HEIGHT - BOTTOM, TOP)
    out = []
    for v in steps(low, high):
        out.append(f'<line class="grid" x1="{offset + LEFT}" x2="{offset + WIDTH - RIGHT}" y1="{up(v):.1f}" y2="{up(v):.1f}"/>')
        out.append(text(offset + LEFT - 6, up(v) + 4, f"{v:g}", "end"))
    for x, label in zip(p.xs, p.labels):
        out.append(text(across(x), HEIGHT - BOTTOM + 16, label))
    out.append(text(offset + (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, p.title))
    for colour, ys in zip(COLOURS, p.series.values()):
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(p.xs, ys))
        out.append(f'<polyline points="{points}" stroke="{colour}"/>')
        out += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in zip(p.xs, ys)]
    return out


def draw(file, panels):
    """Writes the panels side by side, with one legend below."""
    names = list(panels[0].series)
    width, height = WIDTH * len(panels), HEIGHT + 12 + 18 * ((len(names) + 1) // 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           "<style>polyline{fill:none;stroke-width:1.8}.grid{stroke:#dddddd}text{fill:#333333}</style>",
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           text(LEFT, 18, "front end's CPU a call, µs", "start")]
    for i, p in enumerate(panels):
        out += panel(p, i * WIDTH)
    for i, (colour, name) in enumerate(zip(COLOURS, names)):
        x, y = LEFT + i % 2 * WIDTH, HEIGHT + 14 + 18 * (i // 2)
        out.append(f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>')
        out.append(text(x + 30, y, name, "start"))
    with open(file, "w") as f:
        f.write("\n".join([*out, "</svg>"]) + "\n")
