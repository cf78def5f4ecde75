# SPDX-License-Identifier: Apache-2.0
"""Quantization of generated programs, and how far from the module in float the result may be.

Quantization replaces values by the nearest of a few quantized values. So the module in float is run with
noise of that size in each value: a quantized program is wrong if its ratio of signal to noise is far below
that of these.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, NamedTuple

import torch
from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as peer
from torch import Tensor
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from delegatec.edge.state import written_state
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.inputs import Sample
from delegatec.quantize.settings import Settings
from tests.generated.examples import Call, model_of, tensor_of
from tests.generated.peer_patterns import patterns_traced_once
from tests.generated.program import FORWARD, Program
from tests.generated.quantization_noise import noisy_results, plain_results, signal_to_noise

INT8: Final = "int8"
INT16: Final = "int16 activations"
DYNAMIC_INT8: Final = "dynamic int8"
WEIGHTS_INT8: Final = "int8 weights"
WEIGHTS_INT4: Final = "int4 weights in groups"
DYNAMIC_INT4: Final = "dynamic int8, int4 weights in groups"
PEER_INT8: Final = "the peer's int8"
PEER_DYNAMIC: Final = "the peer's dynamic int8"

# The program may be that much worse than runs with noise, in dB.
_MARGIN: Final = 6.0
# Runs with less than that say nothing.
_LEAST: Final = 12.0
# Runs with noise: a difference from a few is a suspicion. Conditions and comparisons have rare results, which
# only many find.
_RUNS: Final = 5
_MANY_RUNS: Final = 100


class NotQuantizedError(Exception):
    """The peer's quantizer fails on a program."""


class Quantization(NamedTuple):
    """A way to quantize, with a number of quantized values.

    Attributes:
        settings: those of `quantized_program`; arguments of the peer's configuration in a dict.
        activations: number of quantized values of activations.
        weights: number of quantized values of weights.
        exact: number of quantized values; two implementations of a quantized program may differ by one
            quantization step of these: where activations are quantized, a rounding may end at the next one.
    """

    settings: Settings | Mapping[str, bool]
    activations: float
    weights: float = 255
    exact: float = 255


_FLOAT: Final = 1 << 20
QUANTIZATIONS: Final = {
    INT8: Quantization(Settings(), 255),
    INT16: Quantization(Settings(activation="int16"), 65535),
    DYNAMIC_INT8: Quantization(Settings(activation="dynamic_int8"), 255),
    WEIGHTS_INT8: Quantization(Settings(activation="float"), _FLOAT, exact=_FLOAT),
    WEIGHTS_INT4: Quantization(Settings(activation="float", weight="int4", group_size=4), _FLOAT, 15, _FLOAT),
    DYNAMIC_INT4: Quantization(Settings(activation="dynamic_int8", weight="int4", group_size=4), 255, 15),
    PEER_INT8: Quantization({"is_per_channel": True}, 255),
    PEER_DYNAMIC: Quantization({"is_per_channel": True, "is_dynamic": True}, 255),
}


class Floors(NamedTuple):
    """The least ratios in dB of each result; minus infinity if any may be right.

    Attributes:
        to_exact: to the module that the user passes to the compiler.
        to_eager: to the quantized graphs.
    """

    to_exact: list[list[float]]
    to_eager: list[list[float]]


@dataclass(frozen=True)
class Quantized:
    """A quantized program, and the references of its results.

    Attributes:
        methods: the quantized programs.
        exact: for each call, results and inputs after it, of the module that the user passes to the compiler:
            in float, or as the peer quantizes it.
        eager: likewise, of the quantized graphs in eager mode.
        floors: number of runs with noise -> the least ratios.
    """

    methods: dict[str, ExportedProgram]
    exact: list[list[Any]]
    eager: list[list[Any]]
    floors: Callable[[int], Floors]

    def lost(self) -> str:
        """Returns how the quantized graphs differ from the module; "" if they do not."""
        return self._confirmed(
            lambda floors: _far(self.eager, self.exact, floors.to_exact, "the quantized graph has")
        )

    def __call__(self, found: Sequence[Sequence[Any]], calls: Sequence[Call], where: str = "") -> str:
        """Returns how results differ from the quantized graphs, or the module; "" if they do not."""
        return self._confirmed(
            lambda floors: (
                _far(found, self.eager, floors.to_eager, f"{where}to the quantized graph:")
                or _far(found, self.exact, floors.to_exact, f"{where}to the module:")
            )
        )

    def _confirmed(self, compare: Callable[[Floors], str]) -> str:
        return compare(self.floors(_RUNS)) and compare(self.floors(_MANY_RUNS))


def quantized(
    name: str, program: Program, methods: dict[str, ExportedProgram], calls: Sequence[Call]
) -> Quantized:
    """Quantizes a program, with its calls as samples.

    Args:
        name: of the quantization.
        program: the program.
        methods: its exported programs.
        calls: its calls.

    Raises:
        DelegatecError: the compiler refuses it.
        NotQuantizedError: the peer's quantizer fails.
    """
    chosen = QUANTIZATIONS[name]
    buffers = {each.name: tensor_of(program, each) for each in program.buffers}
    samples: dict[str, list[Sample]] = {
        method: [
            (tuple(tensor.clone() for tensor in call.inputs), {})
            for call in calls
            if call.method == method and not call.is_guarded
        ]
        for method in methods
    }
    if isinstance(chosen.settings, Settings):
        made = quantize_model(methods, samples, chosen.settings).methods
        exact = plain_results(program, buffers, calls)
    else:
        made, exact = _by_peer(program, samples, chosen.settings, calls)
    floors = cache(partial(_floors, chosen, program, buffers, calls, written_state(methods.values())))
    return Quantized(made, exact, _eager(made, calls), floors)


def _floors(
    chosen: Quantization,
    program: Program,
    buffers: Mapping[str, Tensor],
    calls: Sequence[Call],
    written: Collection[str],
    runs: int,
) -> Floors:
    found = [
        noisy_results(program, buffers, calls, activations, weights, runs)
        for activations, weights in ((chosen.activations, chosen.weights), (chosen.exact, chosen.exact))
    ]
    coarsest = min(chosen.activations, chosen.weights), chosen.exact
    to_exact, to_eager = (
        [[_floor(value, quantized_values) for value in call] for call in least]
        for least, quantized_values in zip(found, coarsest, strict=True)
    )
    if program.step and written:
        # samples of one method do not have the state that the other leaves
        to_exact = [[-math.inf] * len(call) for call in to_exact]
    return Floors(to_exact, to_eager)


def _floor(found: float, quantized_values: float) -> float:
    # a value that no noise reaches, such as a copy of a constant, may be quantized
    most = 20 * math.log10(quantized_values) - 3
    return min(found, most) - _MARGIN if found >= _LEAST else -math.inf


def _by_peer(
    program: Program,
    samples: Mapping[str, Sequence[Sample]],
    options: Mapping[str, bool],
    calls: Sequence[Call],
) -> tuple[dict[str, ExportedProgram], list[list[Any]]]:
    """Returns the program of a module that the peer quantizes, and the module's results."""
    if program.step:
        raise NotQuantizedError("the peer's quantizer has one method")
    model = model_of(program)
    method = model.all_methods()[FORWARD]
    try:
        with torch.no_grad():
            graph = torch.export.export(
                model.module, method.example_inputs, dynamic_shapes=method.dynamic_shapes
            ).module(check_guards=False)
            config = peer.get_symmetric_quantization_config(**options)
            state = {name: buffer.clone() for name, buffer in graph.named_buffers()}
            with patterns_traced_once():
                prepared = prepare_pt2e(graph, peer.XNNPACKQuantizer().set_global(config))
            for arguments, _ in samples[FORWARD]:
                prepared(*arguments)
            for name, buffer in prepared.named_buffers():
                if name in state:
                    buffer.copy_(state[name])
            converted = convert_pt2e(prepared)
            results = plain_results(None, {}, calls, {FORWARD: deepcopy(converted)})
    except Exception as error:
        raise NotQuantizedError(f"{type(error).__name__}: {str(error)[:200]}") from error
    model = Model(converted, method.example_inputs, dynamic_shapes=method.dynamic_shapes)
    return export(model), results


def _eager(methods: Mapping[str, ExportedProgram], calls: Sequence[Call]) -> list[list[Any]]:
    """Runs quantized graphs in eager mode; state is a buffer of the same name in all methods."""
    written = written_state(methods.values())
    shared: dict[str, Tensor] = {}
    modules = {}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for method, exported in methods.items():
            modules[method] = module = deepcopy(exported).module(check_guards=False)
            for name, buffer in list(module.named_buffers(remove_duplicate=False)):
                if name in written:
                    owner, _, last = name.rpartition(".")
                    setattr(module.get_submodule(owner), last, shared.setdefault(name, buffer.clone()))
        return plain_results(None, {}, calls, modules)


def _far(
    found: Sequence[Sequence[Any]],
    wanted: Sequence[Sequence[Any]],
    least: Sequence[Sequence[float]],
    where: str,
) -> str:
    for number, (results, values, floors) in enumerate(zip(found, wanted, least, strict=True)):
        if len(results) != len(values):
            return f"{where} {len(results)} values for {len(values)}"
        for i, (result, value, floor) in enumerate(zip(results, values, floors, strict=True)):
            if not isinstance(value, Tensor):
                continue
            if (result.dtype, result.shape) != (value.dtype, value.shape):
                return f"{where} {result.dtype}{list(result.shape)} for {value.dtype}{list(value.shape)}"
            ratio = signal_to_noise(value, result)
            if ratio < floor:
                return f"{where} call {number}, output {i}: {ratio:.1f} dB, expected {floor:.1f}"
    return ""
