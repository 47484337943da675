"""Who keeps what by each mode of sharding: the grids of docs/sharding.md in one picture."""
from .svg import EDGE, LABELS, RANKS, WIDTH, Drawing

HOLDS = '''Under no_shard every rank keeps all parameters, gradients and optimizer state. Stage 1 shards the optimizer state, and the gradients
once they are summed; stage 2 shards gradients and optimizer state; shard_grad_op and full_shard (stage 3) shard all three; hybrid_shard
shards all three inside each of two groups of two ranks.'''
# Each role of docs/sharding.md: a sharded one's paint, and that of what is there for a while.
ROLES = (('parameter', 'kept', 'lent'), ('gradient', 'gradient', 'partial'), ('optimizer', 'state', ''))
# Its names; what crosses; by role who keeps a quarter, and if the others have it for a while; bytes a parameter on 4 ranks in bf16 (the
# document's table of sums), and what else.
MODES = (
    ('`mode = "no_shard"`, `stage = 0`, no strategy', 'a step: an all-reduce of gradients', ('each', 'each', 'each'), '18', ''),
    ('`stage = 1`', 'a step: a reduce-scatter of gradients, an all-gather of parameters', ('each', 'one, at last', 'one'), '10', 'with accumulation, else 6'),
    ('`stage = 2`', 'a micro-step: a reduce-scatter; a step: an all-gather', ('each', 'one', 'one'), '6', ''),
    ('`mode = "shard_grad_op"`', 'a micro-step: an all-gather, a reduce-scatter', ('one, at first', 'one', 'one'), '4.5', 'and 2 while gathered'),
    ('`mode = "full_shard"`, `stage = 3`', 'a micro-step: two all-gathers, a reduce-scatter', ('one', 'one', 'one'), '4.5', 'and two units at work'),
    ('`mode = "hybrid_shard"`', 'as full_shard in groups of `shard_size = 2`, and an all-reduce of gradients between them', ('pair', 'pair', 'pair'), '9', 'and two units at work'))
BARS, BETWEEN, BAR, NUMBERS = 122, 144, 132, 706   # rank 0's bars, the distance to the next rank's, their width; bytes


def mode(drawing, y, names, crosses, keepers, size, besides):
    drawing.words(LABELS, y + 20, names, 'bold')
    drawing.words(WIDTH - LABELS, y + 20, crosses, 'small quiet', 'end')
    for i, (role, whole, other) in enumerate(ROLES):
        top = y + 38 + i * 23
        drawing.words(LABELS, top + 10, role, 'small')
        for rank in RANKS:
            paints = [whole if keeps(keepers[i], rank, quarter) else other if ' ' in keepers[i] else 'absent' for quarter in range(4)]
            drawing.bar((BARS + rank * BETWEEN, top), (BAR, 20), paints, '0123')
    drawing.words(NUMBERS, y + (60 if besides else 71), size, 'head')
    drawing.words(NUMBERS, y + 82, besides, 'small quiet')
    return y + 38 + 3 * 23 + 6


def keeps(keeper, rank, quarter):
    return keeper == 'each' or (quarter // 2 == rank % 2 if keeper == 'pair' else quarter == rank)


HELD = (('kept', '', 'parameters', 118), ('gradient', '', 'gradients', 112), ('state', '', 'masters and moments', 190), ('absent', '', 'not on this rank', 150),
        ('lent', '', '', 24), ('partial', '', 'there for a part of the step', 0))


def storage():
    drawing = Drawing()
    drawing.key(LABELS, EDGE, HELD)
    for rank in RANKS:
        drawing.words(BARS + rank * BETWEEN + BAR / 2, EDGE + 44, f'rank {rank}', 'bold', 'middle')
    drawing.words(NUMBERS, EDGE + 44, 'bytes a parameter', 'bold')
    y = EDGE + 62
    for each in MODES:
        mark, end = len(drawing.parts), mode(drawing, y, *each)
        drawing.under(mark, EDGE, y, WIDTH - 2 * EDGE, end - y, 'panel')
        y = end + 8
    drawing.words(LABELS, y + 10, 'A digit is a quarter of every tensor. `mode` is an option of `[strategy.fsdp]`, `stage` of `[strategy.zero]`.', 'small quiet')
    drawing.words(LABELS, y + 28, 'Bytes are those of AdamW in bf16 or fp16, with masters and gradients in fp32; activations and buffers come on top.', 'small quiet')
    return drawing.svg(y + 46, 'Who keeps what on four ranks, by mode of sharding', HOLDS)
