"""A drawing as an SVG: shapes and words by their places, in one set of colours. tools/draw-parallelism draws with it.

Each picture has a white ground of its own, so that a page in dark mode shows it as one in light mode does. The colours are
Okabe and Ito's, which colour-blind readers tell apart, darkened where white words stand on them.
"""
import html
import math
import re

RANKS = range(4)
WIDTH, EDGE, LABELS = 900, 14, 28      # a picture; what is free around a panel; where the left column begins
INK, QUIET, LINE = '#1f2328', '#57606a', '#8c959f'
# What is drawn: ground, words on it, edge.
PAINT = {'kept': ('#0068a8', '#ffffff', '#004f80'), 'lent': ('#b9dcf2', INK, '#0068a8'), 'absent': ('#ffffff', QUIET, '#b4bcc5'),
         'batch': ('#f3b73e', INK, '#a87400'), 'passing': ('#fbe5b8', INK, '#a87400'),
         'gradient': ('#007a5a', '#ffffff', '#005c44'), 'partial': ('#b5e2d3', INK, '#007a5a'), 'state': ('#a34500', '#ffffff', '#7a3400'),
         'forward': ('#ddd0ea', INK, '#63458a'), 'forward-later': ('#63458a', '#ffffff', '#463063'),
         'backward': ('#f7c9a8', INK, '#a34500'), 'backward-later': ('#a34500', '#ffffff', '#7a3400'), 'wait': ('#e3e7eb', QUIET, '#e3e7eb'),
         'name': ('#24292f', '#ffffff', '#24292f'), 'band': ('#e4e8ed', INK, '#8c959f'), 'panel': ('#f6f8fa', INK, '#d0d7de')}
STYLE = f'''text {{ font: 14px "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; fill: {INK} }}
.small {{ font-size: 13px }}
.head {{ font-size: 18px; font-weight: bold }}
.bold {{ font-weight: bold }}
.code {{ font-family: ui-monospace, Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; font-size: 13px }}
.quiet {{ fill: {QUIET} }}
.light {{ fill: #ffffff }}
.absent {{ stroke-dasharray: 3 3 }}
'''+'\n'.join(f'.{name} {{ fill: {ground}; stroke: {edge} }}' for name, (ground, _, edge) in PAINT.items())
LOOKS = {INK: '', QUIET: ' quiet', '#ffffff': ' light'}     # the look of words in a colour


def short(number):
    return f'{number:.1f}'.removesuffix('.0')


class Drawing:
    def __init__(self):
        self.parts = []

    def rect(self, x, y, width, height, paint, words='', look='small', corner=3):
        """A box with words in its middle."""
        self.parts.append(f'<rect x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}" rx="{corner}" class="{paint}"/>')
        self.words(x + width / 2, y + height / 2, words, look + LOOKS[PAINT[paint][1]], 'middle')

    def words(self, x, middle, text, look='', anchor=''):
        """One line, by the middle of its height; what stands between backticks is code, between asterisks bold."""
        if not text:
            return
        text = re.sub(r'`([^`]+)`', r'<tspan class="code">\1</tspan>', html.escape(text, quote=False))
        text = re.sub(r'\*([^*]+)\*', r'<tspan class="bold">\1</tspan>', text)
        look = f' class="{look}"' if look else ''
        anchor = f' text-anchor="{anchor}"' if anchor else ''
        self.parts.append(f'<text x="{short(x)}" y="{short(middle + 4.8)}"{anchor}{look}>{text}</text>')

    def bar(self, place, size, paints, labels):
        """Equal cells in a row, one a paint."""
        (x, y), (width, height) = place, size
        for i, (paint, label) in enumerate(zip(paints, labels)):
            self.rect(x + i * width / len(paints), y, width / len(paints), height, paint, label, corner=0)

    def stack(self, place, size, paints):
        """Equal cells above one another."""
        (x, y), (width, height) = place, size
        for i, paint in enumerate(paints):
            self.rect(x, y + i * height / len(paints), width, height / len(paints), paint, corner=0)

    def both_ways(self, x, y, width, height, words):
        """A band with a tip at each end: what all ranks below it exchange."""
        tip, middle = height / 2, y + height / 2
        points = [(x, middle), (x + tip, y), (x + width - tip, y), (x + width, middle), (x + width - tip, y + height), (x + tip, y + height)]
        self.parts.append(f'<polygon points="{" ".join(f"{short(a)},{short(b)}" for a, b in points)}" class="band"/>')
        self.words(x + width / 2, middle, words, 'small', 'middle')

    def arrow(self, x1, y1, x2, y2):
        length = math.hypot(x2 - x1, y2 - y1)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        wings = [(x2 - 8 * dx - side * 4 * dy, y2 - 8 * dy + side * 4 * dx) for side in (1, -1)]
        self.line(x1, y1, x2 - 7 * dx, y2 - 7 * dy, INK)
        self.parts.append(f'<polygon points="{" ".join(f"{short(x)},{short(y)}" for x, y in [(x2, y2), *wings])}" fill="{INK}"/>')

    def line(self, x1, y1, x2, y2, ink=LINE):
        self.parts.append(f'<line x1="{short(x1)}" y1="{short(y1)}" x2="{short(x2)}" y2="{short(y2)}" stroke="{ink}" stroke-width="1.2"/>')

    def key(self, x, y, entries):
        """What colours mean, in a line."""
        for paint, label, words, width in entries:
            self.rect(x, y, 20, 20, paint, label, corner=0)
            self.words(x + 26, y + 10, words, 'small')
            x += width

    def under(self, mark, x, y, width, height, paint):
        """A box below all that was drawn since len(parts) was `mark`: its height is known only now."""
        self.rect(x, y, width, height, paint, corner=8)
        self.parts.insert(mark, self.parts.pop())

    def svg(self, height, title, says):
        body = '\n'.join(self.parts)
        return f'''<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="title desc">
<title id="title">{html.escape(title, quote=False)}</title>
<desc id="desc">{html.escape(says, quote=False)}</desc>
<style>
{STYLE}
</style>
<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8" fill="#ffffff" stroke="#d0d7de"/>
{body}
</svg>
'''
