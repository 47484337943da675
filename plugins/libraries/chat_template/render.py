"""Which characters of a conversation are the model's to learn, and the program that answers line by line.

What the model writes at an answer is what the rendering that ends with it has behind the text that generation starts from
(the rendering of the messages before, with the generation prompt). The row's last answer is found by just that, whatever the
template does. Earlier answers would cost two renderings each, which grow with the conversation:

- A template whose turns stand by themselves wrote them where its loop was at them. Made-up conversations show, when the
  template is opened, whether the loop's places are what renderings of the beginnings give.
- Of others (Qwen 3, gpt-oss: earlier turns lose their thinking) each answer is rendered behind a made-up question. An answer
  bears loss where the full text has it just so. One that the template has rewritten bears none: generation would never
  write that there. It is told as dropped.
- Where a template has no such loop, the beginnings are rendered after all, as far as BUDGET reaches.

GLM's turns have no end of their own: generation stops at the token that opens the next role. That token is learned where the
conversation goes on; behind a last answer the template writes none, and nothing is put there.
"""
BUDGET = 64 << 20    # characters that the renderings of one row may have together
REMEMBERED = 256     # contexts of earlier answers, by what they depend on
ROLE_TOKEN = re.compile(r'<[^<>\s]+>')
EMPTY_THOUGHT = re.compile(r'\s*<(\w+)>\s*</\1>\s*')
MEMORY = 4 << 30     # bytes of addresses that this program may use
ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(',', ':')).encode


def without_end(text, end):
    return text[:-len(end)] if end and text.endswith(end) else text


class Renderer:
    """Rows by one template."""

    def __init__(self, template, variables, learn):
        self.template, self.variables, self.learn = template, variables, learn
        self.dialect = DIALECTS[0]
        self.contexts = {}
        self.last_tail = self.tail = self.end = self.prompt = self.start = ''
        self.apart = True
        self.find_ends()
        found = [self.agree(probe) for probe in probes()]
        self.apart = False not in found and True in found

    # Renderings.

    def write(self, row, messages, ask=False):
        text = self.template.render({**self.variables, **row.variables}, messages, ask)
        self.spent += len(text)
        if self.spent > BUDGET:
            raise Fault('the turns of this conversation can only be found by rendering all its beginnings, which takes too long',
                        'split the conversation')
        return text

    def full(self, row, ask=False):
        """In the first dialect that the template takes, which the next row tries first."""
        self.spent = 0
        failed = None
        for dialect in [self.dialect] + [one for one in DIALECTS if one != self.dialect] if row.open else [self.dialect]:
            row.speak(dialect)
            try:
                text = self.write(row, row.messages, ask)
            except Fault as fault:
                failed = failed or fault
                continue
            if row.open:
                self.dialect = dialect
            return text
        raise failed

    # What a template's turns look like.

    def find_ends(self):
        """From a made-up conversation: the text behind an earlier and behind the last answer, and what ends a turn."""
        try:
            row = Conversation({'messages': [user(), assistant(ANSWER + '1'), user(), assistant(ANSWER + '2')]}, self.template.words)
            text = self.full(row)
            place = self.template.places_of().get(1)
            start = self.write(row, row.messages[:1], True)
        except Fault:
            return
        self.start = text
        if ANSWER + '1' in text and ANSWER + '2' in text:
            self.last_tail = text.rpartition(ANSWER + '2')[2]
            self.tail = text[:place[1]].partition(ANSWER + '1')[2] if place else self.last_tail
        both = self.tail.strip() and self.last_tail.startswith(self.tail)
        self.end = (self.tail if both else self.last_tail).rstrip()
        self.prompt = start[place[0]:] if place else ''

    def own(self, text):
        """How many of these characters, which begin with an answer, are what the model writes: not what follows its end."""
        for tail in (self.last_tail, self.tail):
            if tail and text.endswith(tail):
                return len(text) - len(tail) + len(self.end if tail.startswith(self.end) else tail.rstrip())
        return len(text.rstrip()) if self.end else len(text)

    def agree(self, probe):
        """Whether a probe's answers are the same by their places as by beginnings; None where the template refuses it."""
        try:
            row = Conversation(probe, self.template.words)
            text = self.full(row)
            places = self.template.places_of()
            for at in row.answers():
                start, own = self.beginning(row, at)
                place = places.get(at)
                prompt = start[place[0]:] if place else None
                if own is None or prompt is None or len(start) < place[0] or not text.startswith(prompt, place[0]):
                    return False
                shown = text[place[0] + len(prompt):place[1]]
                if shown[:self.own(shown)] != own:
                    return False
            return True
        except Fault:
            return None

    # Where the answers of a row are.

    def beginning(self, row, at):
        """(what generation starts from, what the model writes there), by rendering both; the second is None where the
        template does not let the first stand."""
        start = self.write(row, row.messages[:at], True)
        text = self.write(row, row.messages[:at + 1])
        return start, text[len(start):][:self.own(text[len(start):])] if text.startswith(start) else None

    def context(self, row, at):
        """Made-up messages for those before an answer, of the roles that it may depend on, and what these depend on."""
        first = row.messages[:1] if at and row.messages[0]['role'] in ('system', 'developer') else []
        before = row.messages[at - 1]['role'] if at > len(first) else None
        if before == 'tool':
            made = [user(), *called()]
            # In the dialect that the template took this row in.
            Conversation({'messages': made}, self.template.words).speak(self.dialect)
        elif before == 'user' or before is None:
            made = [user()] * (before is not None)
        else:
            made = [user(), {'role': before, 'content': QUESTION}]
        return first + made, (before, self.dialect, bool(row.tools), json.dumps([first, row.variables_given], default=str))

    def in_context(self, row, at):
        """(generation prompt, what the model writes) of an answer behind made-up messages; None where that is not to be had."""
        before, key = self.context(row, at)
        variables = {**self.variables, **row.variables, 'tools': [TOOL] if row.tools else None}
        try:
            if key not in self.contexts:
                if len(self.contexts) >= REMEMBERED:
                    self.contexts.clear()
                self.contexts[key] = self.template.render(variables, before, True)
            start = self.contexts[key]
            text = self.template.render(variables, before + [row.messages[at]])
        except Fault:
            return None
        place = self.template.places_of().get(len(before))
        if not place or place[0] > len(start) or not text.startswith(start):
            return None
        return start[place[0]:], text[len(start):][:self.own(text[len(start):])]

    def earlier(self, row, text, place, at, prompts):
        """(begin, end) of what is learned of an answer that others follow; None where the template has rewritten it."""
        if place and self.apart:
            prompt = prompts.get(row.messages[at - 1]['role'] if at else None)
            if prompt is None:
                prompt = (self.in_context(row, at) or (None,))[0]
            if prompt is not None and text.startswith(prompt, place[0]):
                begin = place[0] + len(prompt)
                return begin, begin + self.own(text[begin:place[1]])
        found = self.in_context(row, at) if place else None
        if found:
            prompt, own = found
            begin = place[0] + len(prompt)
            stands = text.startswith(prompt, place[0])
        else:
            start, own = self.beginning(row, at)
            begin = len(start)
            stands = own is not None and text.startswith(start)
        return self.matched(text, begin, own) if stands else None

    def matched(self, text, begin, own):
        if text.startswith(own, begin):
            return begin, begin + len(own)
        body = without_end(own, self.end)
        if body != own and text.startswith(body + self.tail, begin):
            return begin, begin + len(body)   # gpt-oss ends earlier turns with a token that ends nothing: it is not learned
        empty = EMPTY_THOUGHT.match(own)      # Qwen 3 leaves out an empty thought
        if empty:
            space = len(text[begin:]) - len(text[begin:].lstrip())
            if text.startswith(own[empty.end():], begin + space):
                return begin, begin + space + len(own) - empty.end()
        return None

    def answer(self, row):
        """The line for a row whose answers are learned."""
        text = self.full(row)
        places, marked = self.template.places_of(), [span for span in self.template.spans if span[1] > span[0]]
        answers = row.answers()
        wanted = [at for at in answers if row.weights[at] and (self.learn != 'last' or at == answers[-1])]
        spans, rewritten, prompts, prompt, expected = [], [], {}, 0, None
        if wanted:
            last = answers[-1]
            start = self.write(row, row.messages[:last], True)
            if text.startswith(start) and places.get(last) and places[last][0] <= len(start):
                prompts[row.messages[last - 1]['role'] if last else None] = start[places[last][0]:]
            if wanted[-1] == len(row.messages) - 1:
                if not text.startswith(start):
                    raise Fault(*differing(start, text))
                prompt = len(start)
                spans = [(prompt, prompt + self.own(text[prompt:]))]
                expected = without_end(text[slice(*spans[0])], self.end)
        for at in wanted[:-1] if prompt or spans else wanted:
            span = self.earlier(row, text, places.get(at), at, prompts)
            if span is None:
                rewritten.append(f'messages[{at}]: this earlier answer is rewritten by the template and bears no loss')
            else:
                spans.insert(-1 if expected is not None else len(spans), self.with_role_token(text, span))
        if marked:
            spans = [(max(a, c), min(b, d)) for a, b in spans for c, d in marked if max(a, c) < min(b, d)]
        pieces, before = cut(text, spans, prompt)
        return {'pieces': pieces, 'prompt': before, 'answer': expected, 'dropped': row.dropped(text) + rewritten}

    def with_role_token(self, text, span):
        token = None if self.end else ROLE_TOKEN.match(text, span[1])
        return (span[0], token.end()) if token else span

    def line(self, given):
        row = Conversation(given, self.template.words)
        if not given.get('ask'):
            return self.answer(row)
        text = self.full(row, True)
        return {'pieces': [[text, 0]], 'prompt': 1, 'answer': None, 'dropped': row.dropped(text)}


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
    date = datetime.date.fromisoformat(request['date']) if request.get('date') else datetime.date.today()
    clock = datetime.datetime.combine(date, datetime.time())
    folder = request.get('folder') or ''
    tokens = special_tokens(folder) if folder else {}
    chosen = chosen_templates(find_templates(folder, request.get('file') or ''), request.get('name') or '')
    variables = {**tokens, **(request.get('variables') or {})}
    plain = Renderer(Template(*chosen[0], clock), variables, request.get('learn', 'answers'))
    tools = plain if chosen[1] == chosen[0] else Renderer(Template(*chosen[1], clock), variables, plain.learn)
    templates = [plain.template, tools.template]
    names = set().union(*(one.names - one.of_environment for one in templates)) - GIVEN - set(tokens)
    bos = tokens.get('bos_token', '')
    dated = any('strftime_now' in one.names for one in templates)
    source = json.dumps([[one.text for one in templates], tokens], sort_keys=True)
    return {'template': chosen[0][1], 'source': hashlib.sha256(source.encode()).hexdigest(), 'uses_date': dated,
            'date': date.isoformat() if dated else None, 'turn_end': plain.end.strip(), 'generation_prompt': plain.prompt,
            'variables': sorted(names), 'begins_with': bos if bos and plain.start.startswith(bos) else ''}, plain, tools


def answer_line(text, plain, tools):
    row = None
    try:
        given = json.loads(text)
        row = given.get('row')
        if b'null' in text:
            given = {key: without_nulls(value) for key, value in given.items()}
        answer = (tools if given.get('tools') else plain).line(given)
        return ENCODE({'row': row, **answer}).encode()
    except Fault as fault:
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
            said, plain, tools = head(json.loads(next(lines)))
        except Fault as fault:
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
        out.flush()
    except BrokenPipeError:   # who asked has what it wanted
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
