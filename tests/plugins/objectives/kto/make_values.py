#!/usr/bin/env python3
"""make_values.py: prints trl_values.inc, what TRL's own trainer makes of given log-probabilities.

    .deps/venv5/bin/python tests/plugins/objectives/kto/make_values.py > tests/plugins/objectives/kto/trl_values.inc

Its method is called with a model that returns these log-probabilities, in float64.
"""
import collections
import types
import warnings

warnings.filterwarnings('ignore')
import torch
import trl
from trl import KTOTrainer

WANTED = [True, False, True, True, False]
POSITIONS = 6


def log_probabilities(phase):
    """One row an answer."""
    return torch.arange(len(WANTED) * POSITIONS, dtype=torch.float64).add(phase).mul(1.3).sin().sub(1.1).view(-1, POSITIONS)


class Accelerator:
    device = torch.device('cpu')
    gather_for_metrics = gather = staticmethod(lambda x: x)


def kto(beta, desirable, undesirable, policy, reference, other):
    def outputs(**_):
        zeros = torch.zeros_like(policy)
        return types.SimpleNamespace(log_probs=policy, entropy=zeros, mean_logits=zeros)

    this = types.SimpleNamespace(
        model=types.SimpleNamespace(training=True), accelerator=Accelerator, aux_loss_enabled=False, calculate_KL=True,
        precompute_ref_logps=True, loss_type='kto', beta=beta, desirable_weight=desirable, undesirable_weight=undesirable,
        _compute_kl_logps=lambda model, batch: other, _metrics={'train': collections.defaultdict(list)},
        _total_train_tokens=0, _tp_size=1)
    mask = torch.ones(len(WANTED), POSITIONS + 1, dtype=torch.long)
    inputs = {'input_ids': torch.zeros_like(mask), 'attention_mask': mask, 'completion_mask': mask,
              'label': torch.tensor(WANTED), 'ref_logps': reference.sum(1), 'ref_KL_logps': torch.zeros_like(other)}
    return KTOTrainer._compute_loss(this, outputs, inputs, False), this._metrics['train']


def row(numbers):
    return '{' + ', '.join(f'{x:.17g}' for x in numbers) + '}'


def main():
    policy, reference = log_probabilities(0.4).requires_grad_(), log_probabilities(2.9)
    count, wanted = len(WANTED), sum(WANTED)
    print(f'// Written by make_values.py with trl {trl.__version__}: sums over {count} answers.')
    print(f'const std::vector<double> ratios{row((policy - reference).sum(1).tolist())};')
    print(f'const std::vector<double> wanted{row(map(int, WANTED))};')
    print('// Each gradient is that of the sum of losses by an answer\'s sum of log-probabilities.')
    print('const std::vector<Expected> expected_of_trl{')
    for beta, desirable, undesirable, divergence in ((0.1, 1.0, 1.0, 0.3), (0.5, 1.0, 1.5, 0.0), (0.3, 2.0, 0.7, -0.4)):
        other = torch.full((count,), divergence, dtype=torch.float64)
        loss, metrics = kto(beta, desirable, undesirable, policy, reference, other)
        gradient = torch.autograd.grad(loss * count, policy)[0][:, 0]
        rewards = (metrics['rewards/chosen'][-1] * wanted, metrics['rewards/rejected'][-1] * (count - wanted))
        print(f'    {{{{{beta}, {desirable}, {undesirable}}}, {divergence}, {count * loss.item():.17g}, {row(rewards)},\n'
              f'     {row(gradient.tolist())}}},')
    print('};')


if __name__ == '__main__':
    main()
