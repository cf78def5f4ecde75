# SPDX-License-Identifier: Apache-2.0
"""Models: the result of a user's entry function."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.exceptions import did_you_mean
from delegatec.edge.constant_methods import check_constant_methods
from delegatec.frontend import session
from delegatec.frontend.dynamic_shapes import dynamic_shape_problems
from delegatec.frontend.method import Method as Method
from delegatec.frontend.plain_values import unstorable_constant
from delegatec.frontend.pt2.fields import is_identifier

# Dtypes that torch.export can store and kernels of the runtime support; complex and quantized are not among
# them.
INPUT_DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
# The name under which a .pt2 stores `forward`.
_RESERVED = "model"
_SCALARS = (int, float, bool, str, type(None))


@dataclass(frozen=True)
class Model:
    """A module and its example inputs.

    The frontend puts the module into eval mode, exports it without gradients, and takes ownership: do not
    train it afterwards.

    Attributes:
        module: the module, on CPU.
        example_inputs: positional arguments of `forward`, as in `Method`; None to export only `methods`.
        example_kwargs: keyword arguments of `forward`.
        dynamic_shapes: dynamic dimensions of `forward`, as in `Method`.
        methods: additional methods of the program by name. All share their weights. A tuple is a method that
            calls `forward` with other example inputs, such as of another size, where a backend requires
            static shapes: `{"forward_8": (torch.ones(8, 3),)}`.
        constant_methods: additional methods by name, without inputs, that return a value: an int, a float, a
            bool, a string, a tensor, or a tuple or list of these, such as `{"get_max_seq_len": 128}`.
        external_weights: names of weights that are not in a program but in a `.ptd`, of which there are
            several: those of adapters. A `.ptd` of another name has other values of the same shapes.
        strict: whether torch.export traces Python bytecode (True) or runs the module (False, the default:
            faster, and supports more modules).
        location: where user code created this object; None outside user code.

    Raises:
        DelegatecError: DC108, DC109 and DC122, one diagnostic for each invalid argument.
    """

    module: torch.nn.Module
    example_inputs: tuple[Any, ...] | None = None
    example_kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Mapping[str, Any] | tuple[Any, ...] | list[Any] | None = None
    methods: Mapping[str, Method | tuple[Any, ...]] = field(default_factory=dict)
    constant_methods: Mapping[str, Any] = field(default_factory=dict)
    external_weights: Collection[str] = ()
    strict: bool = False
    location: SourceLocation | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", session.caller())
        problems = list(self._problems())
        if problems:
            raise DelegatecError(problems)

    def all_methods(self) -> dict[str, Method]:
        """Returns all methods by name, `forward` first."""
        methods: dict[str, Method] = {}
        if self.example_inputs is not None:
            methods["forward"] = Method(
                "forward", self.example_inputs, self.example_kwargs, self.dynamic_shapes
            )
        return methods | {
            name: method if isinstance(method, Method) else Method("forward", method)
            for name, method in self.methods.items()
        }

    def _problems(self) -> Iterator[Diagnostic]:
        if not isinstance(self.module, torch.nn.Module):
            is_class = isinstance(self.module, type) and issubclass(self.module, torch.nn.Module)
            yield self._wrong(
                "module",
                self.module,
                "a torch.nn.Module",
                f"instantiate it: {self.module.__name__}(...)"
                if is_class
                else "wrap the function in the forward of a module",
            )
        elif not hasattr(self.module, "_modules"):
            help = "call super().__init__() first in its __init__"
            yield self._wrong("module", self.module, "an initialized module", help)
            return
        if not isinstance(self.strict, bool):
            yield self._wrong("strict", self.strict, "True or False", "omit it")
        expected = "a dict of delegatec.Method, or tuples of example inputs of forward, by name"
        if not isinstance(self.methods, Mapping):
            yield self._wrong("methods", self.methods, expected, "see delegatec.Method")
            return
        for name, value in self.methods.items():
            if not (isinstance(name, str) and isinstance(value, Method | tuple)):
                yield self._wrong(f"methods[{name!r}]", value, expected, "see delegatec.Method")
                return
        if self.example_inputs is None and not self.methods:
            yield self._wrong(
                "example_inputs", None, "a tuple", "pass the arguments of forward, such as (image,)"
            )
        if isinstance(self.constant_methods, Mapping):
            taken = {*self.all_methods(), _RESERVED}
            yield from check_constant_methods(self.constant_methods, taken, INPUT_DTYPES, self.location)
        else:
            expected = "a dict of values by name"
            yield self._wrong("constant_methods", self.constant_methods, expected, "see delegatec.Model")
        yield from self._weight_problems()
        for name, method in self.all_methods().items():
            yield from self._method_problems(name, method)

    def _weight_problems(self) -> Iterator[Diagnostic]:
        names = self.external_weights
        if not isinstance(names, list | tuple | set | frozenset):
            yield self._wrong("external_weights", names, "a list of names", "see delegatec.Model")
            return
        if not names or not isinstance(self.module, torch.nn.Module):
            return
        known = {name for name, _ in self.module.named_parameters(remove_duplicate=False)}
        known.update(name for name, _ in self.module.named_buffers(remove_duplicate=False))
        for name in names:
            if not isinstance(name, str) or name not in known:
                expected = "names of parameters and buffers of the module"
                yield self._wrong("external_weights", name, expected, did_you_mean(str(name), known))

    def _method_problems(self, name: str, method: Method) -> Iterator[Diagnostic]:
        where = "" if name == "forward" else f"methods[{name!r}]."
        twice = name == "forward" and name in self.methods and self.example_inputs is not None
        if not name.isidentifier() or name == _RESERVED or twice:
            expected = f"unique identifiers other than `{_RESERVED}`"
            yield self._wrong("methods", name, expected, "rename the method")
        owner = self.module
        is_module = isinstance(owner, (torch.nn.Module, type))
        is_name = isinstance(method.function, str)
        if not is_name or (is_module and not callable(getattr(owner, method.function, None))):
            expected = "the name of a method of the module"
            yield self._wrong(f"{where}function", method.function, expected, "check the name")
        if not isinstance(method.example_inputs, tuple):
            single = isinstance(method.example_inputs, torch.Tensor)
            yield self._wrong(
                f"{where}example_inputs",
                method.example_inputs,
                "a tuple of positional arguments",
                "write (x,) for a single argument" if single else "write tuple(...)",
            )
            return
        kwargs = method.example_kwargs
        if kwargs is not None and not (
            isinstance(kwargs, Mapping) and all(isinstance(key, str) for key in kwargs)
        ):
            yield self._wrong(
                f"{where}example_kwargs", kwargs, "a dict of keyword arguments", "see delegatec.Method"
            )
            return
        for key in kwargs or {}:
            if not is_identifier(key):
                name = f"the name of an argument in {where}example_kwargs"
                yield self._wrong(name, key, "an identifier", "rename the argument")
        for problem in dynamic_shape_problems(owner, method):
            yield replace(problem, location=self.location)
        inputs = pytree.tree_flatten_with_path((method.example_inputs, dict(kwargs or {})))[0]
        for path, leaf in inputs:
            group = "example_kwargs" if path[0].idx else "example_inputs"  # type: ignore[attr-defined]
            yield from self._input_problems(f"{where}{group}{pytree.keystr(path[1:])}", leaf)

    def _input_problems(self, name: str, leaf: Any) -> Iterator[Diagnostic]:
        if not isinstance(leaf, torch.Tensor):
            if not isinstance(leaf, _SCALARS):
                yield self._wrong_input(
                    name,
                    f"of type {type(leaf).__name__}",
                    "a tensor, a Python scalar, or a tuple, list or dict of these",
                    _converted(leaf),
                )
            elif wanted := unstorable_constant(leaf):
                yield self._wrong_input(name, ascii(leaf), wanted, "pass another value, or a tensor")
            return
        if leaf.dtype not in INPUT_DTYPES:
            yield self._wrong_input(
                name,
                f"a tensor of dtype {_short(leaf.dtype)}",
                f"one of {', '.join(map(_short, INPUT_DTYPES))}",
                "pass the real and imaginary parts as separate tensors (torch.view_as_real)"
                if leaf.is_complex()
                else "convert it to a supported dtype",
            )
        if leaf.device.type != "cpu" or leaf.layout is not torch.strided:
            yield self._wrong_input(
                name,
                f"a tensor on {leaf.device.type} with layout {str(leaf.layout).removeprefix('torch.')}",
                "a strided tensor on cpu",
                "use .cpu() and .to_dense()",
            )

    def _wrong(self, name: str, value: Any, expected: str, help_text: str) -> Diagnostic:
        kind = repr(value) if isinstance(value, (str, type(None))) else f"of type {type(value).__name__}"
        if isinstance(value, type):
            kind = f"the class {value.__name__}"
        return Diagnostic(
            "DC108",
            f"{name} of delegatec.Model is {kind}",
            location=self.location,
            expected=expected,
            help=help_text,
        )

    def _wrong_input(self, name: str, kind: str, expected: str, help_text: str) -> Diagnostic:
        return Diagnostic(
            "DC109", f"{name} is {kind}", location=self.location, expected=expected, help=help_text
        )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _converted(leaf: object) -> str:
    """Returns how to pass a value that is not a tensor."""
    if not hasattr(leaf, "__array__"):
        return "pass its tensors"
    return "use torch.from_numpy" if getattr(leaf, "shape", ()) else "use .item()"
