# SPDX-License-Identifier: Apache-2.0
"""How the weights of a language model are stored, and how its layers compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean

WEIGHTS: Final = ("float32", "float16", "int8", "int4")
"""Dtypes of the weights of linear layers, and of embeddings."""
ACTIVATIONS: Final = ("dynamic_int8", "float")
"""Dtypes of the operands of linear layers with integer weights."""
CACHES: Final = ("float32", "float16", "int8")
"""Dtypes of keys and values in a cache."""
EXPERTS: Final = ("rows", "matrices")
"""How the experts of a mixture compute: each its rows, or each row with the matrices of its expert."""
_INTEGERS: Final = ("int8", "int4")


@dataclass(frozen=True)
class WeightSettings:
    """How weights of layers, experts and embeddings are stored. Others, such as those of norms, are float32.

    Attributes:
        weights: dtype of the weights of linear layers, also of experts and of the one that computes logits.
        group_size: input features of a linear layer that share a scale; 0 for all.
        embedding: dtype of embeddings, and of a layer of logits that is tied to one, with the groups of the
            weights if both are int4, and a scale for each row otherwise; empty for int8 next to integer
            weights, and for the dtype of the weights otherwise.
        activation: "dynamic_int8", operands of layers are quantized at run time, one scale and zero point for
            each token; "float"; empty for "dynamic_int8" with integer weights.
        vision_weights: dtype of the weights of linear layers that encode images, with groups if it is that of
            the others; empty for int8 next to integer weights, and for the dtype of the weights otherwise.

    Raises:
        DelegatecError: DC130, an unknown value; DC136, a value that another one excludes.
    """

    weights: str = "float32"
    group_size: int = 0
    embedding: str = ""
    activation: str = ""
    vision_weights: str = ""

    def __post_init__(self) -> None:
        is_float = self.weights in WEIGHTS and self.weights not in _INTEGERS
        for name in ("embedding", "vision_weights"):
            if not getattr(self, name):
                object.__setattr__(self, name, self.weights if is_float else "int8")
        if not self.activation:
            object.__setattr__(self, "activation", "dynamic_int8" if self._has_integers else "float")
        problems = [*self._unknown(), *self._contradictions()]
        if problems:
            raise DelegatecError(problems)

    @property
    def _has_integers(self) -> bool:
        """Whether a linear layer has integer weights."""
        return self.weights in _INTEGERS or self.vision_weights in _INTEGERS

    def _unknown(self) -> Iterator[Diagnostic]:
        dtypes = dict.fromkeys(("weights", "embedding", "vision_weights"), WEIGHTS)
        for name, choices in (*dtypes.items(), ("activation", ACTIVATIONS)):
            yield from choice_problems(name, getattr(self, name), choices, "weights")
        size = self.group_size
        if not isinstance(size, int) or size < 0 or size == 1:
            yield Diagnostic(
                "DC130",
                f"group_size = {size} is not a group of input features",
                expected="2 or more, such as 32, or 0 for all",
            )

    def _contradictions(self) -> Iterator[Diagnostic]:
        if self.weights not in WEIGHTS or self.weights in _INTEGERS:
            return
        integers = 'weights = "int8" or "int4"'
        if self.group_size:
            text = f'group_size = {self.group_size} needs {integers}, not "{self.weights}"'
            yield Diagnostic("DC136", text, expected=f"{integers}, or no group_size")
        if self.activation == "dynamic_int8" and not self._has_integers:
            text = f'activation = "dynamic_int8" needs {integers}, not "{self.weights}"'
            yield Diagnostic("DC136", text, expected=f"{integers}, or no activation")


def choice_problems(name: str, value: str, choices: Sequence[str], what: str) -> Iterator[Diagnostic]:
    """Yields what is wrong with a setting that has one of several values.

    Args:
        name: the setting.
        value: its value.
        choices: the values that it may have.
        what: what it is a setting of.
    """
    if value not in choices:
        yield Diagnostic(
            "DC130",
            f'{name} = "{value}" is not a setting of {what}',
            expected=" or ".join(f'"{choice}"' for choice in choices),
            help=did_you_mean(str(value), choices),
        )
