# SPDX-License-Identifier: Apache-2.0
"""Checks of programs and of the names in settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean
from delegatec.quantize.decompose.decompositions import names_of
from delegatec.quantize.settings import Settings

_QUANTIZING: Final = ("quantized_decomposed.", "torchao.", "delegatec.quantize_", "delegatec.dequantize_")


def check_float(methods: Mapping[str, ExportedProgram]) -> None:
    """Raises DC134 for each method that is quantized already."""
    problems = [
        Diagnostic(
            "DC134",
            f"method {method} is quantized already: it calls {found}",
            expected="the model in float32",
            help="quantize the original model, or lower this one as it is",
        )
        for method, program in methods.items()
        if (found := next((str(node.target) for node in program.graph.nodes if _quantizes(node)), ""))
    ]
    if problems:
        raise DelegatecError(problems)


def check_no_external(names: Collection[str]) -> None:
    """Raises DC134 for a model with weights of adapters, whose values are not known."""
    if names:
        text = f'the model has external weights, such as "{next(iter(names))}"'
        expected = "a model without Model.external_weights"
        help = "quantize in the file of the model: language_model has settings of weights"
        raise DelegatecError([Diagnostic("DC134", text, expected=expected, help=help)])


def check_model(
    methods: Mapping[str, ExportedProgram],
    decomposed: Mapping[str, ExportedProgram],
    settings: Settings,
    others: Iterable[Diagnostic] = (),
) -> None:
    """Raises all problems of the settings' names and of the weights.

    Args:
        methods: method -> its program.
        decomposed: method -> the same program, decomposed.
        settings: name the modules and operators that stay in float.
        others: more problems of the model.

    Raises:
        DelegatecError: DC130, a module that no method has, or an operator that no form of a method calls;
            DC134, a weight that has no range.
    """
    problems = [
        *_modules(methods.values(), settings),
        *_operators([*methods.values(), *decomposed.values()], settings),
        *_weights(methods.values()),
        *others,
    ]
    if problems:
        raise DelegatecError(problems)


def _modules(programs: Iterable[ExportedProgram], settings: Settings) -> list[Diagnostic]:
    nodes = [node for program in programs for node in program.graph.nodes]
    modules = {str(path) for node in nodes for path, _ in node.meta.get("nn_module_stack", {}).values()}
    return [
        Diagnostic(
            "DC130",
            f'float_modules: the model has no module "{name}"',
            expected="the name of a module that the model calls, such as " + repr(max(modules, default="")),
            help="see named_modules() of the model",
        )
        for name in settings.float_modules
        if name not in modules
    ]


def _operators(programs: Iterable[ExportedProgram], settings: Settings) -> list[Diagnostic]:
    names: set[str] = set()
    for program in programs:
        for module in program.graph_module.modules():
            nodes = module.graph.nodes if isinstance(module, GraphModule) else ()
            for node in nodes:
                names |= names_of(node.target) if node.op == "call_function" else set()
    return [
        Diagnostic(
            "DC130",
            f'float_operators: the model has no operator "{name}"',
            expected="an operator that the model calls: "
            + ", ".join(sorted(n for n in names if n.count(".") == 1)),
            help=did_you_mean(name, names),
        )
        for name in settings.float_operators
        if name not in names
    ]


def _weights(programs: Iterable[ExportedProgram]) -> list[Diagnostic]:
    """Returns a problem for each weight that contains NaN, and each parameter that contains infinite values.

    Infinite values of a buffer may be a mask.
    """
    problems: dict[str, str] = {}
    for program in programs:
        parameters = program.graph_signature.inputs_to_parameters.values()
        for name, value in {**program.state_dict, **program.constants}.items():
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                continue
            if bool(value.isnan().any()):
                problems[name] = "NaN"
            elif name in parameters and bool(value.isinf().any()):
                problems[name] = "infinite values"
    return [
        Diagnostic(
            "DC134",
            f'the weight "{name}" contains {what}',
            expected="finite weights",
            help="check the checkpoint that the model loads",
        )
        for name, what in problems.items()
    ]


def _quantizes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and str(node.target).startswith(_QUANTIZING)


def nothing_to_quantize(method: str) -> Diagnostic:
    """Returns DC134 for a method without any operator to quantize."""
    return Diagnostic(
        "DC134",
        f"method {method} has no operator to quantize",
        expected="a model with operators on float32 tensors",
        help="convert the model to float32 with module.float(), or lower it without quantization",
    )
