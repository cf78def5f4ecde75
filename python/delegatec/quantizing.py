# SPDX-License-Identifier: Apache-2.0
"""`delegatec.quantize`: quantization of exported programs by samples in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from torch.export import ExportedProgram

from delegatec.diagnostics.arguments import check_items, check_types
from delegatec.quantize.checks import check_float
from delegatec.quantize.requirement import require_torchao
from delegatec.quantize.samples import check_samples, listed, samples_of_function
from delegatec.quantize.settings import Settings

if TYPE_CHECKING:
    from delegatec.quantize.flow import QuantizedModel

_EXPORTED = "a dict of exported programs by method, as delegatec.export returns it"


def quantize(
    methods: Mapping[str, ExportedProgram],
    samples: Iterable[Any] | Mapping[str, Iterable[Any]] | None = None,
    *,
    activation: Literal["int8", "int16", "dynamic_int8", "float"] = "int8",
    weight: Literal["int8", "int4", "float16"] = "int8",
    weight_scales: Literal["channel", "tensor"] = "channel",
    group_size: int = 0,
    ranges: Literal["affine", "symmetric"] = "affine",
    observer: Literal["histogram", "minmax"] = "histogram",
    inner: Literal["same", "int16"] = "same",
    quantize_io: bool = False,
    float_modules: Iterable[str] = (),
    float_operators: Iterable[str] = (),
) -> QuantizedModel:
    """Quantizes a model. It needs torchao.

    Args:
        methods: method name -> program in float, as `delegatec.export` returns it. They are not changed.
        samples: inputs that represent those of real use, for the ranges of activations: each a tensor, a
            tuple of arguments, or a dict of tensors by name of the input. Or, for several methods, a dict of
            these by method. Only for activations in int8 and int16.
        activation: dtype of activations; `dynamic_int8` quantizes the operands of layers at run time.
        weight: dtype of the weights of layers.
        weight_scales: one scale for each output channel of a layer, or one for each weight.
        group_size: inputs of a linear layer with one scale; 0 for all of them.
        ranges: int8 activations with zero points, or with zero points of 0.
        observer: the range with the least squared error, or of all values.
        inner: dtype of values inside softmax, attention and norms.
        quantize_io: whether inputs and outputs are quantized values, too.
        float_modules: names of modules that stay in float, with all modules inside them.
        float_operators: operators that stay in float, such as "aten.softmax".

    Returns:
        The quantized model: its `methods` are an argument of `delegatec.lower`; its `inputs` and `outputs`
        have the scales of quantized inputs and outputs.

    Raises:
        DelegatecError: DC415 for arguments of wrong types; DC130 and DC136 for settings; DC132 and DC133 for
            samples; DC134 for a model that cannot be quantized; DC135 without torchao.
    """
    check_items("delegatec.quantize", "methods", methods, Mapping, ExportedProgram, _EXPORTED)
    several = {"float_modules": float_modules, "float_operators": float_operators}
    for name, value in several.items():
        check_items("delegatec.quantize", name, value, (list, tuple, set, frozenset), str, "a list of names")
    check_types("delegatec.quantize", {"group_size": (group_size, int, "a number of inputs")})
    settings = Settings(
        activation=activation,
        weight=weight,
        weight_scales=weight_scales,
        group_size=group_size,
        ranges=ranges,
        observer=observer,
        inner=inner,
        quantize_io=quantize_io,
        float_modules=tuple(float_modules),
        float_operators=tuple(float_operators),
    )
    check_float(methods)
    found: dict[str, Any] = {}
    if settings.is_static:
        found = samples_of_function(listed(samples), methods, None)
        check_samples(found, methods)
    require_torchao()
    from delegatec.quantize.flow import quantize_model

    return quantize_model(methods, found, settings)
