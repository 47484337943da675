#!/usr/bin/env python3
"""make_values.py: prints trl_values.inc, what TRL's own trainers make of given log-probabilities.

    .deps/venv5/bin/python tests/plugins/objectives/dpo/make_values.py > tests/plugins/objectives/dpo/trl_values.inc

Their methods are called with a model that returns these log-probabilities, in float64.
"""
import types
import warnings

warnings.filterwarnings('ignore')
import torch
import trl
from trl import DPOTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

LENGTHS = [[3, 5], [4, 2], [6, 6], [1, 7]]   # of the answers, chosen and rejected
PROMPT = 2


def log_probabilities(phase):
    """One row an answer, all chosen ones first; positions are those of labels that are shifted by one."""
    longest = PROMPT + max(max(pair) for pair in LENGTHS)
    rows = [pair[i] for i in (0, 1) for pair in LENGTHS]
    values = torch.arange(len(rows) * (longest - 1), dtype=torch.float64).add(phase).mul(1.3).sin().sub(1.1)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for row, length in enumerate(rows):
        mask[row, PROMPT:PROMPT + length] = 1
    return values.view(len(rows), longest - 1) * mask[:, 1:], mask


class Accelerator:
    device = torch.device('cpu')
    gather_for_metrics = gather = staticmethod(lambda x: x)


def outputs_of(log_probs):
    zeros = torch.zeros_like(log_probs)
    return types.SimpleNamespace(log_probs=log_probs, entropy=zeros, mean_logits=zeros, is_top1=zeros.bool())


def dpo(loss_type, beta, policy, reference, mask):
    import collections
    this = types.SimpleNamespace(
        model=types.SimpleNamespace(training=True), accelerator=Accelerator, aux_loss_enabled=False, ld_alpha=None,
        precompute_ref_logps=True, f_divergence_type='reverse_kl', loss_types=[loss_type], loss_weights=[1.0], beta=beta,
        label_smoothing=0.0, use_weighting=False, _metrics={'train': collections.defaultdict(list)},
        _total_train_tokens=0, _tp_size=1)
    chosen, rejected = reference.sum(1).chunk(2)
    inputs = {'input_ids': torch.zeros_like(mask), 'attention_mask': torch.ones_like(mask), 'completion_mask': mask,
              'ref_chosen_logps': chosen, 'ref_rejected_logps': rejected}
    loss = DPOTrainer._compute_loss(this, lambda **_: outputs_of(policy), inputs, False)
    return loss, this._metrics['train']


def figures(chosen, rejected):
    return {'rewards/chosen': [chosen.mean().item()], 'rewards/rejected': [rejected.mean().item()],
            'rewards/accuracies': [(chosen > rejected).double().mean().item()]}


def orpo(weight, means, nll):
    this = types.SimpleNamespace(beta=weight, accelerator=Accelerator)
    losses, chosen, rejected, *_ = ORPOTrainer.odds_ratio_loss(this, *means)
    return nll - losses.mean(), figures(chosen, rejected)


def simpo(beta, gamma, smoothing, means):
    this = types.SimpleNamespace(beta=beta, simpo_gamma=gamma, label_smoothing=smoothing, alpha=0.0, loss_type='simpo',
                                 accelerator=Accelerator)
    losses, chosen, rejected = CPOTrainer.cpo_loss(this, *means)
    return losses.mean(), figures(chosen, rejected)


def row(numbers):
    return '{' + ', '.join(f'{x:.17g}' for x in numbers) + '}'


def show(name, setting, loss, metrics, policy):
    """Sums over the pairs, and the loss's gradient by answer."""
    gradient = torch.autograd.grad(loss * len(LENGTHS), policy)[0]
    of_answers = [gradient[i][gradient[i] != 0][0].item() for i in range(len(gradient))]
    sums = [len(LENGTHS) * metrics[f'rewards/{key}'][-1] for key in ('chosen', 'rejected', 'accuracies')]
    pairs = [x for i in range(len(LENGTHS)) for x in (of_answers[i], of_answers[i + len(LENGTHS)])]
    print(f'    {{"{name}", {setting}, {len(LENGTHS) * loss.item():.17g}, {row(sums)},\n     {row(pairs)}}},')


def main():
    policy, mask = log_probabilities(0.4)
    reference, _ = log_probabilities(2.9)
    policy.requires_grad_()
    lengths = mask.sum(1)
    in_pairs = lambda x: [value for pair in zip(*x.sum(1).chunk(2)) for value in map(float, pair)]
    means = lambda: (policy.sum(1) / lengths).chunk(2)
    print(f'// Written by make_values.py with trl {trl.__version__}: sums over {len(LENGTHS)} pairs.')
    print(f'const std::vector<double> policy_sums{row(in_pairs(policy))};')
    print(f'const std::vector<double> reference_sums{row(in_pairs(reference))};')
    print(f'const std::vector<double> answer_tokens{row(x for pair in LENGTHS for x in pair)};')
    print('// Each gradient is that of the sum of losses by an answer\'s sum of log-probabilities.')
    print('const std::vector<Expected> expected_of_trl{')
    for beta in (0.1, 0.5):
        show('sigmoid', f'{{.loss = Loss::sigmoid, .beta = {beta}}}', *dpo('sigmoid', beta, policy, reference, mask), policy)
        show('ipo', f'{{.loss = Loss::ipo, .beta = {beta}}}', *dpo('ipo', beta, policy, reference, mask), policy)
    # Its negative log-likelihood is over all tokens of a batch, prompts included; ours is a mean over each chosen answer.
    for weight in (0.1, 1.0):
        show('orpo', f'{{.loss = Loss::orpo, .lambda = {weight}}}', *orpo(weight, means(), -means()[0].mean()), policy)
    for beta, gamma, smoothing in ((2.0, 0.5, 0.0), (0.7, 1.1, 0.2)):
        setting = f'{{.loss = Loss::simpo, .beta = {beta}, .label_smoothing = {smoothing}, .gamma = {gamma}}}'
        show('simpo', setting, *simpo(beta, gamma, smoothing, means()), policy)
    print('};')


if __name__ == '__main__':
    main()
