# SPDX-License-Identifier: Apache-2.0
"""Generated programs: a list of rows, and the module that it is written out as."""

from __future__ import annotations

import linecache
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

HOLE: Final = re.compile(r"\{([a-zA-Z]\w*)([@~=:][^{}]*)?\}")
_NAME: Final = re.compile(
    r"\b(?:[vx]\d+\b|self\.(?:[csnupq]\d+\b|d\d+\['t'\]|[lhk]\d+\[0\]|[ob]\d+\.t\b|m\d+\[0\]\.t\b|[tw]\d+[a-z]\b))"
)
_ATTRIBUTE: Final = re.compile(r"self\.(([a-z])\d+)")
# Where a module keeps a tensor, by the letter of its attribute: how `__init__` puts it there, and its name.
HOLDERS: Final = {
    "c": ('self.register_buffer("{0}", {0})', "self.{0}"),
    "q": ("self.{0} = torch.nn.Parameter({0}, requires_grad=False)", "self.{0}"),
    "h": (
        "self.{0} = torch.nn.ParameterList([torch.nn.Parameter({0}, requires_grad=False)])",
        "self.{0}[0]",
    ),
    "k": ("self.{0} = ({0},)", "self.{0}[0]"),
    "s": ('self.register_buffer("{0}", {0})', "self.{0}"),
    "n": ('self.register_buffer("{0}", {0}, persistent=False)', "self.{0}"),
    "u": ("self.{0} = torch.nn.Parameter({0}, requires_grad=False)", "self.{0}"),
    "b": ("self.{0} = Cell({0})", "self.{0}.t"),
    "m": ("self.{0} = torch.nn.ModuleList([Cell({0})])", "self.{0}[0].t"),
    # one buffer with two names, and a view of a buffer
    "t": ('self.register_buffer("{0}", {0}); self.register_buffer("{0}t", self.{0})', "self.{0}t"),
    "w": ('self.register_buffer("{0}", {0}); self.{0}v = self.{0}[...]', "self.{0}v"),
    "p": ("self.{0} = {0}", "self.{0}"),
    "d": ("self.{0} = {{'t': {0}}}", "self.{0}['t']"),
    "l": ("self.{0} = [{0}]", "self.{0}[0]"),
    "o": ("self.{0} = types.SimpleNamespace(t={0})", "self.{0}.t"),
}
# Holder -> its weight.
CONSTANT_HOLDERS: Final = {"c": 6, "q": 3, "h": 1, "k": 1}
STATE_HOLDERS: Final = {"s": 6, "n": 1, "u": 1, "b": 1, "m": 1, "t": 0.5, "w": 0.5}
# State that is not a buffer: a module that replaces it must be refused.
PLAIN_HOLDERS: Final = ("p", "d", "l", "o")
FORWARD: Final = "forward"
STEP: Final = "step"

# The parts of a module's text besides its rows. In eager mode, control flow is Python's own.
_HEADER: Final = """\
import collections
import functools
import itertools
import math
import random
import types

import torch
from torch.nn import functional as F
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop
from torch.utils.checkpoint import checkpoint


def cond(p, f, g, args):
    return torch.cond(p, f, g, args) if torch.compiler.is_exporting() else (f if p else g)(*args)


def while_loop(goes_on, body, state):
    if torch.compiler.is_exporting():
        return torch_while_loop(goes_on, body, state)
    while goes_on(*state):
        state = body(*state)
    return [each.clone() for each in state]


def map(f, xs, *args):
    if torch.compiler.is_exporting():
        return torch_map(f, xs, *args)
    return torch.stack([f(x, *args) for x in xs])


def scan(f, init, xs):
    if torch.compiler.is_exporting():
        return torch_scan(f, init, xs)
    ys = []
    for x in xs:
        init, y = f(init, x)
        ys.append(y)
    return init, torch.stack(ys)


def held(owner, name, make):
    if not hasattr(owner, name):
        setattr(owner, name, make())
    return getattr(owner, name)


def run(context, f):
    with context:
        return f()


class Shared:
    pass


class Cell(torch.nn.Module):
    def __init__(self, t):
        super().__init__()
        self.register_buffer("t", t)


"""


@dataclass(frozen=True)
class Input:
    """A tensor that a program starts from.

    Attributes:
        name: "x0" for an input, "self.c0" for a constant, "self.s0" for state; others of `HOLDERS` are for
            tensors of the module that are not buffers.
        dtype: its dtype.
        shape: its shape.
        values: how `values.make` makes its elements.
        seed: of the elements.
        dynamic: dimensions that may have another size at run time.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    values: str = "normal"
    seed: int = 0
    dynamic: tuple[int, ...] = ()

    @property
    def is_buffer(self) -> bool:
        """Whether it belongs to the module."""
        return self.name.startswith("self.")

    @property
    def is_constant(self) -> bool:
        """Whether it belongs to the module, which does not write to it."""
        return is_constant(self.name)

    @property
    def attribute(self) -> str:
        """The attribute of the module that has it."""
        match = _ATTRIBUTE.match(self.name)
        return match[1] if match else self.name

    def declaration(self) -> str:
        """Returns the line of `__init__` that stores it."""
        return HOLDERS[self.attribute[0]][0].format(self.attribute)


def is_constant(name: str) -> bool:
    """Whether an input of that name is a constant of the module."""
    return name.startswith("self.") and name[5] in CONSTANT_HOLDERS


@dataclass(frozen=True)
class Node:
    """One row: a template of the tables with its holes filled.

    Attributes:
        name: of its result; "" for a statement.
        template: an expression or a statement, with holes.
        fills: hole -> operand or literal.
        method: that it is in.
    """

    name: str
    template: str
    fills: dict[str, str]
    method: str = FORWARD

    def text(self) -> str:
        """Returns the row as Python."""
        body = HOLE.sub(lambda match: self.fills[match[1]], self.template)
        return f"{self.name} = {body}" if self.name else body

    def operands(self) -> set[str]:
        """Returns the names of values that it uses."""
        return {name for fill in self.fills.values() for name in _NAME.findall(fill)}

    def renamed(self, old: str, new: str) -> Node:
        """Returns the row with another operand."""
        pattern = re.compile(rf"(?<![\w.]){re.escape(old)}(?!\w)")
        return replace(self, fills={hole: pattern.sub(new, fill) for hole, fill in self.fills.items()})


@dataclass(frozen=True)
class Program:
    """A generated program.

    Attributes:
        inputs: inputs, constants and state.
        nodes: rows, in order.
        outputs: names of values that `forward` returns.
        step: those that `step` returns, a second method with the same inputs; there is none without any.
        aliases: input -> the input or constant whose tensor is its example, too.
        dims: how dynamic sizes are declared, a key of `examples.DIMS`.
        literals: name -> values that no seed makes.
    """

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)
    dims: str = "auto"
    literals: dict[str, Tensor] = field(default_factory=dict, compare=False)

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of its methods."""
        return (FORWARD, STEP) if self.step else (FORWARD,)

    def returned(self, method: str) -> tuple[str, ...]:
        """Returns the names of the values that a method returns."""
        return self.step if method == STEP else self.outputs

    @property
    def arguments(self) -> list[Input]:
        """The inputs of its `forward`."""
        return [each for each in self.inputs if not each.is_buffer]

    @property
    def buffers(self) -> list[Input]:
        """The tensors of its module."""
        return [each for each in self.inputs if each.is_buffer]

    def source(self, wide: bool = False) -> str:
        """Returns a Python module with the class `Generated`, whose buffers are set by `module`.

        Args:
            wide: whether all floating-point numbers are float64.
        """
        arguments = ", ".join(["self", *(each.name for each in self.arguments)])
        text = ""
        for method in self.methods:
            rows = "".join(f"        {node.text()}\n" for node in self.nodes if node.method == method)
            results = "".join(f"{name}, " for name in self.returned(method)).strip()
            text += f"    def {method}({arguments}):\n{rows}        return ({results})\n\n"
        buffers = "".join(f"        {each.declaration()}\n" for each in self.buffers)
        made = ", ".join(["self", *(each.attribute for each in self.buffers)])
        if wide:
            text = re.sub(r"torch\.(float16|bfloat16|float32|half|float)\b(?!\()", "torch.float64", text)
            text = text.replace(".half()", ".double()").replace(".float()", ".double()")
        return (
            f"{_HEADER}class Generated(torch.nn.Module):\n    def __init__({made}):\n"
            f"        super().__init__()\n{buffers}\n{text.rstrip()}\n"
        )

    def listing(self) -> Iterator[str]:
        """Yields the lines of a short description: inputs, then rows."""
        for each in self.inputs:
            dims = [f"{size}?" if i in each.dynamic else str(size) for i, size in enumerate(each.shape)]
            same = f", the example is {self.aliases[each.name]}" if each.name in self.aliases else ""
            form = f"{str(each.dtype)[6:]}[{', '.join(dims)}]"
            yield f"{each.name}: {form} {each.values} seed {each.seed}{same}"
        for method in self.methods:
            if self.step:
                yield f"{method}:"
            yield from (node.text() for node in self.nodes if node.method == method)
            yield f"return {', '.join(self.returned(method))}"


def module(program: Program, tensors: dict[str, Tensor], wide: bool = False) -> torch.nn.Module:
    """Returns the module of a program.

    Args:
        program: the program.
        tensors: name -> tensor, of its buffers at least.
        wide: whether all floating-point numbers are float64.
    """
    source = program.source(wide)
    made = types.ModuleType("generated")
    sys.modules["generated"] = made  # torch.export looks up the globals of functions there
    linecache.cache["generated.py"] = (len(source), None, source.splitlines(keepends=True), "generated.py")
    exec(compile(source, "generated.py", "exec"), made.__dict__)
    result = made.Generated(*(tensors[each.name] for each in program.buffers))
    assert isinstance(result, torch.nn.Module)
    return result.eval()


def live(program: Program) -> Program:
    """Returns the program without inputs that no row uses, and outputs that do not exist."""
    used = {name for node in program.nodes for name in node.operands()}
    used |= {*program.outputs, *program.step}
    # an example that is another's tensor matters only if both are used
    aliases = {name: other for name, other in program.aliases.items() if {name, other} <= used}
    inputs = tuple(each for each in program.inputs if each.name in used)
    return replace(program, inputs=inputs, aliases=aliases)
