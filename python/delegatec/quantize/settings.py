# SPDX-License-Identifier: Apache-2.0
"""Settings of quantization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean

# Setting -> its values, the default first.
CHOICES: Final = {
    "activation": ("int8", "int16"),
    "weight": ("int8", "int4"),
    "weight_scales": ("channel", "tensor"),
    "ranges": ("affine", "symmetric"),
    "observer": ("histogram", "minmax"),
    "inner": ("same", "int16"),
}


@dataclass(frozen=True)
class Settings:
    """How a program is quantized.

    Attributes:
        activation: dtype of activations: "int8" or "int16"; int16 has zero points of 0.
        weight: dtype of the weights of layers: "int8", or "int4" (-7 to 7, stored in int8).
        weight_scales: "channel", one scale per output channel of a layer, or "tensor", one per weight.
        ranges: "affine", with a zero point per int8 activation, or "symmetric", with zero points of 0.
        observer: range of an int8 activation: "histogram", with the least squared error over all samples, or
            "minmax". int16 always has "minmax".
        inner: dtype of values inside softmax, attention and norms: "same" as of activations, or "int16".
        quantize_io: whether float inputs and outputs of the program are quantized values, too.
        float_modules: names of modules that stay in float, with all modules inside them.
        float_operators: ATen operators that stay in float, such as "aten.softmax.int" or "aten.softmax".

    Raises:
        DelegatecError: DC130, an unknown value.
    """

    activation: str = "int8"
    weight: str = "int8"
    weight_scales: str = "channel"
    ranges: str = "affine"
    observer: str = "histogram"
    inner: str = "same"
    quantize_io: bool = False
    float_modules: tuple[str, ...] = ()
    float_operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = [
            Diagnostic(
                "DC130",
                f'{name} = "{value}" is not a setting of quantization',
                expected=" or ".join(f'"{choice}"' for choice in choices),
                help=did_you_mean(str(value), choices),
            )
            for name, choices in CHOICES.items()
            if (value := getattr(self, name)) not in choices
        ]
        if problems:
            raise DelegatecError(problems)
