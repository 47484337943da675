"""A conversation as the template wants it, and what of it a rendering lacks."""
THOUGHTS = ('reasoning_content', 'thinking', 'reasoning')   # the names that datasets and templates have for reasoning
# What templates ask for otherwise where messages leave it open: tool arguments as an object or as text, and what a message
# without a content has. Tried in this order until the template does not fail.
DIALECTS = [(False, 'absent'), (False, None), (True, 'absent'), (True, None), (False, ''), (True, '')]
NOT_SHOWN = {'role', 'tool_call_id', 'id', 'type', 'weight', 'index'}   # keys whose values no reader of the text expects


def without_nulls(value):
    """Arrow writes every key that any row has."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def refuse(what, fix='write messages as {"role": …, "content": …}'):
    raise Fault(what, fix)


def function_of(call):
    return call['function'] if isinstance(call.get('function'), dict) else call


class Conversation:
    """One row. Its messages are changed in place, to what the template reads."""

    def __init__(self, row, words):
        self.messages = row.get('messages')
        if not isinstance(self.messages, list) or not self.messages:
            refuse('the conversation has no messages')
        self.weights, self.open, self.dialect = [], [], DIALECTS[0]
        self.thinks = self.calls = False
        for at, message in enumerate(self.messages):
            if message.__class__ is dict and len(message) == 2 and all(message.get(key).__class__ is str for key in ('role', 'content')):
                self.weights.append(1)   # as nearly all are
                self.thinks = self.thinks or '</think>' in message['content']
                continue
            self.check(at, message)
            self.weights.append(message.pop('weight', 1))
            if message.get('tool_calls') == []:   # Arrow's word for none; templates ask whether the key is there
                del message['tool_calls']
            if message['role'] == 'assistant':
                self.prepare(at, message, words)
        self.tools = row.get('tools') or None
        self.variables_given = row.get('variables') or {}
        self.variables = {'tools': self.tools, 'documents': row.get('documents'), **self.variables_given}

    @staticmethod
    def check(at, message):
        if not isinstance(message, dict) or not isinstance(message.get('role'), str):
            refuse(f'messages[{at}] has no role')
        if message.get('weight', 1) not in (0, 1):
            refuse(f'the weight of messages[{at}] is {message["weight"]}', 'write 0 (bears no loss) or 1')
        content = message.get('content')
        if isinstance(content, list) and not all(isinstance(part, dict) and isinstance(part.get('text'), str) for part in content):
            refuse(f'content of messages[{at}] has a part that is no text', 'leave the row out: text alone is learned')
        calls = message.get('tool_calls', [])
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            refuse(f'tool_calls of messages[{at}] is no list of objects')

    def prepare(self, at, message, words):
        """Names reasoning as the template does, and keeps what DIALECTS decide: (message, [(function, object, text)…])."""
        given = [name for name in THOUGHTS if name in message]
        self.thinks = self.thinks or bool(given) or '</think>' in str(message.get('content'))
        self.calls = self.calls or 'tool_calls' in message
        read = [name for name in THOUGHTS if name in words]
        if given and read and not set(given) & set(read):
            message[read[0]] = message.pop(given[0])
        both = []
        for function in map(function_of, message.get('tool_calls', ())):
            value = text = function.get('arguments')
            if isinstance(value, str):
                try:
                    value = json.loads(value)
                except ValueError:
                    continue   # no JSON: what the template gets is what the row has
            else:
                text = json.dumps(value, ensure_ascii=False)
            if isinstance(value, dict):
                both.append((function, value, text))
        if both or 'content' not in message:
            self.open.append((message, 'content' not in message, both))

    def speak(self, dialect):
        self.dialect = as_text, content = dialect
        for message, lacks_content, both in self.open:
            if lacks_content and content == 'absent':
                message.pop('content', None)
            elif lacks_content:
                message['content'] = content
            for function, value, text in both:
                function['arguments'] = text if as_text else value

    def answers(self):
        return [at for at, message in enumerate(self.messages) if message['role'] == 'assistant']

    def dropped(self, text, places):
        """What the text does not show, by name. Of an answer, what does not stand where it was written."""
        names = []
        for at, message in enumerate(self.messages):
            place = message['role'] == 'assistant' and places.get(at)
            there = text[place[0]:place[1]] if place else text
            for key, value in message.items():
                if key == 'tool_calls':
                    lacks = not all(shown(function_of(call).get('name'), there) for call in value)
                elif key in NOT_SHOWN or value.__class__ is str and value in there or key == 'name' and message['role'] == 'tool':
                    continue
                else:
                    lacks = not all(shown(part, there) for part in texts_of(value))
                if lacks:
                    names.append(f'messages[{at}].{key}')
        tools = [function_of(tool).get('name') for tool in self.tools or () if isinstance(tool, dict)]
        if not all(shown(name, text) for name in tools):
            names.append('tools')
        if not all(shown(part, text) for one in self.variables['documents'] or () for part in texts_of(one.get('text'))):
            names.append('documents')
        return names


def texts_of(value):
    if isinstance(value, str):
        return [value]
    return [part['text'] for part in value if isinstance(part, dict) and isinstance(part.get('text'), str)] if isinstance(value, list) else []


def shown(part, text):
    """Templates trim, write text as JSON, and take reasoning out of its marks."""
    if not isinstance(part, str) or part in text:
        return True
    part = part.strip()
    if part in text or json.dumps(part, ensure_ascii=False)[1:-1] in text:
        return True
    pieces = re.split('</?think>', part)
    return len(pieces) > 1 and all(piece.strip() in text for piece in pieces)


def cut(text, spans, prompt):
    """([[text, bears loss]…], how many of them are before `prompt`), of spans that are in order and not empty."""
    pieces, before, at = [], 0, 0
    for begin, end in [*spans, (len(text), len(text))]:
        if prompt and prompt <= begin:
            pieces += [[text[at:prompt], 0]] * (at < prompt)
            before, at, prompt = len(pieces), prompt, 0
        if at < begin:
            pieces.append([text[at:begin], 0])
        elif before < len(pieces) and begin < end:
            pieces[-1][0] += text[begin:end]   # the span before ends here
            begin = end
        if begin < end:
            pieces.append([text[begin:end], 1])
        at = end
    return pieces, before


# Made-up conversations.

QUESTION, ANSWER = 'Qcapstan', 'Acapstan'
CALL = {'id': '123456789', 'type': 'function', 'function': {'name': 'f', 'arguments': {'x': 1}}}
TOOL = {'type': 'function', 'function': {'name': 'f', 'description': 'f', 'parameters': {
    'type': 'object', 'properties': {'x': {'type': 'integer', 'description': 'x'}}, 'required': ['x']}}}


def user(content=QUESTION):
    return {'role': 'user', 'content': content}


def assistant(content=ANSWER, **more):
    return {'role': 'assistant', 'content': content, **more}


def called(**more):
    """An answer that calls a tool, and the tool's result."""
    call = {**CALL, 'function': dict(CALL['function'])}
    return [{'role': 'assistant', 'tool_calls': [call], **more},
            {'role': 'tool', 'tool_call_id': CALL['id'], 'name': 'f', 'content': '1'}]


def probes():
    """((has reasoning, has tool calls), conversation): of all kinds whose turns a template might write otherwise once others
    follow."""
    thought, inside = {'reasoning_content': 'Rcapstan'}, '<think>\nRcapstan\n</think>\n\n' + ANSWER
    yield (False, False), {'messages': [user(), assistant(), user(), assistant()]}
    yield (False, False), {'messages': [user(), assistant(' \n' + ANSWER + ' \n'), user(), assistant(''), user(), assistant()]}
    yield (True, False), {'messages': [user(), assistant(**thought), user(), assistant(**thought)]}
    yield (True, False), {'messages': [user(), assistant(inside), user(), assistant()]}
    for thinks, more in ((False, {}), (False, {'content': ANSWER}), (True, thought), (True, {'content': inside})):
        calls = [*called(**more), *called(**more)]
        yield (thinks, True), {'messages': [user(), *calls, assistant(), user(), assistant()], 'tools': [TOOL]}
