# A first version, until the whole one follows: no marks of what bears loss but for the last answer.
import datetime, hashlib, json, os, sys


def main():
    request = json.loads(sys.stdin.readline())
    write = lambda value: (sys.stdout.write(json.dumps(value) + "\n"), sys.stdout.flush())
    path = request["file"] or os.path.join(request["folder"], "chat_template.jinja")
    try:
        import jinja2, jinja2.sandbox
        text = open(path).read()
        def stop(message): raise jinja2.exceptions.TemplateError(message)
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda x, **more: json.dumps(x, ensure_ascii=False, **more)
        date = request["date"] or datetime.date.today().isoformat()
        environment.globals.update(raise_exception=stop, strftime_now=lambda f: datetime.datetime.fromisoformat(date).strftime(f))
        template = environment.from_string(text)
    except ImportError:
        write({"fault": {"what": "a chat template is rendered by Python with jinja2, which this Python does not have", "fix": "install jinja2"}}); sys.exit(3)
    except OSError as error:
        write({"fault": {"what": "there is no chat template", "fix": "name one", "file": path}}); sys.exit(3)
    except jinja2.TemplateSyntaxError as error:
        write({"fault": {"what": str(error), "fix": "correct it", "file": path, "line": error.lineno}}); sys.exit(3)
    render = lambda messages, variables, **more: template.render(messages=messages, bos_token="", eos_token="", **{**request["variables"], **variables}, **more)
    probe = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "PROBE"}]
    try:
        end = render(probe, {}).split("PROBE")[-1].strip()
    except Exception: end = ""
    write({"template": path, "source": hashlib.sha256(text.encode()).hexdigest(), "date": date if "strftime_now" in text else None, "uses_date": "strftime_now" in text, "turn_end": end, "generation_prompt": "", "variables": [], "begins_with": ""})
    for line in sys.stdin:
        row = json.loads(line)
        more = {key: row[key] for key in ("tools", "documents") if key in row}
        messages = [{key: value for key, value in message.items() if key != "weight"} for message in row["messages"]]
        try:
            if row.get("ask"):
                out = {"pieces": [[render(messages, row.get("variables", {}), add_generation_prompt=True, **more), 0]], "prompt": 1, "answer": None}
            else:
                text, pieces, done, prompt, answer = render(messages, row.get("variables", {}), **more), [], 0, 0, None
                for i, message in enumerate(messages):
                    if message["role"] != "assistant": continue
                    before = len(render(messages[:i], row.get("variables", {}), add_generation_prompt=True, **more))
                    after = len(render(messages[:i + 1], row.get("variables", {}), **more).rstrip())
                    pieces.append([text[done:before], 0]); prompt = len(pieces) if i == len(messages) - 1 else 0
                    pieces.append([text[before:after], row["messages"][i].get("weight", 1)]); done = after
                    if prompt: answer = text[before:after].removesuffix(end)
                pieces.append([text[done:], 0])
                out = {"pieces": [piece for piece in pieces if piece[0]], "prompt": prompt, "answer": answer}
            dropped = [f"messages[{i}].{key}" for i, message in enumerate(messages) for key in message if key == "name"]
            write({"row": row["row"], **out, "dropped": dropped})
        except Exception as error:
            write({"row": row["row"], "fault": {"what": f"the chat template refuses this conversation: {error}", "fix": "correct the row"}})


main()
