#!/usr/bin/env python3
"""Writes vectors.inc: what bitsandbytes' blockwise AdamW8bit makes of a few gradients.

    python3 -m venv /tmp/bnb && /tmp/bnb/bin/pip install bitsandbytes==0.50.2 torch numpy
    /tmp/bnb/bin/python make_vectors.py > vectors.inc

The code books come from bitsandbytes itself (functional.create_dynamic_map). The updates come from a transcription of
its CUDA kernel, kOptimizerStatic8bit2StateBlockwise<ADAM> with quantize_2D (csrc/cuda/optimizers.cu of 0.50.2, the same
in csrc/kernels.cu of earlier versions), in numpy's float32: its CPU path is another algorithm, which finds codes in a
table of 65,536 equal steps and so misses the nearest code of small squares. The transcription differs from the compiled
kernel in rounding only: powers and quotients are exact here, approximate there, and nvcc fuses products and sums.
"""
import bitsandbytes.functional as functional
import numpy as np

F = np.float32
BLOCK = 256


def quantize_2d(book, x, signed):
    """The search of quantize_2D, one number at a time, with its pivots and midpoints."""
    pivot, upper_pivot, lower_pivot = 127, 255, 0
    lower, upper = F(-1 if signed else 0), F(1)
    value = book[pivot]
    step = 64
    while step > 0:
        if x > value:
            lower_pivot, lower = pivot, value
            pivot += step
        else:
            upper_pivot, upper = pivot, value
            pivot -= step
        value = book[pivot]
        step //= 2
    if x > value:
        return upper_pivot if x > F(F(upper + value) * F(0.5)) else pivot
    return lower_pivot if x < F(F(lower + value) * F(0.5)) else pivot


def encode(books, averages, squares, scale1, scale2):
    codes = np.zeros(averages.size, np.uint8), np.zeros(averages.size, np.uint8)
    for i, (average, square) in enumerate(zip(averages, squares)):
        code = quantize_2d(books[0], F(average / scale1), True)
        if np.signbit(books[0][code]) != np.signbit(average):
            code += 1 if average > 0 else -1
        codes[0][i] = code
        codes[1][i] = quantize_2d(books[1], F(square / scale2), False)
    return codes


def step(books, state, params, grads, number, lr, betas, eps, weight_decay, grad_factor):
    beta1, beta2 = F(betas[0]), F(betas[1])
    correction1 = F(1.0 - float(beta1) ** number)
    correction2 = F(np.sqrt(1.0 - float(beta2) ** number))
    step_size = F(F(-F(lr) * correction2) / correction1)
    for begin in range(0, params.size, BLOCK):
        part, block = slice(begin, min(begin + BLOCK, params.size)), begin // BLOCK
        g = F(grads[part] * F(grad_factor))
        square = books[1][state['codes2'][part]] * state['scales2'][block]
        square = square * beta2 + (F(1) - beta2) * g * g
        average = books[0][state['codes1'][part]] * state['scales1'][block]
        average = average * beta1 + (F(1) - beta1) * g
        state['scales1'][block], state['scales2'][block] = np.abs(average).max(), np.abs(square).max()
        params[part] += step_size * (average / (np.sqrt(square) + correction2 * F(eps)))
        if weight_decay > 0:
            params[part] *= F(1) - F(lr) * F(weight_decay)
        state['codes1'][part], state['codes2'][part] = encode(books, average, square, state['scales1'][block],
                                                              state['scales2'][block])


def gradients(size, number):
    """Whole multiples of 2^-20 of many magnitudes, which the test computes too."""
    i = np.arange(size, dtype=np.int64)
    mixed = (i * 7919 + number * 104729 + (i * i) % 8191 * 31) % 65536 - 32768
    return (mixed.astype(np.float64) * 2.0 ** -(20 + (i * 5 + number) % 13)).astype(F)


def array(kind, name, values):
    text = ', '.join(values)
    lines, line = [], ''
    for word in text.split(' '):
        if len(line) + len(word) + 1 > 116:
            lines.append(line)
            line = ''
        line += (' ' if line else '') + word
    lines.append(line)
    return 'constexpr %s %s[] = {\n    %s};\n' % (kind, name, '\n    '.join(lines))


def floats(values):
    """Hexadecimal, without zeros at the end."""
    parts = (float(value).hex().split('p') for value in values)
    return [f"{fraction.rstrip('0').rstrip('.') if '.' in fraction else fraction}p{power}F" for fraction, power in parts]


def main():
    books = [functional.create_dynamic_map(signed=signed).numpy() for signed in (True, False)]
    print('// Written by make_vectors.py.')
    print('// clang-format off')
    print(array('float', 'signed_book', floats(books[0])))
    print(array('float', 'unsigned_book', floats(books[1])))
    size, steps = BLOCK + 21, 4
    state = {'codes1': np.zeros(size, np.uint8), 'codes2': np.zeros(size, np.uint8),
             'scales1': np.zeros(2, F), 'scales2': np.zeros(2, F)}
    params = (np.arange(size) % 17 - 8).astype(F) * F(0.125)
    for number in range(1, steps + 1):
        step(books, state, params, gradients(size, number), number, lr=1e-2, betas=(0.9, 0.98), eps=1e-8,
             weight_decay=0.1, grad_factor=0.5)
        for name in ('codes1', 'codes2'):
            print(array('std::uint8_t', f'{name}_{number}', map(str, state[name])))
        for name in ('scales1', 'scales2'):
            print(array('float', f'{name}_{number}', floats(state[name])))
        print(array('float', f'params_{number}', floats(params)))


if __name__ == '__main__':
    main()
