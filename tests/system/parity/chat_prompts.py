"""Model folders with a tokenizer and a chat template, and the ids that transformers makes of conversations.

    chat_prompts.py FOLDER

FOLDER gets a folder for each tokenizer, and cases.json: [{"folder", "conversation", "ids"}, …].
"""
import json
import os
import pathlib
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from transformers import AutoTokenizer  # noqa: E402

from published_tokenizers import qwen2  # noqa: E402
from tokenizer_files import llama2, llama3  # noqa: E402

CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
          "{% endif %}")
MARKED = ("{{ bos_token }}{% for m in messages %}<{{ m.role }}> {{ m.content | trim }}{{ eos_token }}{% endfor %}"
          "{% if add_generation_prompt %}<assistant> {% endif %}")
WITHOUT_BEGIN = MARKED.replace("{{ bos_token }}", "")
CONVERSATIONS = [
    {"messages": [{"role": "user", "content": "Where is Paris?"}]},
    {"messages": [{"role": "system", "content": "Être bref. 🙂"}, {"role": "user", "content": " <s> <|im_end|> \n\n a"},
                  {"role": "assistant", "content": "  b\n"}, {"role": "user", "content": "天地 12345 it's"}]},
    {"messages": [{"role": "user", "content": "x"}], "variables": {"enable_thinking": False}},
]


def write_folder(folder, file, config):
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(file, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | config))


def main(folder):
    of_llama3 = llama3()
    write_folder(folder / "qwen2", qwen2(), {"eos_token": "<|im_end|>", "chat_template": CHATML})
    begin = {"bos_token": "<|begin|>", "eos_token": "<|end|>"}
    write_folder(folder / "llama3", of_llama3, begin | {"chat_template": MARKED})
    write_folder(folder / "without_begin", of_llama3, begin | {"chat_template": WITHOUT_BEGIN})
    write_folder(folder / "llama2", llama2(), {"bos_token": "<s>", "eos_token": "</s>", "chat_template": MARKED})
    cases = []
    for place in sorted(path for path in folder.iterdir()):
        tokenizer = AutoTokenizer.from_pretrained(place)
        for conversation in CONVERSATIONS:
            ids = tokenizer.apply_chat_template(conversation["messages"], tokenize=True, add_generation_prompt=True,
                                                return_dict=False, **conversation.get("variables", {}))
            cases.append({"folder": place.name, "conversation": conversation, "ids": ids})
    (folder / "cases.json").write_text(json.dumps(cases))


main(pathlib.Path(sys.argv[1]))
