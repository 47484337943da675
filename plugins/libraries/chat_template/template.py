"""A chat template as a program: transformers' environment of jinja2, and where in the text each message was written.

Nothing of a message is changed to find that out. The outermost loops over messages report which message they are at, and what
a template prints comes piece by piece, so that a report stands exactly between two pieces.
"""
LIMIT = 16 << 20     # characters of one rendering
SMALL = 1 << 20      # of one of a made-up conversation
BUDGET = 64 << 20    # characters that the renderings of one row may have together
REMEMBERED = 256     # contexts of earlier answers, by what they depend on
SPACE = re.compile(r'\s*')
EMPTY_THOUGHT = re.compile(r'\s*<(\w+)>\s*</\1>\s*')
GIVEN = {'messages', 'tools', 'documents', 'add_generation_prompt'}


def telling(method, argument):
    return jinja2.nodes.ExprStmt(jinja2.nodes.Pair(jinja2.nodes.Const(method), argument))


class Writer(jinja2.compiler.CodeGenerator):
    """jinja2's, and for a report a plain call: one that goes through the sandbox takes as long as writing a message. No other
    statement is an ExprStmt, as the extension for {% do %} is not there."""

    def visit_ExprStmt(self, node, frame):
        self.newline(node)
        self.write(f'environment.{node.node.key.value}(')
        self.visit(node.node.value, frame)
        self.write(')')


class Generation(jinja2.ext.Extension):
    """{% generation %}…{% endgeneration %}: what the template's author wants to be learned."""
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        begin, end = (telling('at_span', jinja2.nodes.Const(value)) for value in (True, False))
        return jinja2.nodes.Scope([begin, *body, end]).set_lineno(line)


class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """What transformers renders in. What templates ask most, keys of messages and methods of texts, does not go through all
    of its checks, to the same end: rendering takes half of the time."""
    OF_DICT = frozenset(dir(dict))
    OF_TEXT = frozenset(('startswith', 'endswith', 'split', 'rsplit', 'strip', 'lstrip', 'rstrip', 'replace', 'upper', 'lower'))
    METHOD = type(''.strip)
    code_generator_class = Writer

    def getattr(self, obj, attribute):
        kind = obj.__class__
        if kind is dict and attribute not in self.OF_DICT:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if kind is str and attribute in self.OF_TEXT:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def call(self, context, obj, *args, **kwargs):
        if obj.__class__ is self.METHOD and obj.__self__.__class__ is str and obj.__name__ in self.OF_TEXT:
            kwargs.pop('_loop_vars', None)   # what compiled templates give every call
            kwargs.pop('_block_vars', None)
            return obj(*args, **kwargs)
        return super().call(context, obj, *args, **kwargs)


def with_reports(body):
    """The statements, with a report at each message of the outermost loops and one behind these loops."""
    nodes = jinja2.nodes
    out = []
    for node in body:
        out.append(node)
        if isinstance(node, nodes.For) and isinstance(node.target, nodes.Name) and not node.recursive:
            node.body.insert(0, telling('at_message', nodes.Name(node.target.name, 'load')).set_lineno(node.lineno))
            out.append(telling('at_message', nodes.Const(None)).set_lineno(node.lineno))
        elif isinstance(node, (nodes.If, nodes.With, nodes.Scope)):
            for part in ('body', 'elif_', 'else_'):
                if getattr(node, part, None):
                    setattr(node, part, with_reports(getattr(node, part)))
    return out


def names_in(*trees):
    return [name.name for tree in trees for name in ([tree] if isinstance(tree, jinja2.nodes.Name) else tree.find_all(jinja2.nodes.Name))]


def prompt_is_fixed(tree, given):
    """Whether the generation prompt hangs on nothing but variables from outside the template, so that it is the same behind
    all conversations; else it has to be rendered for each. In loops it may be asked for with the place in the loop."""
    nodes = jinja2.nodes
    asked = 'add_generation_prompt'
    made = {name.name for name in tree.find_all(nodes.Name) if name.ctx != 'load'}
    seen = 0
    for node in tree.body:
        if isinstance(node, nodes.If) and asked in names_in(node.test):
            seen += names_in(node).count(asked)
            if not set(names_in(node)) - {asked} <= given - made - {'messages', 'tools', 'documents'}:
                return False
    for node in (inner for loop in tree.find_all(nodes.For) for inner in loop.find_all(nodes.If)):
        if asked in names_in(node.test) and set(names_in(node.test)) <= {asked, 'loop'}:
            seen += names_in(node.test).count(asked)
    return seen == names_in(tree).count(asked)


def raise_exception(message):
    raise jinja2.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Template:
    """One template, compiled once."""

    def __init__(self, text, file, date):
        self.text, self.file, self.limit = text, file, SMALL
        environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
        environment.filters['tojson'] = tojson
        environment.globals.update({'raise_exception': raise_exception, 'strftime_now': date.strftime})
        environment.at_message, environment.at_span = self.at_message, self.at_span
        try:
            tree = environment.parse(text)
            self.names = jinja2.meta.find_undeclared_variables(tree) - set(environment.globals)
            # A name that the template sets too is one that may be given if it asks whether it is.
            asked = {test.node.name for test in tree.find_all(jinja2.nodes.Test)
                     if test.name == 'defined' and isinstance(test.node, jinja2.nodes.Name)}
            made = {name.name for name in tree.find_all(jinja2.nodes.Name) if name.ctx != 'load'}
            self.open_names = self.names - (made - asked) - GIVEN
            # What a template asks messages for, by whichever spelling: m.key, m['key'], m.get('key'), 'key' in m.
            self.words = {node.attr for node in tree.find_all(jinja2.nodes.Getattr)} | {
                node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
            self.dated = 'strftime_now' in names_in(tree)
            self.prompt_is_fixed = prompt_is_fixed(tree, self.names)
            tree.body = with_reports(tree.body)
            tree.set_environment(environment)
            self.program = jinja2.Template.from_code(environment, environment.compile(tree, filename=file), environment.make_globals(None))
        except jinja2.TemplateSyntaxError as error:
            raise Fault(f'line {error.lineno} of the chat template cannot be understood: {error.message}',
                        'correct it, or take the template that the model was published with', file, error.lineno) from None
        except (RecursionError, SyntaxError) as error:
            raise Fault(f'the chat template cannot be compiled: {first_line(error)}',
                        'take the template that the model was published with', file) from None

    def at_message(self, message):
        """Called by the template: from here on it writes that message, None: none."""
        self.reports.append((self.size, self.places.get(id(message))))

    def at_span(self, begins):
        if begins:
            self.spans.append([self.size, self.size])
        elif self.spans:
            self.spans[-1][1] = self.size

    def render(self, variables, messages, ask=False):
        """The text. `places_of` and `spans` then say of this rendering where things stand."""
        self.places = {id(message): at for at, message in enumerate(messages)}
        self.reports, self.spans, self.size = [], [], 0
        out = []
        try:
            context = self.program.new_context({**variables, 'messages': messages, 'add_generation_prompt': ask})
            for chunk in self.program.root_render_func(context):
                out.append(chunk)
                self.size += len(chunk)
                if self.size > self.limit:
                    which = 'this conversation' if self.limit == LIMIT else 'a conversation of a few words'
                    raise TooMuch(f'the chat template prints more than {self.limit >> 20} MiB for {which}',
                                  'shorten the conversation, or correct the template', self.file)
        except Said:
            raise
        except Exception as error:
            raise self.fault(error) from None
        return ''.join(out)

    def fault(self, error):
        """In the template's words, with its line."""
        line, at = None, error.__traceback__
        while at:
            if at.tb_frame.f_globals.get('__jinja_template__') is not None:
                line = self.program.get_corresponding_lineno(at.tb_lineno)
            at = at.tb_next
        if type(error) is jinja2.TemplateError:
            what = f'the chat template refuses this conversation: {first_line(error)}'
        else:
            kind = '' if isinstance(error, jinja2.TemplateError) else f'{type(error).__name__}: '
            what = f'the chat template fails at its line {line}: {kind}{first_line(error)}'
        kind = TooMuch if isinstance(error, MemoryError) else Fault
        return kind(what, 'change the conversation, leave it out, or use a template that takes it', self.file, line)

    def places_of(self):
        """{message: (begin, end) of what its turn of the loop wrote}; None for one that was written at several places."""
        found = {}
        ends = [at for at, _ in self.reports[1:]] + [self.size]
        for (begin, message), end in zip(self.reports, ends):
            if message is not None and end > begin:
                found[message] = None if message in found else (begin, end)
        return found


def forget(known):
    if len(known) >= REMEMBERED:
        known.clear()


def without_end(text, end):
    return text[:-len(end)] if end and text.endswith(end) else text


class Turns:
    """What a template's turns look like, found by made-up conversations, and with it where an answer begins and ends."""

    def __init__(self, template, variables):
        self.template, self.variables, self.contexts = template, variables, {}
        self.last_tail = self.tail = self.prompt = self.start = ''
        self.end = None   # not known; '': there is none
        self.dialect = self.first_dialect()
        self.find_ends()
        # By whether a conversation has reasoning and whether it has tool calls: do its answers stand where the loop was at them?
        found = {}
        for kind, probe in probes():
            found.setdefault(kind, set()).add(self.agree(probe))
        self.apart = {kind for kind, agreed in found.items() if True in agreed and False not in agreed}
        template.limit = LIMIT

    def write(self, row, messages, ask=False):
        text = self.template.render({**self.variables, **row.variables}, messages, ask)
        self.spent += len(text)
        if self.spent > BUDGET:
            raise TooMuch('the turns of this conversation can only be found by rendering all its beginnings, which takes too long',
                          'split the conversation')
        return text

    def full(self, row, ask=False):
        """In the template's dialect, or where that fails in the first one that it takes."""
        self.spent = 0
        failed = None
        for dialect in [self.dialect] + [one for one in DIALECTS if row.open and one != self.dialect]:
            row.speak(dialect)
            try:
                return self.write(row, row.messages, ask)
            except Fault as fault:
                failed = failed or fault
        raise failed

    def first_dialect(self):
        for dialect in DIALECTS:
            row = Conversation({'messages': [user(), *called(), assistant()], 'tools': [TOOL]}, self.template.words)
            row.speak(dialect)
            try:
                self.template.render({**self.variables, **row.variables}, row.messages)
                return dialect
            except Fault:
                pass
        return DIALECTS[0]

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
        """The part of a text that begins with an answer which the model writes: to the end of the turn. gpt-oss ends earlier
        turns with a token that does not end generation, which is left out."""
        for tail in (self.last_tail, self.tail):
            if tail and text.endswith(tail):
                return text[:len(text) - len(tail)] + (self.end if tail.startswith(self.end) else '')
        return text if self.end == '' else text.rstrip()

    def agree(self, probe):
        """Whether a probe's answers are the same by their places as by beginnings; None where the template refuses it."""
        try:
            row = Conversation(probe, self.template.words)
            text = self.full(row)
            places = self.template.places_of()
            for at in row.answers():
                place = places.get(at)
                start, own = self.beginning(row, at)
                there = self.template.places_of().get(at)
                if own is None or not place or not there or len(start) < there[0]:
                    return False
                prompt = start[there[0]:]
                made = self.in_context(row, at)
                begin = place[0] + len(prompt)
                if not made or made[0] != prompt or not text.startswith(prompt, place[0]):
                    return False
                if (begin, begin + len(self.own(text[begin:place[1]]))) != self.matched(text, begin, own):
                    return False
            return True
        except Fault:
            return None

    def beginning(self, row, at):
        """(what generation starts from, what the model writes there), by rendering both; the second is None where the
        template does not let the first stand."""
        start = self.write(row, row.messages[:at], True)
        text = self.write(row, row.messages[:at + 1])
        return start, self.own(text[len(start):]) if text.startswith(start) else None

    def context(self, row, at):
        """Made-up messages for those before an answer, of the roles that it may depend on, and what these depend on."""
        first = row.messages[:1] if at and row.messages[0]['role'] in ('system', 'developer') else []
        before = row.messages[at - 1]['role'] if at > len(first) else None
        if before == 'tool':
            made = [user(), *called()]
            Conversation({'messages': made}, self.template.words).speak(row.dialect)
        elif before == 'user' or before is None:
            made = [user()] * (before is not None)
        else:
            made = [user(), {'role': before, 'content': QUESTION}]
        return first + made, (before, row.dialect, bool(row.tools), json.dumps([first, row.variables_given], default=str))

    def in_context(self, row, at):
        """(generation prompt, what the model writes) of an answer behind made-up messages; None where that is not to be had."""
        before, key = self.context(row, at)
        variables = {**self.variables, **row.variables, 'tools': [TOOL] if row.tools else None}
        try:
            if key not in self.contexts:
                forget(self.contexts)
                self.contexts[key] = self.template.render(variables, before, True)
            start = self.contexts[key]
            text = self.template.render(variables, before + [row.messages[at]])
        except Fault:
            return None
        place = self.template.places_of().get(len(before))
        if not place or place[0] > len(start) or not text.startswith(start):
            return None
        return start[place[0]:], self.own(text[len(start):])

    def matched(self, text, begin, own):
        """(begin, end) of what is learned where generation would write `own`; None where the text has something else."""
        if text.startswith(own, begin):
            return begin, begin + len(own)
        body = without_end(own, self.end)
        if body != own and text.startswith(body + self.tail, begin):
            return begin, begin + len(body)
        empty = EMPTY_THOUGHT.match(own)   # Qwen 3 leaves out an empty thought
        if empty:
            body = own[empty.end():]
            space = SPACE.match(text, begin).end()
            if text.startswith(body, space):
                return begin, space + len(body)
            body = without_end(body, self.end)
            if text.startswith(body + self.tail, space):
                return begin, space + len(body)
        return None
