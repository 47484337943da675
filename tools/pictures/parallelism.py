"""Who holds and sends what by each kind of parallelism: a panel each. What they say stands in docs/parallelism.md."""
from .svg import EDGE, LABELS, RANKS, WIDTH, Drawing

NAME = 124                                 # how wide a collective's name is
FIRST, STEP, BOX = 168, 178, 164           # rank 0's column, the distance to the next one, and how wide each is
RIGHT = FIRST + 3 * STEP + BOX
CELL = (RIGHT - FIRST) / 42                # a forward of half a rank's blocks; the longest table takes 42 such


def column(rank):
    return FIRST + rank * STEP


def own(rank, paint='kept'):
    """The paints of a bar of four, one of which the rank has."""
    return [paint if i == rank else 'absent' for i in RANKS]


class Panel:
    """Rows from the top down, with what they are on the left and the ranks' columns on the right."""

    def __init__(self, drawing, y, title, option, says):
        self.drawing, self.top, self.mark = drawing, y, len(drawing.parts)
        drawing.words(LABELS, y + 22, title, 'head')
        drawing.words(RIGHT, y + 22, f'`{option}`', '', 'end')
        drawing.words(LABELS, y + 47, says, 'quiet')
        self.y = y + 66

    def ranks(self):
        for rank in RANKS:
            self.drawing.words(column(rank) + BOX / 2, self.y + 8, f'rank {rank}', 'bold', 'middle')
        self.y += 24

    def row(self, height, label, note=''):
        """Where the row begins."""
        y, self.y = self.y, self.y + height + 8
        self.drawing.words(LABELS, y + height / 2 - (8 if note else 0), label, 'small bold')
        if note:
            self.drawing.words(LABELS, y + height / 2 + 8, note, 'small quiet')
        return y

    def boxes(self, label, words, paint):
        y = self.row(24, label)
        for rank in RANKS:
            self.drawing.rect(column(rank), y, BOX, 24, paint, words[rank])

    def name(self, y, collective):
        self.drawing.rect(LABELS, y, NAME, 24, 'name', collective, 'small bold', corner=12)

    def collective(self, name, words):
        y, self.y = self.y, self.y + 32
        self.name(y, name)
        self.drawing.both_ways(FIRST, y, RIGHT - FIRST, 24, words)

    def says(self, words):
        self.drawing.words(LABELS, self.y + 8, words, 'small quiet')
        self.y += 22

    def end(self):
        """Where the next panel begins."""
        self.drawing.under(self.mark, EDGE, self.top, WIDTH - 2 * EDGE, self.y + 4 - self.top, 'panel')
        return self.y + 18


def bars(panel, label, note, paints_of, labels='0123'):
    y = panel.row(30, label, note) + 2
    for rank in RANKS:
        panel.drawing.bar((column(rank), y), (BOX, 26), paints_of(rank), labels)


def data_parallelism(drawing, y):
    panel = Panel(drawing, y, 'Data parallelism, full_shard', '[strategy.fsdp] mode = "full_shard"',
                  'Each rank has samples of its own and a quarter (0 to 3) of every tensor. No rank ever holds the whole model.')
    panel.ranks()
    panel.boxes('batch', [f'samples {letter}' for letter in 'abcd'], 'batch')
    bars(panel, 'parameters', '', own)
    panel.collective('all-gather', "a unit's parameters (one block's): before its forward, and again before its backward")
    bars(panel, 'at work', 'one unit, then freed', lambda rank: ['kept' if i == rank else 'lent' for i in RANKS])
    panel.collective('reduce-scatter', "a unit's gradients, after its backward: each rank gets the sum of its quarter")
    bars(panel, 'gradients', 'and optimizer state', lambda rank: own(rank, 'gradient'))
    panel.says('Then each rank updates its quarter. Without a strategy every rank keeps all quarters, and gradients are all-reduced.')
    return panel.end()


def matrices(panel, label, note, by_rows, by_columns, caption):
    """Two split matrices a rank; the second one takes what the first one gives."""
    y = panel.row(72, label, note)
    for rank in RANKS:
        x = column(rank)
        for i, name in enumerate((by_rows, by_columns)):
            panel.drawing.words(x + 38 + 88 * i, y + 7, name, 'small', 'middle')
        panel.drawing.stack((x, y + 17), (76, 36), own(rank))
        panel.drawing.bar((x + 88, y + 17), (76, 36), own(rank), [''] * 4)
        panel.drawing.words(x + BOX / 2, y + 64, caption(rank), 'small', 'middle')


def part(rank, letter):
    names = ['0', f'{letter}/4', f'{letter}/2', f'3{letter}/4', letter]
    return f'{names[rank]} … {names[rank + 1]}'


def tensor_parallelism(drawing, y):
    panel = Panel(drawing, y, 'Tensor parallelism', '[strategy.tensor_parallel] size = 4',
                  'All ranks have the same samples, each a quarter of every matrix: of its rows (outputs) or its columns (inputs).')
    panel.ranks()
    panel.boxes('batch', ['samples a'] * 4, 'batch')
    y = panel.row(40, 'embedding, head', 'by rows: words')
    for rank in RANKS:
        drawing.stack((column(rank), y + 2), (76, 36), own(rank))
        drawing.words(column(rank) + 126, y + 20, part(rank, 'V'), 'small', 'middle')
    panel.collective('all-reduce', "forward: rows looked up, for the loss two numbers a token; backward: the gradient of the head's input")
    matrices(panel, 'attention', 'by rows, by columns', 'q k v', 'o', lambda rank: f'heads {2 * rank}, {2 * rank + 1}')
    panel.collective('all-reduce', "forward: the sum of what o gives; backward: the gradient of q k v's input")
    matrices(panel, 'feed-forward', 'by rows, by columns', 'gate up', 'down', lambda rank: f'features {part(rank, "F")}')
    panel.collective('all-reduce', "forward: the sum of what down gives; backward: the gradient of gate up's input")
    panel.boxes('norms, router', ['whole'] * 4, 'kept')
    panel.says('`sequence_parallel`: in place of an all-reduce a reduce-scatter, and an all-gather before the next split matrix;')
    panel.says('in between (residual stream, norms, dropout) each rank keeps a quarter of the positions.')
    return panel.end()


# Rows as capstan check draws them for 4 ranks and 4 micro-batches: a cell is as long as one forward of a stage.
TABLES = {'1f1b': '''F0 F1 F2 F3 .  .  .  .  .  .  B0 -  .  B1 -  .  B2 -  .  B3 -
.  F0 F1 F2 .  .  .  .  B0 -  F3 B1 -  .  B2 -  .  B3 -  .  .
.  .  F0 F1 .  .  B0 -  F2 B1 -  F3 B2 -  .  B3 -  .  .  .  .
.  .  .  F0 B0 -  F1 B1 -  F2 B2 -  F3 B3 -  .  .  .  .  .  .''',
          'interleaved': '''0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 . . . . . . 4B0 - . 4B1 - . 4B2 - . 4B3 - 0B0 - 0B1 - 0B2 - 0B3 -
. 1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 . . . 5B0 - . 5B1 - . 5B2 - . 5B3 - 1B0 - 1B1 - 1B2 - 1B3 - . .
. . 2F0 2F1 2F2 2F3 6F0 6F1 6F2 . 6B0 - 6F3 6B1 - . 6B2 - . 6B3 - 2B0 - 2B1 - 2B2 - 2B3 - . . . .
. . . 3F0 3F1 3F2 3F3 7F0 7B0 - 7F1 7B1 - 7F2 7B2 - 7F3 7B3 - 3B0 - 3B1 - 3B2 - 3B3 - . . . . . .'''}


def stages(panel, lines):
    y, width = panel.row(42, 'parameters'), BOX - 22
    for rank in RANKS:
        x = column(rank) + 11
        panel.drawing.rect(x, y, width, 42, 'kept')
        for i, line in enumerate(lines[rank]):
            panel.drawing.words(x + width / 2, y + 12 + 18 * i, line, 'small light', 'middle')
        if rank < 3:
            panel.drawing.arrow(x + width + 3, y + 13, column(rank + 1) + 8, y + 13)
            panel.drawing.arrow(column(rank + 1) + 8, y + 29, x + width + 3, y + 29)


def schedule(panel, name, says, cell):
    """A table, to scale: of two schedules the shorter one is the faster one."""
    rows = [row.split() for row in TABLES[name].splitlines()]
    waits = sum(row.count('.') for row in rows) / sum(map(len, rows))
    panel.drawing.words(LABELS, panel.y + 10, f'`schedule = "{name}"`  {says}', 'small')
    panel.drawing.words(RIGHT, panel.y + 10, f'*ranks wait for {waits:.0%}*'.replace('%', ' %'), 'small', 'end')
    panel.y += 24
    for rank, row in enumerate(rows):
        panel.drawing.words(FIRST - 10, panel.y + 10, f'rank {rank}', 'small', 'end')
        panel.drawing.rect(FIRST, panel.y, len(row) * cell, 20, 'wait', corner=0)
        for i, what in enumerate(row):
            if what not in '.-':
                panel.drawing.rect(FIRST + i * cell, panel.y, (2 if 'B' in what else 1) * cell, 20, paint_of(what), what[-1], corner=0)
        panel.y += 22
    panel.y += 8


def paint_of(what):
    return ('forward' if 'F' in what else 'backward') + ('-later' if what[0] in '4567' else '')


SLOTS = (('forward', '0', 'forward of micro-batch 0', 200), ('backward', '0', 'its backward', 126), ('forward-later', '0', '', 24),
         ('backward-later', '0', "in the rank's second stage", 210), ('wait', '', 'the rank waits', 0))


def pipeline_parallelism(drawing, y):
    panel = Panel(drawing, y, 'Pipeline parallelism', '[strategy.pipeline_parallel] size = 4',
                  'Each rank has a stage of the model. The same micro-batches pass through all of them, one after the other.')
    panel.ranks()
    bars(panel, 'batch', '4 micro-batches', lambda rank: ['batch'] * 4)
    stages(panel, (('stage 0: embedding,', 'blocks 0, 1'), ('stage 1:', 'blocks 2, 3'), ('stage 2:', 'blocks 4, 5'), ('stage 3:', 'blocks 6, 7, head')))
    y, panel.y = panel.y, panel.y + 32
    panel.name(y, 'send, receive')
    drawing.words(FIRST, y + 12, 'of each micro-batch: hidden states to the next rank, in backward their gradients to the one before', 'small')
    schedule(panel, '1f1b', 'the default: one stage a rank', 2 * CELL)
    schedule(panel, 'interleaved', 'two stages a rank, blocks 0 and 4 on rank 0; twice as much is sent', CELL)
    drawing.key(FIRST, panel.y, SLOTS)
    panel.y += 26
    return panel.end()


CHOICES = ((0, 3, 5, 1), (0, 2, 0, 6), (4, 7, 1, 3), (5, 1, 2, 7))        # the expert of each token of each rank
SENDERS = ('#0068a8', '#a34500', '#007a5a', '#63458a')                  # the colours of the lines from each rank
TOKEN = 24


def draw_experts(drawing, y):
    """(rank, token) -> where it arrives."""
    places = {}
    for expert in range(8):
        x = column(expert // 2) + expert % 2 * (BOX / 2 + 2)
        drawing.rect(x, y + TOKEN + 4, BOX / 2 - 2, TOKEN, 'kept', f'expert {expert}')
        arrived = [(rank, i) for rank in RANKS for i in range(4) if CHOICES[rank][i] == expert]
        for i, token in enumerate(arrived):
            left = x + BOX / 4 - len(arrived) * 13 + i * 26
            drawing.rect(left + 1, y, TOKEN, TOKEN, 'batch', 'abcd'[token[0]])
            places[token] = (left + 13, y)
    return places


def expert_parallelism(drawing, y):
    panel = Panel(drawing, y, 'Expert parallelism', '[strategy.expert_parallel] size = 4',
                  'Each rank has samples of its own and a quarter of the experts of each layer. Tokens travel to their experts and back.')
    panel.ranks()
    panel.boxes('batch', [f'samples {letter}' for letter in 'abcd'], 'batch')
    panel.boxes('dense layers', ['all of them'] * 4, 'kept')
    tokens = panel.row(TOKEN + 6, 'tokens', 'and their experts')
    panel.name(panel.y + 2, 'all-to-all')
    panel.drawing.words(LABELS + NAME / 2, panel.y + 36, 'counts, then rows', 'small quiet', 'middle')
    panel.y += 46
    places = draw_experts(drawing, panel.row(2 * TOKEN + 4, 'tokens', 'at their experts'))
    for rank in RANKS:
        for i, expert in enumerate(CHOICES[rank]):
            x = column(rank) + 20 + i * 34
            drawing.rect(x, tokens, TOKEN, TOKEN, 'batch', str(expert))
            drawing.line(x + TOKEN / 2, tokens + TOKEN, *places[rank, i], SENDERS[rank])
    panel.collective('all-to-all', 'results back to the ranks of their tokens; in backward two more, with gradients of results and of rows')
    panel.collective('all-reduce', "gradients of the dense layers. An expert's are complete: all its tokens were here")
    panel.says("Drawn with one expert a token. How many rows go to each rank is the routers' choice; none is dropped.")
    panel.says('With dp > 1 gradients of experts are summed over the ranks that have the same ones, those of dense layers over all.')
    return panel.end()


def ring(panel):
    """Which keys and values each rank computes with at each step: those of the rank that many places before it."""
    y, panel.y = panel.y, panel.y + 134
    panel.name(y, 'send, receive')
    panel.drawing.words(FIRST, y + 12, '`ring` (never by `auto`): each rank attends to k v (keys, values) of two chunks while it passes them on', 'small')
    for step in range(4):
        top = y + 30 + step * 25
        panel.drawing.words(FIRST - 12, top + 10, f'step {step}', 'small', 'end')
        for rank in RANKS:
            owner = (rank - step) % 4
            panel.drawing.rect(column(rank) + 16, top, BOX - 32, 20, 'passing' if step else 'batch', f'k v of {owner}, {7 - owner}')
        if step < 3:
            pass_on(panel.drawing, top + 10)


def pass_on(drawing, y):
    """From each rank to the next one's step below; from the last to the first the arrow leaves and comes in again."""
    for rank in range(3):
        drawing.arrow(column(rank) + BOX - 14, y + 3, column(rank + 1) + 15, y + 22)
    drawing.arrow(RIGHT - 14, y + 3, RIGHT + 8, y + 12)
    drawing.arrow(FIRST - 7, y + 13, FIRST + 15, y + 22)


def context_parallelism(drawing, y):
    panel = Panel(drawing, y, 'Context parallelism', '[strategy.context_parallel] size = 4',
                  'All ranks have the same samples and the whole model, each a quarter of the columns, which are the tokens of a row.')
    panel.ranks()
    bars(panel, 'batch: samples a', '8 chunks a row', lambda rank: ['batch' if i in (rank, 7 - rank) else 'absent' for i in range(8)], '01234567')
    panel.boxes('parameters', ['all layers'] * 4, 'kept')
    panel.says('Only attention looks at other columns. How it gets them is a choice:')
    panel.collective('all-to-all', '`ulysses` (`auto`, if heads can be divided): all columns of a quarter of the heads, and back')
    panel.collective('all-gather', "`gather` (`auto`, if not): all keys and values, for the rank's own queries")
    ring(panel)
    panel.says('In backward k v go round again, and their gradients go with them until these are home.')
    panel.collective('all-reduce', 'gradients. For parameters these ranks are data ranks: fsdp and zero shard over them too')
    return panel.end()


ABOUT = '''Full sharding: each rank has samples of its own and keeps a quarter of parameters, gradients and optimizer state; a unit's parameters
are all-gathered before its forward and before its backward, and its gradients reduce-scattered after it. Tensor parallelism: the same
samples on all ranks; q, k, v, gate and up are split by rows, o and down by columns, with an all-reduce after o and after down and as many
in backward. Pipeline parallelism: each rank has a stage; hidden states and their gradients are sent between neighbours; 1f1b waits for
43 % of the time with 4 micro-batches, interleaved with two stages a rank for 27 %. Expert parallelism: each rank has samples of its own,
all dense layers and a quarter of the experts; all-to-alls take tokens to their experts and results back. Context parallelism: each rank
has two chunks of every row's columns; attention sees the others by ulysses (all-to-all of heads), gather (all-gather of keys and values)
or ring (keys and values are sent from rank to rank).'''
PANELS = (data_parallelism, tensor_parallelism, pipeline_parallelism, expert_parallelism, context_parallelism)
KEY = (('kept', '', 'parameters held', 156), ('lent', '', 'gathered, for a while', 186), ('absent', '', 'on another rank', 146),
       ('batch', '', 'samples, tokens', 154), ('gradient', '', 'gradients, optimizer state', 0))


def parallelism():
    drawing = Drawing()
    drawing.key(LABELS, EDGE, KEY)
    y = EDGE + 32
    for panel in PANELS:
        y = panel(drawing, y)
    return drawing.svg(y, 'Five kinds of parallelism, each on four ranks', ABOUT)
