"""Write a program as Python code, one line for each operation. A `Dialect` says how a library calls the operations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.portable.program import Loop, Program, Step, Unportable, Value

LAYERS = ("matmul", "convolution")  # they read variables, so that every layer of a network has its line
SHORT = 30  # characters of an expression that a layer may read as it is
LONGEST = 88  # characters of an expression; a longer one gets a variable for its longest part
Template = str | Callable[[Mapping[str, Any]], str]


class Dialect(NamedTuple):
    """How a library computes.

    `templates` are expressions by operation. `{0}` is the first input, `{a0}` the same in parentheses where it needs
    them, `{all}` all inputs, other names are the operation's options, and `{m}` is the library. A function makes a
    template from the options. `helpers` are functions that some templates call.
    """

    module: str
    templates: Mapping[str, Template]
    helpers: Mapping[str, str]


class Code(NamedTuple):
    """The body of a function that computes the outputs, the constants that it reads as `w[name]`, and its helpers."""

    lines: list[str]
    results: list[str]
    constants: dict[str, np.ndarray]
    helpers: list[str]


def python_code(program: Program, inputs: Sequence[str], dialect: Dialect) -> Code:
    """The code of a program; `inputs` are the variables that hold its inputs.

    Raises Unportable, which names the part, for an operation that the dialect has no expression for.
    """
    names = constant_names(program)
    uses: dict[int, int] = {}
    _count(program.steps, program.outputs, uses)
    printer = _Printer(dialect, uses, names)
    printer.known = {id(value): _Text(text) for value, text in zip(program.inputs, inputs, strict=True)}
    printer.write(program.steps)
    results = [printer.text_of(value).text for value in program.outputs]
    read = {id(value) for value in printer.read}
    constants = {names[id(v)]: np.asarray(v.data) for v in program.constants() if id(v) in read}
    text = "\n".join([*printer.lines, *results])
    helpers = [helper for call, helper in dialect.helpers.items() if f"{call}(" in text]
    return Code(printer.lines, results, constants, helpers)


def constant_names(program: Program) -> dict[int, str]:
    """A name for every constant array, by its id: equal arrays have one name, different arrays different names."""
    names: dict[int, str] = {}
    taken: dict[str, bytes] = {}
    for value in program.constants():
        content = repr((value.shape, str(value.dtype))).encode() + np.ascontiguousarray(value.data).tobytes()
        number, name = 1, value.name or "constant"
        while taken.setdefault(name, content) != content:
            number += 1
            name = f"{value.name or 'constant'}_{number}"
        names[id(value)] = name
    return names


class _Text(NamedTuple):
    text: str
    is_atom: bool = True  # whether it needs no parentheses

    @property
    def atom(self) -> str:
        return self.text if self.is_atom else f"({self.text})"


class _Printer:
    def __init__(self, dialect: Dialect, uses: Mapping[int, int], names: Mapping[int, str]) -> None:
        self.dialect, self.uses, self.names = dialect, uses, names
        self.known: dict[int, _Text] = {}
        self.waiting: dict[int, Value] = {}  # values that are read once: they are written where they are read
        self.lines: list[str] = []
        self.read: list[Value] = []
        self.indent = ""
        self.count = 0

    def write(self, steps: Sequence[Step | Loop]) -> None:
        for step in steps:
            if isinstance(step, Loop):
                self._loop(step)
                continue
            self.known[id(step.output)] = self._expression(step)
            if self.uses[id(step.output)] == 1:
                self.waiting[id(step.output)] = step.output
            else:
                self._assign(step.output)

    def text_of(self, value: Value) -> _Text:
        """The text of a value that is read."""
        if value.is_constant and not value.shape:
            return _Text(literal(value.data), not np.asarray(value.data) < 0)
        if value.is_filled() and not value.name:
            return self._filled(value)
        if value.is_constant:
            self.read.append(value)
            return _Text(f'w["{self.names[id(value)]}"]')
        self.waiting.pop(id(value), None)
        return self.known[id(value)]

    def _expression(self, step: Step) -> _Text:
        template = self.dialect.templates.get(step.operation)
        if template is None:
            raise Unportable(step.operation)
        options = options_of(step.options, step.inputs, step.output.dtype)
        template = template(options) if callable(template) else template
        if step.operation in LAYERS:
            for value in step.inputs:
                if len(self._peek(value)) > SHORT:
                    self._assign(value)
        while sum(len(self._peek(value)) for value in step.inputs) > LONGEST:
            long = [value for value in step.inputs if id(value) in self.waiting]
            if not long:
                break
            self._assign(max(long, key=lambda value: len(self._peek(value))))
        texts = [self.text_of(value) for value in step.inputs]
        fields = {f"a{i}": text.atom for i, text in enumerate(texts)}
        together = ", ".join(text.text for text in texts)
        text = template.format(*(t.text for t in texts), **fields, **options, all=together, m=self.dialect.module)
        return _Text(text, not _is_operator(template))

    def _peek(self, value: Value) -> str:
        return self.known[id(value)].text if id(value) in self.waiting else ""

    def _assign(self, value: Value, name: str = "") -> str:
        self.waiting.pop(id(value), None)
        if not name:
            self.count += 1
            name = f"x{self.count}"
        dtype = "" if value.dtype == np.float32 else f"{np.dtype(value.dtype).name} "
        shape = f"  # {dtype}{list(value.shape)}"
        self.lines.append(f"{self.indent}{name} = {self.known[id(value)].text}{shape}")
        self.known[id(value)] = _Text(name)
        return name

    def _flush(self) -> None:
        for value in list(self.waiting.values()):
            self._assign(value)

    def _loop(self, loop: Loop) -> None:
        self._flush()
        self.count += 1
        number = self.count
        carried = [f"carry{number}_{i}" for i in range(len(loop.carries))]
        for name, (first, inside, _, last) in zip(carried, loop.carries, strict=True):
            self.lines.append(f"{self.indent}{name} = {self._array(first)}")
            self.known[id(inside)] = self.known[id(last)] = _Text(name)
        lists = [f"rows{number}_{i}" for i in range(len(loop.stacked))]
        self.lines += [f"{self.indent}{name} = []" for name in lists]
        order = f"reversed(range({loop.length}))" if loop.reverse else f"range({loop.length})"
        self.lines.append(f"{self.indent}for t{number} in {order}:")
        for array, row in loop.rows:
            self.known[id(row)] = _Text(f"{self.text_of(array).atom}[t{number}]")
        self.indent += "    "
        self.write(loop.steps)
        self._flush()
        for name, (row, _) in zip(lists, loop.stacked, strict=True):  # first: a row may be the carry before this step
            self.lines.append(f"{self.indent}{name}.append({self._array(row)})")
        new = [self._array(after) for _, _, after, _ in loop.carries]
        if carried:
            self.lines.append(f"{self.indent}{', '.join(carried)} = {', '.join(new)}")
        self.indent = self.indent[:-4]
        for name, (_, rows) in zip(lists, loop.stacked, strict=True):
            self.known[id(rows)] = _Text(f"{self.dialect.module}.stack({name}{'[::-1]' * loop.reverse})")
            self._assign(rows)

    def _filled(self, value: Value) -> _Text:
        module, name = self.dialect.module, np.dtype(value.dtype).name
        dtype = "bool_" if name == "bool" and module == "np" else name
        return _Text(f"{module}.full({value.shape}, {literal(value.data.flat[0])}, dtype={module}.{dtype})")

    def _array(self, value: Value) -> str:
        """The text of a value that must be an array, also where it is a constant number."""
        if value.is_constant and not value.shape:
            return self._filled(value).text
        return self.text_of(value).text


def options_of(options: Mapping[str, Any], inputs: Sequence[Value], dtype: Any) -> dict[str, Any]:
    """The options of an operation as its template reads them, with the dtype of the result and the inputs."""
    texts = {name: literal(x) if isinstance(x, float) else x for name, x in options.items()}
    return {**texts, "dtype": np.dtype(dtype).name, "inputs": inputs}


def literal(data: Any) -> str:
    """A number as Python text, with the fewest digits that its dtype needs."""
    number = np.asarray(data)
    if number.dtype.kind == "f":
        if not np.isfinite(number):
            return f'float("{float(number)}")'
        return repr(float(str(number)))
    return repr(number.item())


def _is_operator(template: str) -> bool:
    """Whether a template is an operator between its inputs, such as `{a0} + {a1}`, and not a call."""
    return template.startswith(("-", "~")) or any(f" {sign} " in template for sign in OPERATORS)


OPERATORS = ("+", "-", "*", "/", "@", "**", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=")


def _count(steps: Sequence[Step | Loop], results: Sequence[Value], uses: dict[int, int]) -> None:
    """Count how often each value is read. Inside a loop, a value from outside is read many times."""
    for step in steps:
        weight = 2 if isinstance(step, Loop) else 1
        for value in step.inputs:
            uses[id(value)] = uses.get(id(value), 0) + weight
        if isinstance(step, Loop):
            _count(step.steps, [carry[2] for carry in step.carries] + [row for row, _ in step.stacked], uses)
    for value in results:
        uses[id(value)] = uses.get(id(value), 0) + 1
