"""Trains a tiny random Llama on pairs of answers, with adapters and with all of its parameters, by TRL's own trainers: 10
steps of 2 pairs.

    preferences.py FOLDER

FOLDER gets config.json, model.safetensors (float32), adapter/ as training starts, and for each LOSS of LOSSES
    LOSS.jsonl    {"prompt", "chosen", "rejected"} a line, in the order of training, and "reference_log_probability", what
                  the model without adapters gives both answers
    LOSS.json     lists of one number a step: loss, chosen and rejected (the mean rewards), accuracy
    LOSS-all.json for each of REFERENCES the same without adapters, next to a reference model that is not trained

AdamW at a constant rate, neither clipped nor decayed, no dropout, one micro-batch a step: TRL takes means over a
micro-batch. Texts are tokenised as Capstan's tokenizer "byte" does.
"""
import json
import pathlib
import random
import sys
import warnings

import torch
from datasets import Dataset
from families import VOCAB, llama
from models import make_model
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

STEPS, PAIRS, RATE = 10, 2, 2e-2
LETTERS = "abcdefghij klmnop"
REFERENCES = ("sigmoid", "ipo")
LOSSES = {
    "sigmoid": (DPOTrainer, DPOConfig, dict(loss_type=["sigmoid"], beta=0.3)),
    "ipo": (DPOTrainer, DPOConfig, dict(loss_type=["ipo"], beta=0.4)),
    "orpo": (ORPOTrainer, ORPOConfig, dict(beta=0.5)),   # its lambda
    "simpo": (CPOTrainer, CPOConfig, dict(loss_type="simpo", beta=2.0, simpo_gamma=0.7, cpo_alpha=0.0)),
}


def tokenizer():
    """A token a character, which is a byte of these texts; 256 ends an answer, 257 is padding."""
    vocabulary = {chr(i): i for i in range(256)} | {"<end>": 256, "<pad>": 257}
    tokens = Tokenizer(models.WordLevel(vocabulary))
    tokens.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="<end>", pad_token="<pad>")


def text(generator, length):
    return "".join(generator.choice(LETTERS) for _ in range(length))


def pairs(loss):
    """TRL's orpo takes the likelihood of prompts too, as a mean over all tokens of a micro-batch; ours takes it as the
    mean of each chosen answer. Where a prompt is one token, which nothing predicts, and the chosen answers of a step
    have one length, both are the same."""
    generator = random.Random(5)
    rows = []
    for _ in range(STEPS):
        chosen = generator.randint(4, 14)
        for _ in range(PAIRS):
            length = chosen if loss == "orpo" else generator.randint(4, 14)
            rows.append({"prompt": text(generator, 1 if loss == "orpo" else generator.randint(3, 9)),
                         "chosen": text(generator, length), "rejected": text(generator, generator.randint(4, 14))})
    return rows


FIGURES = {"chosen": "rewards/chosen", "rejected": "rewards/rejected", "accuracy": "rewards/accuracies"}


def log_probability(model, prompt, answer):
    """The sum over the answer's tokens, the end token among them."""
    ids = [*map(ord, prompt + answer), 256]
    with torch.no_grad():
        each = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return sum(each[i - 1, ids[i]].item() for i in range(len(prompt), len(ids)))


def recording(trainer_class, found):
    class Recording(trainer_class):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def training_step(self, *args, **more):
            found["loss"].append(super().training_step(*args, **more).item())
            # The trainers of orpo and simpo keep them elsewhere.
            metrics = self._metrics["train"] if hasattr(self, "_metrics") else self._stored_metrics["train"]
            for name, theirs in FIGURES.items():
                found[name].append(float(metrics[theirs][-1]))
            return torch.tensor(found["loss"][-1])

    return Recording


def train(folder, loss, adapters=True):
    trainer_class, config_class, options = LOSSES[loss]
    rows = pairs(loss)
    base = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    saved = [[log_probability(base, row["prompt"], row[answer]) for answer in ("chosen", "rejected")] for row in rows]
    lines = [row | {"reference_log_probability": numbers} for row, numbers in zip(rows, saved)]
    (folder / f"{loss}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if adapters:
        model, rate, reference = PeftModel.from_pretrained(base, folder / "adapter", is_trainable=True), RATE, {}
    else:
        frozen = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
        model, rate, reference = base, RATE / 10, {"ref_model": frozen}
    arguments = config_class(
        output_dir=str(folder / "trainer"), max_steps=STEPS, per_device_train_batch_size=PAIRS, learning_rate=rate,
        lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=0.0, adam_beta1=0.9, adam_beta2=0.95,
        adam_epsilon=1e-8, optim="adamw_torch", use_cpu=True, report_to=[], save_strategy="no", logging_steps=1,
        gradient_checkpointing=False, bf16=False, max_length=97, disable_tqdm=True, **options)
    found = {name: [] for name in ("loss", *FIGURES)}
    recording(trainer_class, found)(model=model, args=arguments, train_dataset=Dataset.from_list(rows),
                                    processing_class=tokenizer(), **reference).train()
    assert all(len(values) == STEPS for values in found.values()), found
    (folder / (loss + ("" if adapters else "-all") + ".json")).write_text(json.dumps(found))


def main(folder):
    model = make_model(*llama(num_key_value_heads=2, attention_dropout=0.0))
    model.save_pretrained(folder)
    torch.manual_seed(3)
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj", "v_proj", "down_proj"],
                                               r=4, lora_alpha=8))
    adapted.save_pretrained(folder / "adapter")
    for loss in LOSSES:
        train(folder, loss)
    for loss in REFERENCES:
        train(folder, loss, adapters=False)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    main(pathlib.Path(sys.argv[1]))
