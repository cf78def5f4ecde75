# SPDX-License-Identifier: Apache-2.0
"""The tools of the comparison: each makes a file of a network, and runs it on one thread.

Each quantizes as its documentation says, with the same samples: static int8 with weights scaled per channel,
or dynamic int8, where layers have weights of int8 and quantize their inputs in the call. Programs of
ExecuTorch read their inputs in place, as ONNX Runtime does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ours
import peer
import torch
from rivals_models import Inputs, Network
from stopwatch import Stopwatch
from torch import Tensor

FLOAT: Final = "float32"
INT8: Final = "int8"
PRECISIONS: Final = (FLOAT, INT8)
Call = Callable[[Inputs], Sequence[Tensor]]
"""Runs a file; outputs may be overwritten by the next call."""
_BACKEND: Final = "xnnpack fp32"


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        suffix: of its files.
        convert: writes the file of a network in float32; fails for what the tool does not support.
        quantize: network, its file in float32, file to write in int8.
        load: loads a file in its runtime.
        versions: distributions whose versions count.
    """

    suffix: str
    convert: Callable[[Network, Path], None]
    quantize: Callable[[Network, Path, Path], None]
    load: Callable[[Path], Call]
    versions: tuple[str, ...]


def _is_dynamic(network: Network) -> bool:
    return network.activation == "dynamic_int8"


def _ours(network: Network, path: Path) -> None:
    from delegatec import Model
    from delegatec.frontend import archive
    from delegatec.frontend.export import export

    file = path.with_suffix(".pt2")
    archive.save(export(Model(network.module(), network.inputs(0))), str(file))
    ours.lower(ours.read(file), _BACKEND, path, Stopwatch(), plan=False)


def _ours_quantized(network: Network, original: Path, path: Path) -> None:
    from delegatec.frontend import archive
    from delegatec.quantize.flow import quantize_model
    from delegatec.quantize.settings import Settings

    static = [] if _is_dynamic(network) else network.calibration()
    samples = {"forward": [(sample, {}) for sample in static]}
    methods = archive.load(str(original.with_suffix(".pt2"))).methods
    file = path.with_suffix(".pt2")
    archive.save(quantize_model(methods, samples, Settings(activation=network.activation)).methods, str(file))
    ours.lower(ours.read(file), _BACKEND, path, Stopwatch(), plan=False)


def _peer(network: Network, path: Path) -> None:
    peer.prepare()
    exported = torch.export.export(network.module(), network.inputs(0))
    peer.lower(exported, _BACKEND, path, Stopwatch(), plan=False)


def _peer_quantized(network: Network, _: Path, path: Path) -> None:
    peer.prepare()
    exported = torch.export.export(network.module(), network.inputs(0))
    quantized = torch.export.export(_quantized_by_peer(network, exported), network.inputs(0))
    peer.lower(quantized, _BACKEND, path, Stopwatch(), plan=False)


def _quantized_by_peer(network: Network, exported: Any) -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    settings = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=_is_dynamic(network))
    prepared = prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(settings))
    with torch.no_grad():
        for sample in network.calibration():
            prepared(*sample)
    return convert_pt2e(prepared)


def _executorch(path: Path) -> Call:
    from executorch.extension.pybindings import _portable_lib

    # OMP_NUM_THREADS does not set the size of its pool.
    _portable_lib._unsafe_reset_threadpool(1)
    module = _portable_lib._load_for_executorch(str(path))

    def call(inputs: Inputs) -> Sequence[Tensor]:
        found: Sequence[Tensor] = module.run_method("forward", inputs, clone_outputs=False)
        return found

    return call


def _onnx(network: Network, path: Path) -> None:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    exported = torch.onnx.export(network.module(), network.inputs(0), dynamo=True, verbose=False)
    assert exported is not None
    exported.save(path)


def _onnx_quantized(network: Network, original: Path, path: Path) -> None:
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = path.with_suffix(".prepared.onnx")
    quant_pre_process(original, prepared, skip_symbolic_shape=True)
    if _is_dynamic(network):
        quantization.quantize_dynamic(prepared, path, per_channel=True)
    else:
        names = [value.name for value in onnx.load(prepared).graph.input]
        # For CPUs with VNNI, as its documentation says.
        quantization.quantize_static(
            *(prepared, path, _Samples(names, network.calibration())),
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
        )
    prepared.unlink()


class _Samples:
    """Samples for ONNX Runtime: a dictionary at a time, then None."""

    def __init__(self, names: Sequence[str], samples: Sequence[Inputs]) -> None:
        self._left = [_named(names, sample) for sample in samples]

    def get_next(self) -> dict[str, Any] | None:
        return self._left.pop(0) if self._left else None


def _named(names: Sequence[str], inputs: Inputs) -> dict[str, Any]:
    return {name: value.numpy() for name, value in zip(names, inputs, strict=True)}


def _onnx_runtime(path: Path) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return lambda inputs: [torch.from_numpy(each) for each in session.run(None, _named(names, inputs))]


def _litert(network: Network, path: Path) -> None:
    import litert_torch

    litert_torch.convert(network.module(), network.inputs(0)).export(str(path))


def _litert_quantized(network: Network, original: Path, path: Path) -> None:
    from ai_edge_quantizer import qtyping, quantizer, recipe

    if _is_dynamic(network):
        quantizer.Quantizer(str(original), recipe.dynamic_wi8_afp32()).quantize().export_model(str(path))
        return
    static = quantizer.Quantizer(str(original), recipe.static_wi8_ai8())
    # Inputs and outputs are floats, as those of the other tools.
    for boundary in (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT):
        static.update_quantization_recipe(".*", boundary, algorithm_key="no_quantize")
    names = [f"args_{index}" for index in range(len(network.inputs(0)))]
    samples = [_named(names, sample) for sample in network.calibration()]
    static.quantize(static.calibrate({"serving_default": samples}, num_threads=1)).export_model(str(path))


def _litert_interpreter(path: Path) -> Call:
    from ai_edge_litert.interpreter import Interpreter

    # It creates its XNNPACK delegate with as many threads.
    interpreter = Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    # In its own order, which need not be that of the signature: `serving_default_args_1:0` of `args_1`.
    inputs = sorted(interpreter.get_input_details(), key=lambda each: str(each["name"]))
    outputs = [each["index"] for each in interpreter.get_output_details()]

    def call(values: Inputs) -> Sequence[Tensor]:
        for each, value in zip(inputs, values, strict=True):
            # Its converter makes int32 of ids, which are int64 in torch.
            interpreter.set_tensor(each["index"], value.numpy().astype(each["dtype"], copy=False))
        interpreter.invoke()
        return [torch.from_numpy(interpreter.get_tensor(index)) for index in outputs]

    return call


OURS: Final = "ours"
TOOLS: Final = {
    OURS: Tool(".pte", _ours, _ours_quantized, _executorch, ("torch",)),
    "peer": Tool(".pte", _peer, _peer_quantized, _executorch, ("executorch",)),
    "ONNX Runtime": Tool(".onnx", _onnx, _onnx_quantized, _onnx_runtime, ("onnxruntime", "onnxscript")),
    "LiteRT": Tool(
        ".tflite", _litert, _litert_quantized, _litert_interpreter, ("ai-edge-litert", "litert-torch")
    ),
}
"""Name in the table -> the tool."""
