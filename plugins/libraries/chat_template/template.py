"""A chat template as a program: transformers' environment of jinja2, and where in the text each message was written.

Nothing of a message is changed to find that out. The outermost loops over messages report which message they are at, and what
a template prints comes piece by piece, so that a report stands exactly between two pieces.
"""
LIMIT = 16 << 20   # characters of one rendering
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
        self.text, self.file = text, file
        environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
        environment.filters['tojson'] = tojson
        environment.globals.update({'raise_exception': raise_exception, 'strftime_now': date.strftime})
        environment.at_message, environment.at_span = self.at_message, self.at_span
        try:
            tree = environment.parse(text)
            self.names = jinja2.meta.find_undeclared_variables(tree)
            # What a template asks messages for, by whichever spelling: m.key, m['key'], m.get('key'), 'key' in m.
            self.words = {node.attr for node in tree.find_all(jinja2.nodes.Getattr)} | {
                node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
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
        self.of_environment = set(environment.globals)

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
                if self.size > LIMIT:
                    raise Fault('the chat template prints more than 16 MiB for this conversation',
                                'shorten the conversation, or correct the template')
        except Fault:
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
        return Fault(what, 'change the conversation, leave it out, or use a template that takes it', self.file, line)

    def places_of(self):
        """{message: (begin, end) of what its turn of the loop wrote}; None for one that was written at several places."""
        found = {}
        ends = [at for at, _ in self.reports[1:]] + [self.size]
        for (begin, message), end in zip(self.reports, ends):
            if message is not None and end > begin:
                found[message] = None if message in found else (begin, end)
        return found
