"""Writes a tiny random GPT-2 as transformers saves it, and what transformers computes with it.

    gpt2.py FOLDER

FOLDER gets config.json and model.safetensors (float32, the tied head left out, Conv1D weights [in, out]), and for
each of float32 and float64 a file reference-<dtype>.safetensors with

    ids, labels     int64 [batch, seq]: labels equal ids, or -100 where no loss is asked for; not shifted
    logits          [batch, seq, vocab]
    loss            []: mean cross-entropy of logits[:, :-1] against labels[:, 1:] over labels that are not -100
    target_tokens   int64 []: how many those are
    grad.<name>     d loss / d parameter, named and shaped as in model.safetensors

No dropout; weights of both references are the float32 ones of the file.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

CONFIG = dict(vocab_size=261, n_positions=130, n_embd=48, n_layer=3, n_head=4, n_inner=160,
              activation_function="gelu_new", layer_norm_epsilon=1e-5,
              resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
BATCH, SEQ = 3, 20


def make_model():
    torch.manual_seed(11)
    model = GPT2LMHeadModel(GPT2Config(**CONFIG, attn_implementation="eager"))
    with torch.no_grad():  # away from the initial zeros and ones, so that every term shows in the gradients
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def make_batch():
    generator = torch.Generator().manual_seed(12)
    ids = torch.randint(0, CONFIG["vocab_size"], (BATCH, SEQ), generator=generator)
    labels = ids.clone()
    labels[0, :7] = -100  # a prompt
    labels[1, 15:] = -100  # padding at the end
    return ids, labels


def reference(model, ids, labels):
    model.zero_grad(set_to_none=True)
    logits = model(input_ids=ids).logits
    # transformers' own loss turns logits into float32 whatever their dtype.
    targets = labels[:, 1:].reshape(-1)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), targets, ignore_index=-100)
    loss.backward()
    out = {"ids": ids, "labels": labels, "logits": logits, "loss": loss, "target_tokens": (targets != -100).sum()}
    out.update({f"grad.{name}": parameter.grad for name, parameter in model.named_parameters()})
    return {name: tensor.detach().clone().contiguous() for name, tensor in out.items()}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    model = make_model()
    model.save_pretrained(folder)
    ids, labels = make_batch()
    for dtype in (torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        save_file(reference(model.to(dtype), ids, labels), folder / f"reference-{name}.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main()
