# SPDX-License-Identifier: Apache-2.0
"""Settings of quantization."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean

# The rule has the same tables: a test compares.
CHOICES: Final = {
    "activation": ("int8", "int16", "dynamic_int8", "float"),
    "weight": ("int8", "int4", "float16"),
    "weight_scales": ("channel", "tensor"),
    "ranges": ("affine", "symmetric"),
    "observer": ("histogram", "minmax"),
    "inner": ("same", "int16"),
}
"""Setting -> its values, the default first."""
STATIC: Final = ("int8", "int16")
"""Values of `activation` that need samples: the range of each activation is a constant."""
NEEDS: Final = (
    ("group_size", "activation", ("dynamic_int8", "float")),
    ("group_size", "weight", ("int8", "int4")),
    ("group_size", "weight_scales", ("channel",)),
    ("weight = float16", "activation", ("float",)),
    ("weight_scales = tensor", "weight", ("int8", "int4")),
    ("ranges = symmetric", "activation", STATIC),
    ("observer = minmax", "activation", STATIC),
    ("inner = int16", "activation", STATIC),
    ("quantize_io", "activation", STATIC),
    ("calibration", "activation", STATIC),
    ("calibration_entry", "activation", STATIC),
)
"""A setting that is not empty, or one of its values, needs one of these values of another setting."""


def problems_of(values: Mapping[str, Any]) -> list[Diagnostic]:
    """Returns DC130 for each unknown value, and DC136 for each that does not fit another one.

    Args:
        values: setting -> its value: those of `Settings`, and whether there are samples in files
            (`calibration`) and of a function (`calibration_entry`).
    """
    problems = [
        Diagnostic(
            "DC130",
            f'{name} = "{values[name]}" is not a quantization setting',
            expected=_listed(choices),
            help=did_you_mean(str(values[name]), choices),
        )
        for name, choices in CHOICES.items()
        if values[name] not in choices
    ]
    size = values["group_size"]
    if size < 0 or size == 1:
        expected = "2 or more inputs of linear layers, such as 32, or 0 for all inputs"
        problems.append(
            Diagnostic("DC130", f"group_size = {size} is not a group of inputs", expected=expected)
        )
    for setting, other, needed in NEEDS:
        name, _, value = setting.partition(" = ")
        found, is_known = values[other], values[other] in CHOICES[other]
        is_set = values[name] == value if value else values.get(name, 0) > 0
        if is_set and is_known and found not in needed:
            shown = f'{name} = "{value}"' if value else f"{name} = {size}" if name == "group_size" else name
            text = f'{shown} needs {other} = {_listed(needed)}, not "{found}"'
            problems.append(Diagnostic("DC136", text, expected=f"{other} = {_listed(needed)}, or no {name}"))
    return problems


def _listed(values: Iterable[str]) -> str:
    return " or ".join(f'"{value}"' for value in values)


@dataclass(frozen=True)
class Settings:
    """How a program is quantized.

    Attributes:
        activation: dtype of activations. "int8" or "int16": all have ranges, from samples; int16 has zero
            points of 0. "dynamic_int8": operands of layers are quantized at run time. "float": none are.
        weight: dtype of the weights of layers: "int8"; "int4", stored in int8 (-7 to 7, or -8 to 7 without
            samples); or "float16", with activations in float.
        weight_scales: "channel", one scale per output channel of a layer, or "tensor", one per weight.
        group_size: inputs of a linear layer with one scale, for integers without samples; 0 for all inputs.
        ranges: "affine", with a zero point per int8 activation, or "symmetric", with zero points of 0.
        observer: range of an int8 activation: "histogram", with the least squared error over all samples, or
            "minmax". int16 always has "minmax".
        inner: dtype of values inside softmax, attention and norms: "same" as of activations, or "int16".
        quantize_io: whether float inputs and outputs of the program are quantized values, too.
        float_modules: names of modules that stay in float, with all modules inside them.
        float_operators: ATen operators that stay in float, such as "aten.softmax.int" or "aten.softmax".
        float_calls: marks of calls that stay in float (`quantize.calls`), of the only method.

    Raises:
        DelegatecError: DC130, an unknown value; DC136, a value that another one excludes.
    """

    activation: str = "int8"
    weight: str = "int8"
    weight_scales: str = "channel"
    group_size: int = 0
    ranges: str = "affine"
    observer: str = "histogram"
    inner: str = "same"
    quantize_io: bool = False
    float_modules: tuple[str, ...] = ()
    float_operators: tuple[str, ...] = ()
    float_calls: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        problems = problems_of(vars(self))
        if problems:
            raise DelegatecError(problems)

    @property
    def is_static(self) -> bool:
        """Whether the ranges of activations are constants, from samples."""
        return self.activation in STATIC
