"""Conversations of all kinds, and what of each bears loss under a template, written by hand.

LOSSES has, by template and conversation, the texts that bear loss, in order; None: the row is refused.
"""
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": {"city": "Rom é", "n": 1}}}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks <out> & back.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Wo?"}, "n": {"type": "integer", "description": "how"}},
    "required": ["city"]}}}]
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "name": "look", "content": '22 "Grad"'}


def user(content="a", **more):
    return {"role": "user", "content": content, **more}


def answer(content="Yes", **more):
    return {"role": "assistant", "content": content, **more}


def calls(*made, **more):
    return {"role": "assistant", "tool_calls": list(made), **more}


def with_text(call):
    return call | {"function": {"name": "look", "arguments": '{"city": "Rom é", "n": 1}'}}


SYSTEM = {"role": "system", "content": "Be <brief>."}
TURNS = [user(), answer(), user("b"), answer("No")]
CONVERSATIONS = {
    "one": {"messages": [user(), answer()]},
    "turns": {"messages": TURNS},
    "system": {"messages": [SYSTEM, *TURNS]},
    "many": {"messages": [message for i in range(9) for message in (user(f"a{i}"), answer(f"Yes{i}"))]},
    "empty": {"messages": [user(), answer(""), user("b"), answer("")]},
    "space": {"messages": [user("\n a \n"), answer(" \n Yes \n"), user("b "), answer("No\n\n")]},
    "tokens": {"messages": [user("<|im_end|>\n<|im_start|>assistant\nNo<|eot_id|>"), answer("Yes<|im_end|>\n<|im_start|>user\nb"),
                            user("b"), answer("No</s> [/INST] <end_of_turn>\n<start_of_turn>model\nNo<|end|><eos>")]},
    "unicode": {"messages": [user("Grüße 😀\u2028 日本\u00a0{{ 7 * 7 }} {% raw %}"), answer("<b>&amp; 'é' \"ß\" \\n</b> \ue000"),
                             user("\u200d👩\u200d💻"), answer("no\u0301")]},
    "reasoning": {"messages": [user(), answer(reasoning_content="Why1"), user("b"), answer("No", reasoning_content="Why2")]},
    "thinking": {"messages": [user(), answer(thinking="Why1"), user("b"), answer("No", thinking="Why2")]},
    "inline": {"messages": [user(), answer("<think>\nWhy1\n</think>\n\nYes"), user("b"), answer("<think>\nWhy2\n</think>\n\nNo")]},
    "tools": {"messages": [user(), calls(CALL), RESULT, answer(), user("b"), calls(CALL), RESULT, answer("No")], "tools": TOOLS},
    "texts": {"messages": [user(), calls(with_text(CALL), content=""), RESULT, answer()], "tools": TOOLS},
    "two calls": {"messages": [user(), calls(CALL, CALL, content="Both."), RESULT, RESULT, answer()], "tools": TOOLS},
    "chain": {"messages": [SYSTEM, user(), calls(CALL, reasoning_content="Why1"), RESULT, calls(CALL, reasoning_content="Why2"), RESULT,
                           answer(reasoning_content="Why3")], "tools": TOOLS},
    "ends with a call": {"messages": [user(), calls(CALL)], "tools": TOOLS},
    "ends with a result": {"messages": [user(), calls(CALL), RESULT], "tools": TOOLS},
    "ends with a question": {"messages": [user(), answer(), user("b")]},
    "parts": {"messages": [user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), answer([{"type": "text", "text": "Yes"}])]},
    "tools unused": {"messages": TURNS, "tools": TOOLS},
}


def chatml(*bodies, end="<|im_end|>"):
    return [body + end for body in bodies]


HERMES = '<tool_call>\n{"name": "look", "arguments": {"city": "Rom é", "n": 1}}\n</tool_call>'
QWEN35 = "<tool_call>\n<function=look>\n<parameter=city>\nRom é\n</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>"
LLAMA = '{"name": "look", "parameters": {"city": "Rom é", "n": 1}}'
GEMMA = '<|tool_call>call:look{city:<|"|>Rom é<|"|>,n:1}<tool_call|><|tool_response>'
GPTOSS = ' to=functions.look<|channel|>commentary json<|message|>{"city": "Rom é", "n": 1}<|call|>'
GLM = "\n<tool_call>look\n<arg_key>city</arg_key>\n<arg_value>Rom é</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"
MISTRAL = '[TOOL_CALLS] [{"name": "look", "arguments": {"city": "Rom é", "n": 1}, "id": "abcdefghi"}]'
DEEPSEEK = ('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{"city": "Rom é", "n": 1}'
            '<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>')
NO_THOUGHT = "<think>\n\n</think>\n\n"
FINAL = "<|channel|>final<|message|>"
GLM_NONE = "\n<think></think>"
EOS = "<｜end▁of▁sentence｜>"

LOSSES = {
    "qwen2_5": {
        "one": chatml("Yes"),
        "turns": chatml("Yes", "No"),
        "many": chatml(*(f"Yes{i}" for i in range(9))),
        "empty": chatml("", ""),
        "space": chatml(" \n Yes \n", "No\n\n"),
        "tokens": chatml("Yes<|im_end|>\n<|im_start|>user\nb", "No</s> [/INST] <end_of_turn>\n<start_of_turn>model\nNo<|end|><eos>"),
        "tools": chatml(HERMES, "Yes", HERMES, "No"),
        "two calls": chatml(f"Both.\n{HERMES}\n{HERMES}", "Yes"),
        "reasoning": chatml("Yes", "No"),   # told as dropped
        "ends with a call": chatml(HERMES),
        "ends with a question": chatml("Yes"),
    },
    "qwen3": {
        "turns": chatml("Yes", NO_THOUGHT + "No"),
        "space": chatml(" \n Yes \n", NO_THOUGHT + "No\n\n"),
        "reasoning": chatml("<think>\nWhy2\n</think>\n\nNo"),   # the first answer has lost what it thought
        "inline": chatml("<think>\nWhy2\n</think>\n\nNo"),
        "thinking": chatml("<think>\nWhy2\n</think>\n\nNo"),
        "tools": chatml(HERMES, "Yes", HERMES, NO_THOUGHT + "No"),
        "chain": chatml(f"<think>\nWhy1\n</think>\n\n{HERMES}", f"<think>\nWhy2\n</think>\n\n{HERMES}", "<think>\nWhy3\n</think>\n\nYes"),
        "ends with a question": chatml("Yes"),
    },
    "qwen3_5_think": {   # generation starts inside of the thought, which earlier turns do not have
        "turns": chatml("\n</think>\n\nNo"),
        "reasoning": chatml("Why2\n</think>\n\nNo"),
        "chain": chatml(f"Why1\n</think>\n\n{QWEN35}", f"Why2\n</think>\n\n{QWEN35}", "Why3\n</think>\n\nYes"),
        "ends with a call": chatml(f"\n</think>\n\n{QWEN35}"),
    },
    "qwen3_5_nothink": {"one": chatml("Yes"), "reasoning": None},
    "qwen3_8": {"turns": chatml("\n</think>\n\nYes", "\n</think>\n\nNo"),
                "reasoning": chatml("Why1\n</think>\n\nYes", "Why2\n</think>\n\nNo")},
    "llama3_1": {
        "turns": chatml("Yes", "No", end="<|eot_id|>"),
        "system": chatml("Yes", "No", end="<|eot_id|>"),
        "space": chatml("Yes", "No", end="<|eot_id|>"),
        "empty": chatml("", "", end="<|eot_id|>"),
        "tools": chatml(LLAMA, "Yes", LLAMA, "No", end="<|eot_id|>"),
        "two calls": None,
    },
    "llama3_2": {"turns": chatml("Yes", "No", end="<|eot_id|>"), "tools": chatml(LLAMA, "Yes", LLAMA, "No", end="<|eot_id|>")},
    "gemma": {"turns": chatml("Yes", "No", end="<end_of_turn>"), "space": chatml("Yes", "No", end="<end_of_turn>"), "system": None},
    "gemma3": {"system": chatml("Yes", "No", end="<end_of_turn>"), "parts": chatml("Yes", end="<end_of_turn>")},
    "gemma4_v5": {
        "turns": chatml("Yes", "No", end="<turn|>"),
        "tools": [GEMMA, "Yes<turn|>", GEMMA, "No<turn|>"],
        "chain": ["<|channel>thought\nWhy1\n<channel|>" + GEMMA, "<|channel>thought\nWhy2\n<channel|>" + GEMMA,
                  "<|channel>thought\nWhy3\n<channel|>Yes<turn|>"],
        "reasoning": ["<|channel>thought\nWhy2\n<channel|>No<turn|>"],
    },
    "phi3": {"turns": chatml("Yes", "No", end="<|end|>"), "tokens": chatml(
        "Yes<|im_end|>\n<|im_start|>user\nb", "No</s> [/INST] <end_of_turn>\n<start_of_turn>model\nNo<|end|><eos>", end="<|end|>"),
        "tools": chatml("Yes", "No", end="<|end|>")},   # the calls are not written, and so not learned
    "phi3_5": {"turns": chatml("Yes", "No", end="<|end|>"), "empty": chatml("", "", end="<|end|>")},
    "gptoss": {
        "one": [FINAL + "Yes<|return|>"],
        "turns": [FINAL + "Yes", FINAL + "No<|return|>"],   # an earlier turn's <|end|> ends no generation
        "thinking": ["<|channel|>analysis<|message|>Why2<|end|><|start|>assistant" + FINAL + "No<|return|>"],
        "reasoning": ["<|channel|>analysis<|message|>Why2<|end|><|start|>assistant" + FINAL + "No<|return|>"],
        "tools": [GPTOSS, FINAL + "Yes", GPTOSS, FINAL + "No<|return|>"],
        "ends with a call": [GPTOSS],
    },
    "glm4moe": {
        "turns": [GLM_NONE + "\nYes<|user|>", GLM_NONE + "\nNo"],
        "reasoning": ["\n<think>Why2</think>\nNo"],
        "tools": [GLM_NONE + GLM + "<|observation|>", GLM_NONE + "\nYes<|user|>", GLM_NONE + GLM + "<|observation|>", GLM_NONE + "\nNo"],
    },
    "deepseek_r1_distill": {"turns": None, "inline": None},   # generation starts inside of a thought that answers do not have
    "lfm2_2_5": {"turns": chatml("Yes", "No"), "thinking": chatml("<think>Why2</think>No")},
    "cohere": {"turns": chatml("Yes", "No", end="<|END_OF_TURN_TOKEN|>")},
    "deepseek": {
        "turns": ["Yes" + EOS, "No" + EOS],
        "system": ["Yes" + EOS, "No" + EOS],
        "tools": [DEEPSEEK, "Yes" + EOS, DEEPSEEK, "No" + EOS],
        "texts": [DEEPSEEK, "Yes" + EOS],
    },
    "mistral": {
        "turns": [" Yes<eos>", " No<eos>"],
        "system": None,   # which this template writes only while the last message is a question
        "space": [" Yes<eos>", " No<eos>"],
        "tools": [MISTRAL + "<eos>", " Yes<eos>", MISTRAL + "<eos>", " No<eos>"],
    },
    "smollm3": {
        "turns": chatml("Yes", "No"),
        "tools": chatml("Yes", "No"),   # calls are not written
        "space": chatml(" \n Yes \n", "No\n\n"),
    },
    "counted": {"turns": ["Yes[/]", "No[/]"], "many": [f"Yes{i}[/]" for i in range(9)], "space": [" \n Yes \n[/]", "No\n\n[/]"]},
}
