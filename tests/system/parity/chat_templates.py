"""Conversations rendered by Capstan's worker, compared with transformers' apply_chat_template and with losses by hand.

    chat_templates.py rendering|losses|generation|files|faults|speed

The published templates are those that TRL carries; chat_templates/ has some in the manner of others. Prints what differs, with
exit status 1.
"""
import copy
import datetime
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

from chat_template_cases import CONVERSATIONS, LOSSES, TOOLS, TURNS, answer, calls, user  # noqa: E402
import transformers  # noqa: E402
from tokenizers import Tokenizer, models  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

HERE = pathlib.Path(__file__).parent
WORKER = HERE.parents[2] / "plugins/libraries/chat_template"
SCRIPT = "\n".join((WORKER / f"{name}.py").read_text() for name in ("model_folder", "template", "conversation", "render"))
TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
VARIABLES = [{}, {"enable_thinking": False}, {"enable_thinking": True, "reasoning_effort": "high", "thinking": True}]
CONTENTS = ("absent", None, "")
differing = []


def check(name, is_so, *found):
    if not is_so:
        differing.append(name)
        print("differs:", name, *(repr(one)[:2000] for one in found), sep="\n  ")


def templates():
    """{name: file}; transformers 4's environment has no TRL, and takes that of the environment beside it."""
    site = next((pathlib.Path(sys.prefix).parent / "venv5").glob("lib/python3*/site-packages"))
    found = {file.stem: file for file in sorted((site / "trl/chat_templates").glob("*.jinja"))}
    assert len(found) > 40, site
    return found | {file.stem: file for file in sorted((HERE / "chat_templates").glob("*.jinja"))}


class Forks:
    """Runs the worker as an interpreter of its own would, but for what that takes to start (serve.py)."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.place = pathlib.Path(self.folder.name)
        (self.place / "worker.py").write_text("import jinja2.sandbox\n" + SCRIPT)
        ours, theirs = socket.socketpair()
        with theirs:
            self.server = subprocess.Popen([sys.executable, HERE / "serve.py"], stdin=theirs)
        self.socket, self.answers = ours, ours.makefile("r")

    def run(self, lines):
        """(exit status, what it printed)"""
        (self.place / "in").write_text(lines)
        job = {"script": str(self.place / "worker.py"), "arguments": [], "output": str(self.place / "out"), "input": str(self.place / "in")}
        self.socket.sendall((json.dumps(job) + "\n").encode())
        return int(self.answers.readline()), (self.place / "out").read_text()

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.server.wait()
        self.folder.cleanup()


forks = None   # of rendering and losses, which start the worker some hundred times


def worker(request, rows, before=""):
    """(head, answers): what the worker says to these."""
    lines = "\n".join(json.dumps(one) if isinstance(one, dict) else one for one in [request, *rows]) + "\n"
    if forks:
        status, text = forks.run(lines)
    else:
        done = subprocess.run([sys.executable, "-c", before + SCRIPT], input=lines, capture_output=True, text=True)
        status, text = done.returncode, done.stdout + done.stderr
    said = [json.loads(line) for line in text.split("\n") if line]
    assert said and status == (3 if "fault" in said[0] else 0), (status, text)
    return said[0], said[1:]


def folder_with(template, folder):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, "<unk>")), **TOKENS)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return tokenizer


def today():
    return datetime.date.today().isoformat()


def as_said(conversation, as_text, content, thought):
    """A conversation as it is said to transformers: arguments as objects or texts, contents that are missing, a name for reasoning."""
    messages = copy.deepcopy(conversation["messages"])
    for message in messages:
        for call in message.get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
            call["function"]["arguments"] = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
        if message["role"] == "assistant" and "content" not in message and content != "absent":
            message["content"] = content
        if "thinking" in message or "reasoning_content" in message:
            message[thought] = message.pop("thinking", None) or message.pop("reasoning_content")
    return messages


def reference(tokenizer, conversation, variables, upto=None, ask=False):
    """transformers' text in the first way of saying it that the template takes; None where it takes none."""
    source = tokenizer.chat_template
    thought = "thinking" if re.search(r"message(\.|\.get\('|\[')thinking\b|\"thinking\" in message", source) else "reasoning_content"
    for as_text, content in [(False, "absent"), (False, None), (True, "absent"), (True, None), (False, ""), (True, "")]:
        messages = as_said(conversation, as_text, content, thought)
        try:
            return [tokenizer.apply_chat_template(messages[:end], tools=conversation.get("tools"), tokenize=False,
                                                  add_generation_prompt=asks, **variables)
                    for end, asks in ((None, ask), *([(upto, True)] if upto is not None else ()))]
        except Exception:
            pass
    return None


def compared(name, tokenizer, folder, variables):
    """Each conversation, written without loss and asked for: byte for byte, with nulls where Arrow would have them."""
    rows, wanted = [], []
    for conversation in CONVERSATIONS.values():
        row = copy.deepcopy(conversation)
        keys = {key for message in row["messages"] for key in message}
        row["messages"] = [dict.fromkeys(keys) | message | {"weight": 0} for message in row["messages"]]
        rows += [row | {"variables": variables}, row | {"variables": variables, "ask": True}]
        wanted += [reference(tokenizer, conversation, variables), reference(tokenizer, conversation, variables, ask=True)]
    _, said = worker({"folder": str(folder), "date": today()}, rows)
    for (kind, asked), one, text in zip([(kind, asked) for kind in CONVERSATIONS for asked in (0, 1)], said, wanted):
        found = "".join(piece for piece, _ in one["pieces"]) if "pieces" in one else None
        check(f"{name} {kind} {variables} {'asked' * asked}", found == (text and text[0]), found or one, text)
        if asked and found:
            check(f"{name} {kind} one piece", one["pieces"] == [[found, 0]] and one["prompt"] == 1, one)
    return sum(text is not None for text in wanted)


def rendering():
    count, refused = 0, 0
    for name, file in templates().items():
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = folder_with(file.read_text(), folder)
            for variables in VARIABLES if "enable_thinking" in file.read_text() else VARIABLES[:1]:
                same = compared(name, tokenizer, folder, variables)
                count += same
                refused += 2 * len(CONVERSATIONS) - same
    print(f"{count} renderings compared, {refused} refused by both")
    assert count > 2500


def losses():
    """By hand, and for every template and conversation: the pieces are the text, and what precedes the last answer is what
    transformers starts generation from."""
    count = 0
    for name, file in templates().items():
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = folder_with(file.read_text(), folder)
            _, said = worker({"folder": folder, "date": today()}, [copy.deepcopy(row) for row in CONVERSATIONS.values()])
            _, last = worker({"folder": folder, "date": today(), "learn": "last"}, [copy.deepcopy(row) for row in CONVERSATIONS.values()])
        for (kind, row), one, only in zip(CONVERSATIONS.items(), said, last):
            count += 1
            learned = [text for text, loss in one.get("pieces", ()) if loss]
            if kind in LOSSES.get(name, {}):
                wanted = LOSSES[name][kind]
                check(f"{name} {kind} by hand", ("fault" in one) if wanted is None else learned == wanted, one, wanted)
            if "fault" in one:
                continue
            at = len(row["messages"]) - 1
            answers = row["messages"][at]["role"] == "assistant"
            texts = reference(tokenizer, row, {}, at if answers else None)
            check(f"{name} {kind} joined", "".join(text for text, _ in one["pieces"]) == texts[0], one, texts)
            if one["prompt"]:
                check(f"{name} {kind} start", "".join(text for text, _ in one["pieces"][:one["prompt"]]) == texts[1], one, texts)
                behind = "".join(text for text, _ in one["pieces"][one["prompt"]:])
                check(f"{name} {kind} answer", behind.startswith(one["answer"]), one)
                check(f"{name} {kind} last", [text for text, loss in only["pieces"] if loss] == learned[-1:] and
                      only["answer"] == one["answer"], one, only)
    by_hand = sum(len(kinds) for kinds in LOSSES.values())
    assert set(LOSSES) <= set(templates()) and all(set(kinds) <= set(CONVERSATIONS) for kinds in LOSSES.values())
    print(f"{count} rows, {by_hand} with losses by hand")


def marked(source, row):
    """The texts that transformers finds between {% generation %} and {% endgeneration %}."""
    program = chat_template_utils._compile_jinja_template(source)
    text, spans = chat_template_utils._render_with_assistant_indices(
        program, as_said(row, False, "", "reasoning_content"), row.get("tools"), None, False, **TOKENS)
    joined = []
    for begin, end in spans:
        if joined and joined[-1][1] == begin:
            joined[-1] = joined[-1][0], end
        elif begin < end:
            joined.append((begin, end))
    return joined, text


def generation():
    """TRL's training templates say by tags what is learned. The same templates without tags: what bears loss is what stands
    between the tags without the generation prompt and what follows the end of the turn."""
    count = 0
    tag = re.compile(r"(\{%-?\s*)generation(\s*-?%\})")
    for name, file in templates().items():
        source = file.read_text()
        if not tag.search(source) or name == "smollm3":
            continue
        plain = re.sub(r"(\{%-?\s*)endgeneration(\s*-?%\})", r"\1endif\2", tag.sub(r"\1if true\2", source))
        with tempfile.TemporaryDirectory() as folder:
            folder_with(plain, folder)
            head, said = worker({"folder": folder, "date": today()}, list(CONVERSATIONS.values()))
        for (kind, row), one in zip(CONVERSATIONS.items(), said):
            try:
                spans, text = marked(source, row)
            except Exception:
                continue
            if "fault" in one or "".join(piece for piece, _ in one["pieces"]) != text:
                continue
            # Its generation prompt behind a tool's result is empty, and a turn's head, without a tag, follows all the same.
            if name.startswith("diffusion_gemma") and "tools" in row and kind != "tools unused":
                continue
            count += 1
            own, at = [], 0
            for piece, loss in one["pieces"]:
                own += [(at, at + len(piece))] * loss
                at += len(piece)
            for begin, end in own:
                around = [(a, b) for a, b in spans if a <= begin and end <= b]
                check(f"{name} {kind} inside of the tags", around, text[begin:end], [text[a:b] for a, b in spans])
                for a, b in around:
                    check(f"{name} {kind} prompt", head["generation_prompt"].endswith(text[a:begin]) or text[a:begin] == "<｜tool▁outputs▁end｜>",
                          text[a:begin], head)
                    rest = text[end:b].strip()
                    check(f"{name} {kind} behind", rest in ("", "<eos>", "<|end|>"), text[end:b])
            lost = [text[a:b] for a, b in spans if not any(a <= begin and end <= b for begin, end in own) and text[a:b] != "<eos>"]
            told = [part for part in one["dropped"] if "bears no loss" in part or "tool_calls" in part]
            check(f"{name} {kind} no answer is left out unsaid", len(lost) <= len(told), lost, one["dropped"])
    print(f"{count} conversations compared with tags")
    assert count > 300


def texts_of(request, rows, before=""):
    head, said = worker(request, rows, before)
    return head, ["".join(piece for piece, _ in one["pieces"]) if "pieces" in one else one["fault"]["what"] for one in said]


def files():
    """All places that a folder may have its template in, each held against what transformers reads there."""
    one, two = "{{ bos_token }}1{{ messages[0].content }}", "2{{ messages[0].content }}{{ eos_token }}"
    named = [{"name": "default", "template": one}, {"name": "tool_use", "template": two}]
    row, with_tools = {"messages": [user()]}, {"messages": [user()], "tools": TOOLS}
    for kind in ("jinja", "additional", "text", "list"):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            tokenizer = folder_with(None, folder)
            config = json.loads((folder / "tokenizer_config.json").read_text())
            if kind in ("jinja", "additional"):
                (folder / "chat_template.jinja").write_text(one)
            if kind == "additional":
                (folder / "additional_chat_templates").mkdir()
                (folder / "additional_chat_templates/tool_use.jinja").write_text(two)
            if kind in ("text", "list"):
                config["chat_template"] = one if kind == "text" else named
            (folder / "tokenizer_config.json").write_text(json.dumps(config | {"bos_token": {"content": "<bos>", "__type": "AddedToken"}}))
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            wanted = [tokenizer.apply_chat_template([user()], tools=tools, tokenize=False) for tools in (None, TOOLS)]
            _, found = texts_of({"folder": name, "learn": "answers"}, [row, with_tools])
            check(kind, found == wanted, found, wanted)
            if kind == "list":
                check("by name", texts_of({"folder": name, "name": "tool_use"}, [row])[1] == ["2a<eos>"])
                fault = worker({"folder": name, "name": "rag"}, [])[0]["fault"]
                check("no such name", fault["what"] == "there is no chat template 'rag': there are default, tool_use", fault)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": two}))
        (folder / "special_tokens_map.json").write_text(json.dumps({"eos_token": "<end>"}))
        head, found = texts_of({"folder": name}, [row])
        check("chat_template.json", found == ["2a<end>"] and head["template"].endswith("chat_template.json"), head, found)
        (folder / "mine.jinja").write_text("{{ strftime_now('%d %b %Y %H') }}{{ style }}{{ documents[0].text }}")
        head, found = texts_of({"folder": name, "file": f"{name}/mine.jinja", "date": "2024-02-29", "variables": {"style": 1}},
                               [row | {"documents": [{"text": "D"}]}, row | {"variables": {"style": 2}, "documents": [{"text": "E"}]}])
        check("a file of one's own", found == ["29 Feb 2024 001D", "29 Feb 2024 002E"] and head["date"] == "2024-02-29" and
              head["variables"] == ["style"], head, found)
    weights()


def weights():
    """A message's own weight, what is dropped, and the same row whatever rows are before it."""
    with tempfile.TemporaryDirectory() as name:
        folder_with(templates()["qwen2_5"].read_text(), name)
        rows = [{"messages": [user(), answer(weight=weight), user("b"), answer("No", weight=other)]} for weight in (0, 1) for other in (0, 1)]
        head, said = worker({"folder": name}, rows)
        found = [[text for text, loss in one["pieces"] if loss] for one in said]
        check("weights", found == [[], ["No<|im_end|>"], ["Yes<|im_end|>"], ["Yes<|im_end|>", "No<|im_end|>"]], found)
        check("prompts", [one["prompt"] > 0 for one in said] == [False, True, False, True], said)
        check("head", (head["turn_end"], head["generation_prompt"], head["date"]) == ("<|im_end|>", "<|im_start|>assistant\n", None), head)
        _, said = worker({"folder": name}, [{"messages": [user(name="Ann"), answer(reasoning_content="Why", mood="glad")]}])
        check("dropped", said[0]["dropped"] == ["messages[0].name", "messages[1].reasoning_content", "messages[1].mood"], said)
        rows = [copy.deepcopy(row) for row in CONVERSATIONS.values()]
        check("any order", worker({"folder": name}, rows)[1] == worker({"folder": name}, rows[::-1])[1][::-1])


def faults():
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name) / "t.jinja"
        request = {"folder": "", "file": str(file)}

        def fault_of(template, row=None, before=""):
            file.write_bytes(template if isinstance(template, bytes) else template.encode())
            head, said = worker(request, [row] if row else [], before)
            return said[0]["fault"] if said else head["fault"]

        def expect(name, fault, *words, line=None):
            check(name, all(word in fault["what"] for word in words) and fault["fix"] and fault["line"] == line, fault)

        row = {"messages": [user(), answer()]}
        expect("syntax", fault_of("a\n{% if x %}\n{% fi %}"), "line 3 of the chat template cannot be understood", line=3)
        expect("bytes", fault_of(b"\xff{{ x }}"), "is no UTF-8 text")
        expect("raises", fault_of("\n{{ raise_exception('not so') }}", row), "refuses this conversation: not so", line=2)
        expect("undefined", fault_of("\n\n{{ messages[9].content }}", row), "fails at its line 3", line=3)
        expect("type", fault_of("{{ 1 + 'a' }}", row), "TypeError", line=1)
        started = time.monotonic()
        loops = "{% for i in range(90000) %}{% for j in range(9000) %}abcdefgh{% endfor %}{% endfor %}"
        expect("megabytes", fault_of(loops, row), "more than 1 MiB for a conversation of a few words")
        expect("megabytes of a row", fault_of("{% if messages[0].content == 'a' %}" + loops + "{% endif %}", row), "more than 16 MiB")
        expect("doubling", fault_of("{% set n = namespace(t='ab') %}{% for i in range(64) %}{% set n.t = n.t ~ n.t %}{% endfor %}{{ n.t }}",
                                    row), "MemoryError", line=1)
        check("within seconds", time.monotonic() - started < 60, time.monotonic() - started)
        expect("sandbox", fault_of("{{ ''.__class__.__mro__[1].__subclasses__() }}", row), "unsafe", line=1)
        expect("changes", fault_of("{{ messages.append(1) }}", row), "unsafe", line=1)
        expect("no jinja2", fault_of("a", before="import sys; sys.modules['jinja2'] = None\n"), "has no jinja2")
        pathlib.Path(name, "tokenizer_config.json").write_text('{"chat_template": "a",}')
        request = {"folder": name}
        expect("damaged", worker(request, [])[0]["fault"], "tokenizer_config.json is damaged", line=1)
        pathlib.Path(name, "tokenizer_config.json").write_text("{}")
        expect("none", worker(request, [])[0]["fault"], "has no chat template")
        request = {"folder": "", "file": str(file)}
        file.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
        bad = ['{"row": 1, "messages"', {"messages": []}, {"messages": "a"}, {"messages": [{"content": "a"}]}, {"messages": [3]},
               {"messages": [answer(weight=2)]}, {"messages": [calls("look")]}, {"messages": [user("\ud800"), answer()]}, [],
               {"messages": [user([{"type": "image", "url": "a.png"}]), answer()]}]
        _, said = worker(request, [one if isinstance(one, dict) else json.dumps(one) if isinstance(one, list) else one for one in bad] + [row])
        check("rows", ["fault" in one for one in said] == [True] * len(bad) + [False], said)
    one_by_one()


def one_by_one():
    """Who waits for each answer before asking again gets it."""
    with tempfile.TemporaryDirectory() as name:
        folder_with("{{ messages[0].content }}", name)
        process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process.stdin.write(json.dumps({"folder": name}) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        for text in ("a", "b"):
            process.stdin.write(json.dumps({"row": 1, "messages": [user(text)], "ask": True}) + "\n")
            process.stdin.flush()
            check("answer " + text, json.loads(process.stdout.readline())["pieces"] == [[text, 0]])
        process.stdin.close()
        check("ends", process.wait(20) == 0)


def speed():
    """A turn costs the same in a long conversation as in a short one, also where a template rewrites earlier turns."""
    for name in ("qwen2_5", "qwen3", "gptoss"):
        with tempfile.TemporaryDirectory() as folder:
            folder_with(templates()[name].read_text(), folder)
            seconds = []
            for turns in (10, 160):
                row = {"messages": [answer(thinking="Why") if at % 2 else user() for at in range(2 * turns)]}
                started = os.times().children_user
                worker({"folder": folder}, [row] * (1600 // turns))
                seconds.append(os.times().children_user - started)
            check(f"{name} linear", seconds[1] < 3 * seconds[0] + 0.3, seconds)   # sixteen times as many where it is quadratic
            print(name, "seconds for 1600 turns in conversations of 10 and of 160:", *seconds)


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind in ("rendering", "losses", "generation"):
        forks = Forks()
    {"rendering": rendering, "losses": losses, "generation": generation, "files": files, "faults": faults, "speed": speed}[kind]()
    if forks:
        forks.end()
    print(f"transformers {transformers.__version__}: {len(differing)} differ")
    sys.exit(1 if differing else 0)
