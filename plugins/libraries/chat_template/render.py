"""Which characters of a conversation are the model's to learn, and the program that answers line by line.

What the model writes at an answer is what the rendering that ends with it has behind the text that generation starts from
(the rendering of the messages before, with the generation prompt). The row's last answer is found by just that, whatever the
template does. Earlier answers would cost two renderings each, which grow with the conversation:

- A template whose turns stand by themselves wrote them where its loop was at them. Made-up conversations show, when the
  template is opened, for which kinds of conversations the loop's places are what renderings of the beginnings give.
- Of others (Qwen 3, gpt-oss: earlier turns lose their thinking) each answer is rendered behind a made-up question. An answer
  bears loss where the full text has it just so. One that the template has rewritten bears none: generation would never
  write that there. It is told as dropped.
- Where a template has no such loop, the beginnings are rendered after all, as far as BUDGET reaches.

GLM's turns have no end of their own: generation stops at the token that opens the next role. That token is learned where the
conversation goes on; behind a last answer the template writes none, and nothing is put there.
"""
ROLE_TOKEN = re.compile(r'<[^<>\s]+>')
MEMORY = 1 << 30     # bytes of addresses that this program may use
CONTROLS = bytes(range(32))


class Renderer(Turns):
    """Rows by one template."""

    def __init__(self, template, variables, learn):
        super().__init__(template, variables)
        self.learn, self.shapes = learn, set()

    def earlier(self, row, text, place, at, prompts, apart):
        """(begin, end) of what is learned of an answer that others follow; None where the template has rewritten it."""
        found = None
        if place:
            prompt = prompts.get(row.messages[at - 1]['role'] if at else None)
            if prompt is None or not apart:
                found = self.in_context(row, at)
                prompt = found and found[0]
            if found is None and prompt is None:   # what follows is for templates that write their turns elsewhere
                place = None
            elif not text.startswith(prompt, place[0]):
                return None
            begin = place and place[0] + len(prompt)
            if place and apart:
                return begin, begin + len(self.own(text[begin:place[1]]))
        if found:
            return self.matched(text, begin, found[1])
        start, own = self.beginning(row, at)
        return self.matched(text, len(start), own) if own is not None and text.startswith(start) else None

    def start_of_last(self, row, text, place, at, apart):
        """How many characters generation of the last answer starts from; the text that it does start from, where that is
        another. It is rendered, but where the prompt hangs on nothing of the row and a row of this shape was rendered."""
        shape = None
        if apart and place and self.template.prompt_is_fixed:
            shape = (at, tuple(map(tuple, row.messages)), *[message['role'] for message in row.messages], bool(row.tools))
            if shape in self.shapes and text.startswith(self.prompt, place[0]):
                return place[0] + len(self.prompt), None
        start = self.write(row, row.messages[:at], True)
        if not text.startswith(start):
            return 0, start
        if shape and start[place[0]:] == self.prompt:
            forget(self.shapes)
            self.shapes.add(shape)
        return len(start), None

    def answer(self, row):
        """The line for a row whose answers are learned."""
        text = self.full(row)
        places, marked = self.template.places_of(), [span for span in self.template.spans if span[1] > span[0]]
        dropped = row.dropped(text, places)
        answers = row.answers()
        # An answer without its calls would teach to end the turn where one belongs.
        wanted = [at for at in answers if row.weights[at] and (self.learn != 'last' or at == answers[-1])
                  and not (dropped and f'messages[{at}].tool_calls' in dropped)]
        spans, last, prompt, expected, prompts = [], None, 0, None, {}
        apart = not row.variables_given and (row.thinks, row.calls) in self.apart
        if wanted and wanted[-1] == len(row.messages) - 1:
            at = wanted.pop()
            place = places.get(at)
            prompt, other = self.start_of_last(row, text, place, at, apart)
            if other is not None:
                raise Fault(*differing(other, text))
            last = (prompt, prompt + len(self.own(text[prompt:])))
            expected = without_end(text[slice(*last)], self.end)
            if place and place[0] <= prompt:
                prompts[row.messages[at - 1]['role'] if at else None] = text[place[0]:prompt]
        for at in wanted:
            span = self.earlier(row, text, places.get(at), at, prompts, apart)
            if span:
                spans.append(self.with_role_token(text, span))
            else:
                dropped.append(f'messages[{at}]: rewritten by the template, bears no loss')
        spans += [last] if last else []
        if marked:
            spans = [(max(a, c), min(b, d)) for a, b in spans for c, d in marked]
        pieces, before = cut(text, [span for span in spans if span[0] < span[1]], prompt)
        return {'pieces': pieces, 'prompt': before if expected is not None else 0, 'answer': expected, 'dropped': dropped}

    def with_role_token(self, text, span):
        token = ROLE_TOKEN.match(text, span[1]) if self.end == '' else None
        return (span[0], token.end()) if token else span

    def line(self, given):
        row = Conversation(given, self.template.words)
        if not given.get('ask'):
            return self.answer(row)
        text = self.full(row, True)
        return {'pieces': [[text, 0]], 'prompt': 1, 'answer': None, 'dropped': row.dropped(text, self.template.places_of())}


def differing(start, text):
    """(what, fix) for a last answer that does not stand behind what generation starts from."""
    at = len(os.path.commonprefix([start, text]))
    first, second = (json.dumps(one[max(0, at - 60):at + 60], ensure_ascii=False) for one in (start, text))
    return (f'the last answer does not follow what generation starts from: generation starts from …{first}, and the whole '
            f'conversation is written …{second}, other from character {at} on',
            'take a template that writes answers as the model gives them (reasoning with them, or variables as enable_thinking '
            'that fit the sample), or leave the sample out')


def head(request):
    """(what the first line says, the renderers for rows without and with tools)"""
    try:
        date = datetime.date.fromisoformat(request['date']) if request.get('date') else datetime.date.today()
    except ValueError:
        raise Fault(f'the template\'s date {request["date"]} is no day', 'set data.template_date to one, such as "2026-11-29"') from None
    clock = datetime.datetime.combine(date, datetime.time())
    folder = request.get('folder') or ''
    tokens = special_tokens(folder) if folder else {}
    chosen = chosen_templates(find_templates(folder, request.get('file') or ''), request.get('name') or '')
    variables = {**tokens, **(request.get('variables') or {})}
    plain = Renderer(Template(*chosen[0], clock), variables, request.get('learn', 'answers'))
    tools = plain if chosen[1] == chosen[0] else Renderer(Template(*chosen[1], clock), variables, plain.learn)
    templates = [plain.template, tools.template]
    names = {name for one in templates for name in one.open_names if not name.endswith('_token')}
    bos = tokens.get('bos_token', '')
    dated = any(one.dated for one in templates)
    source = json.dumps([[one.text for one in templates], tokens], sort_keys=True)
    return {'template': chosen[0][1], 'source': hashlib.sha256(source.encode()).hexdigest(), 'uses_date': dated,
            'date': date.isoformat() if dated else None, 'turn_end': (plain.end or '').strip(), 'generation_prompt': plain.prompt,
            'variables': sorted(names), 'begins_with': bos if bos and plain.start.startswith(bos) else ''}, plain, tools


def quoted(text):
    """As JSON, in a third of the time that json takes where nothing else has to be escaped."""
    raw = text.encode().replace(b'\\', b'\\\\').replace(b'"', b'\\"').replace(b'\n', b'\\n')
    return b'"%b"' % raw if len(raw.translate(None, CONTROLS)) == len(raw) else json.dumps(text).encode()


def answer_line(text, plain, tools):
    row = None
    try:
        given = json.loads(text)
        row = given.get('row')
        if b'null' in text:
            given = {key: without_nulls(value) for key, value in given.items()}
        answer = (tools if given.get('tools') else plain).line(given)
        pieces = b','.join([b'[%b,%d]' % (quoted(text), loss) for text, loss in answer['pieces']])
        expected = b'null' if answer['answer'] is None else quoted(answer['answer'])
        return b'{"row":%b,"pieces":[%b],"prompt":%d,"answer":%b,"dropped":%b}' % (
            json.dumps(row).encode(), pieces, answer['prompt'], expected, json.dumps(answer['dropped']).encode())
    except Said as fault:
        said = fault.said
    except UnicodeEncodeError:
        said = Fault('a text has half of a surrogate pair', 'write the character whole').said
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        said = Fault(f'the row is no conversation: {type(error).__name__}: {first_line(error)}',
                     'write messages as {"role": …, "content": …}').said
    return json.dumps({'row': row, 'fault': said}).encode()


def main():
    if hasattr(resource, 'RLIMIT_AS'):   # a template may double a text until memory ends: then its row fails, not the machine
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard), hard))
    lines = lines_of(sys.stdin.fileno())
    out = sys.stdout.buffer
    try:
        try:
            request = json.loads(next(lines))
            said, plain, tools = head(request)
        except Said as fault:
            said, plain = {'fault': fault.said}, None
        out.write(json.dumps(said).encode() + b'\n')
        out.flush()
        if plain is None:
            sys.exit(3)
        for text in lines:
            if text is None:
                out.flush()   # nothing waits: who asks line by line gets its answer
            else:
                out.write(answer_line(text, plain, tools) + b'\n')
                if request.get('interactive'):
                    out.flush()   # then the first line without an answer is the one at which this program hangs
        out.flush()
    except (BrokenPipeError, KeyboardInterrupt):   # who asked has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def lines_of(descriptor):
    """Lines as bytes; None before each wait for more."""
    rest = []
    while True:
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        parts = chunk.split(b'\n')
        rest.append(parts[0])
        if len(parts) > 1:
            yield b''.join(rest)
            yield from parts[1:-1]
            rest = [parts[-1]]
            yield None
    if any(rest):
        yield b''.join(rest)


if __name__ == '__main__':
    main()
