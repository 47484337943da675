"""Writes tiny random models of every family as transformers saves them, and what transformers and PyTorch do with them.

    models.py FOLDER
    models.py FOLDER steps NAME…
    models.py FOLDER SEEDS

For each case of CASES, FOLDER/<case> gets config.json and model.safetensors (float32), as save_pretrained writes them,
and for each of float32 and float64

    reference-<dtype>.safetensors
        ids, labels     int64 [batch, seq]: labels equal ids, or -100 where no loss is asked for; not shifted
        real            bool [batch, seq]: false for padding
        logits          [batch, seq, vocab]
        loss            []: mean cross-entropy of logits[:, :-1] against labels[:, 1:] over labels that are not -100
        aux_loss        []: what routers add to it, coefficient included; 0 for other models
        target_tokens   int64 []: how many those are
    gradients-<dtype>/model.safetensors
        d (loss + aux_loss) / d parameter, under the names and shapes of model.safetensors

With "steps", of the models with these names, which are drawn again, since this is what takes long; "NAME:short" trains only for
the first 5 of 20 steps, and only in float64

    steps-<dtype>.safetensors
        steps.ids, steps.labels    int64 [steps, micro-batches, batch, seq]
        steps.losses    [steps]: a plain PyTorch loop with AdamW, warm-up and linear decay, before each step's update
        prompts.ids, prompts.lengths    int64 [prompts, longest], [prompts]
        answers         int64 [prompts, new tokens]: greedy generation up to END, filled up with -1 (float32 only)
        bfloat16.logits [batch, seq, vocab]: what transformers computes in bfloat16 from ids, as float32 (float32 only)

With SEEDS, for GPUs: models whose sizes their kernels are made for, SEEDS times each, FOLDER/<case>-<seed>, with

    reference-cuda.safetensors
        ids             int64 [batch, seq]
        logits          [batch, seq, vocab] in float32 on the GPU
        bfloat16.logits [batch, seq, vocab]: in bfloat16 there, by the attention that transformers chooses itself

No dropout. In float64 transformers' own float32 detours (norms, softmax, rotary angles, slopes) are float64 too.
"""
import contextlib
import copy
import json
import os
import pathlib
import sys
import unittest.mock

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import BloomForCausalLM

from families import CASES, ON_GPU, VOCAB

BATCH, SEQ, STEPS, SHORT, MICRO, NEW_TOKENS = 3, 20, 20, 5, 2, 12
END = 256  # what Capstan's byte tokenizer ends an answer with


# The plain implementations: transformers 5 has one for experts too, and its fused one does not take tiny sizes.
PLAIN = {"attn_implementation": "eager"}
if int(transformers.__version__.split(".")[0]) >= 5:
    PLAIN["experts_implementation"] = "eager"


# Those of CAPSTAN_PARITY_CASES ("gemma2,gemma3-window"), or all.
ONLY = os.environ.get("CAPSTAN_PARITY_CASES", "")
CASES = {name: make for name, make in CASES.items() if not ONLY or name in ONLY.split(",")}


def auto_class(folder):
    """The one that opens this folder: models around a text model have their own."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    return transformers.AutoModelForImageTextToText if "text_config" in config else transformers.AutoModelForCausalLM


@contextlib.contextmanager
def double_for_float(dtype):
    """Makes code that asks for float32 by name get float64, where dtype is that."""
    with contextlib.ExitStack() as stack:
        if dtype is torch.float64:
            for owner, name, value in [(torch, "float32", dtype), (torch, "float", dtype),
                                       (torch.Tensor, "float", torch.Tensor.double)]:
                stack.enter_context(unittest.mock.patch.object(owner, name, value))
        yield


def random_ids(shape, seed):
    return torch.randint(0, VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def masked_labels(ids):
    """A prompt in row 0 without loss, padding at the end of row 1; (labels, real) for ids [..., batch, seq]."""
    real = torch.ones_like(ids, dtype=torch.bool)
    real[..., 1, 15:] = False
    labels = ids.masked_fill(~real, -100)
    labels[..., 0, :7] = -100
    return labels, real


def make_model(kind, config, seed=11, noise=0.1):
    torch.manual_seed(seed)
    model = kind._from_config(config, **PLAIN)
    with torch.no_grad():  # away from the initial zeros and ones, so that every term shows in the gradients
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=noise)
        for name, parameter in model.named_parameters():  # initial decays forget all but a token or two
            if name.endswith(".A_log"):
                parameter.sub_(3)
        for buffer in buffers_in_files(model).values():
            buffer.add_(torch.randn_like(buffer), alpha=noise)
    return model.eval()


def buffers_in_files(model):
    """What files hold besides parameters, such as the corrections of routers."""
    state = model.state_dict(keep_vars=True)
    parameters = {name for name, one in model.named_parameters(remove_duplicate=False) if one.requires_grad}
    return {name: tensor for name, tensor in state.items()
            if name not in parameters and tensor.is_floating_point()}


def in_dtype(kind, config, weights, dtype):
    """The model with the file's weights; made in the dtype, for buffers are computed as it is made."""
    model = kind._from_config(config, **PLAIN, dtype=dtype).eval()
    model.load_state_dict(weights)
    if dtype is torch.float64 and kind is BloomForCausalLM:  # its own GELU has a constant of 8 digits
        for block in model.transformer.h:
            block.mlp.gelu_impl = torch.nn.GELU("tanh")
    return model


def loss_sum(model, ids, labels, real):
    """(logits, sum of the cross-entropy over targets, their number, auxiliary loss)"""
    # With a mask transformers leaves padding out of the auxiliary loss; after it, causal attention changes nothing.
    routed = getattr(model.config, "output_router_logits", False)
    out = model(input_ids=ids, attention_mask=real.long() if routed else None)
    targets = labels[:, 1:].reshape(-1)
    # transformers' own loss turns logits into float32 whatever their dtype.
    logits = out.logits[:, :-1].reshape(-1, out.logits.shape[-1])
    loss = torch.nn.functional.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")
    aux = out.aux_loss * model.config.router_aux_loss_coef if routed else torch.zeros((), dtype=loss.dtype)
    return out.logits, loss, (targets != -100).sum(), aux


def as_published(model, tensors):
    """By the names of the model's files: transformers 5 holds all experts of a block in two tensors."""
    if model.config.model_type == "gpt_oss":   # whose files have the same
        return tensors
    if model.config.model_type.startswith("granitemoe"):
        for new, old in (("experts.gate_up_proj", "input_linear.weight"), ("experts.down_proj", "output_linear.weight"),
                         ("router.weight", "router.layer.weight")):
            tensors = {name.replace("block_sparse_moe." + new, "block_sparse_moe." + old): tensor
                       for name, tensor in tensors.items()}
        return tensors
    if model.config.model_type == "ernie4_5_moe":
        tensors = {name.replace("mlp.gate.moe_statics", "mlp.moe_statics"): tensor for name, tensor in tensors.items()}
    mixtral = model.config.model_type in ("mixtral", "minimax_m2")
    block, names = ("block_sparse_moe", ("w1", "w3", "w2")) if mixtral else ("mlp", ("gate_proj", "up_proj", "down_proj"))
    out = {}
    if model.config.model_type == "gpt_neox":  # its module is lm_head in transformers 5, and embed_out in files
        return {name.replace("lm_head.", "embed_out."): tensor for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        layer, _, rest = name.partition(".mlp.")
        if rest == "experts.gate_up_proj":
            for expert, both in enumerate(tensor):
                for part, half in zip(names, both.chunk(2)):
                    out[f"{layer}.{block}.experts.{expert}.{part}.weight"] = half
        elif rest == "experts.down_proj":
            out |= {f"{layer}.{block}.experts.{expert}.{names[2]}.weight": one for expert, one in enumerate(tensor)}
        else:
            out[f"{layer}.{block}.{rest}" if rest and mixtral else name] = tensor
    return out


def gradients_of(model):
    state = model.state_dict(keep_vars=True)
    tied = {"lm_head.weight", "embed_out.weight"} if model.config.tie_word_embeddings else set()
    other = set(buffers_in_files(model)) | tied
    # What is beside a text model has none, and modules of experts that no token went to have none where they have zeros.
    own = {name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach().clone()
           for name, parameter in state.items()
           if name not in other and (parameter.grad is not None or ".experts." in name)}
    return as_published(model, own)


def reference(model):
    ids = random_ids((BATCH, SEQ), 12)
    labels, real = masked_labels(ids)
    logits, loss, targets, aux = loss_sum(model, ids, labels, real)
    loss = loss / targets
    (loss + aux).backward()
    return {"ids": ids, "labels": labels, "real": real, "logits": logits, "loss": loss, "aux_loss": aux,
            "target_tokens": targets}


def train(model, steps):
    """lr 1e-3 after 3 warm-up steps, linear to 0; AdamW, no decay of vectors; clipped to norm 1."""
    ids = random_ids((1, MICRO, BATCH, SEQ), 13).expand(steps, -1, -1, -1)  # the same each step, so that it learns them
    labels, real = masked_labels(ids)
    labels[:, 1, 2, :9] = -100  # micro-batches of unequal numbers of targets
    # Capstan's records of vectors are vectors in the file too, and those of matrices are matrices, but for experts' biases.
    matrices = {p for name, p in model.named_parameters() if p.dim() > 1 and not name.endswith("bias")}
    groups = [{"params": [p for p in model.parameters() if (p in matrices) == decayed], "weight_decay": decay}
              for decayed, decay in ((True, 0.1), (False, 0.0))]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * ((step + 1) / 4 if step < 3 else 1 - (step - 3) / (STEPS - 3))
        optimizer.zero_grad(set_to_none=True)
        sums = [loss_sum(model, *batch) for batch in zip(ids[step], labels[step], real[step])]
        targets = sum(count for _, _, count, _ in sums)
        loss = sum(loss for _, loss, _, _ in sums) / targets
        (loss + sum(aux for *_, aux in sums) / MICRO).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return {"steps.ids": ids, "steps.labels": labels, "steps.losses": torch.stack(losses)}


def in_16_bits(kind, config, weights, ids):
    # Rotary buffers stay float32, as from_pretrained leaves them.
    model = kind._from_config(config, **PLAIN, dtype=torch.bfloat16).eval()
    model.load_state_dict(weights)
    with torch.no_grad():
        return {"bfloat16.logits": model(input_ids=ids).logits.float()}


def generate(model):
    lengths = torch.tensor([3, 9, 1, 6])
    ids = random_ids((len(lengths), int(lengths.max())), 14)
    answers = []
    model.config.output_router_logits = False  # transformers' auxiliary loss fails with a cache
    # Nor is its cache what it computes without one where a longrope goes over from the short factors to the long ones.
    cached = "longrope" not in str(getattr(model.config, "rope_scaling", None))
    for row, length in zip(ids, lengths):
        prompt = row[None, :length]
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW_TOKENS,
                             do_sample=False, use_cache=cached, eos_token_id=END, pad_token_id=END)[0, length:]
        answer = torch.full((NEW_TOKENS,), -1)
        answer[:len(out)] = out
        answers.append(answer.masked_fill(answer == END, -1))
    return {"prompts.ids": ids, "prompts.lengths": lengths, "answers": torch.stack(answers)}


def dense(tensors):
    return {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}


def in_dtypes(kind, config, compute):
    """Name of each dtype and what compute(the case's weights, dtype) gives, where code that asks for float32 gets the dtype."""
    weights = {name: tensor.clone() for name, tensor in make_model(kind, config).state_dict().items()}
    for dtype in (torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        with double_for_float(dtype):
            computed = compute(weights, dtype)
        yield name, computed


def write_case(folder, kind, config):
    folder.mkdir(parents=True)
    make_model(kind, config).save_pretrained(folder)

    def compute(weights, dtype):
        model = in_dtype(kind, config, weights, dtype)
        return dense(reference(model)), dense(gradients_of(model))

    for name, (tensors, gradients) in in_dtypes(kind, config, compute):
        save_file(tensors, folder / f"reference-{name}.safetensors", {"format": "pt"})
        at = folder / f"gradients-{name}"
        at.mkdir()
        save_file(gradients, at / "model.safetensors", {"format": "pt"})
    model = kind._from_config(config)
    names = set(load_file(folder / "model.safetensors")) - set(as_published(model, buffers_in_files(model)))
    if hasattr(config, "text_config"):  # under the names of modules, as files may have them too
        names = {name.replace("language_model.model.", "model.language_model.").replace("language_model.lm_head", "lm_head")
                 for name in names if "language_model." in name or "lm_head." in name}
    assert names <= set(gradients), names - set(gradients)


def write_steps(folder, kind, config, is_short=False):
    def compute(weights, dtype):
        tensors = {}
        if dtype is single:
            tensors |= in_16_bits(kind, copy.deepcopy(config), weights, random_ids((BATCH, SEQ), 12))
            tensors |= generate(in_dtype(kind, copy.deepcopy(config), weights, dtype))
        if dtype is not single or not is_short:
            tensors |= train(in_dtype(kind, config, weights, dtype), SHORT if is_short else STEPS)
        return dense(tensors)

    single = torch.float32
    for name, tensors in in_dtypes(kind, config, compute):
        save_file(tensors, folder / f"steps-{name}.safetensors", {"format": "pt"})


def write_on_gpu(folder, kind, config, seed):
    model = make_model(kind, config, seed, noise=0.02)
    model.save_pretrained(folder)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ids = random_ids((4, 128), seed).cuda()
    tensors = {"ids": ids}
    for name, dtype in (("logits", torch.float32), ("bfloat16.logits", torch.bfloat16)):
        model = kind._from_config(config, dtype=dtype).eval()
        model.load_state_dict(weights)
        with torch.no_grad():
            tensors[name] = model.cuda()(input_ids=ids).logits.float()
    save_file(dense(tensors), folder / "reference-cuda.safetensors", {"format": "pt"})


def main():
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folder, rest = pathlib.Path(sys.argv[1]), sys.argv[2:]
    if rest[:1] == ["steps"]:
        for name, _, length in (word.partition(":") for word in rest[1:]):
            write_steps(folder / name, *CASES[name](), is_short=length == "short")
    elif rest:
        for name, case in ON_GPU.items():
            for seed in range(int(rest[0])):
                at = folder / f"{name}-{seed}"
                at.mkdir(parents=True)
                write_on_gpu(at, *case(), seed)
    else:
        for name, case in CASES.items():
            write_case(folder / name, *case())


if __name__ == "__main__":
    main()
