# SPDX-License-Identifier: Apache-2.0
"""Files of golden samples: NAME.samples.safetensors, tensors with a description of the calls as metadata."""

from __future__ import annotations

import hashlib
import itertools
import os
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import first_line
from delegatec.files import replacing
from delegatec.frontend.plain_values import decode, encode
from delegatec.frontend.pt2.fields import MalformedError, fail
from delegatec.samples.recorded import RecordedCall, RecordedSamples

# One entry: the order of several would vary.
_CALLS: Final = "delegatec_samples"
# Bytes of tensors; the calls beyond them are compared with, but not written.
_LARGEST: Final = 64 * 2**20


def stored_samples(samples: RecordedSamples) -> RecordedSamples:
    """Returns the samples that a file has: the first calls, up to 64 MiB."""
    sizes = itertools.accumulate(call.size for call in samples.calls)
    fitting = sum(size <= _LARGEST for size in sizes)
    return RecordedSamples(samples.calls[:fitting])


def save_samples(samples: RecordedSamples, path: str) -> str:
    """Writes samples.

    Args:
        samples: the samples.
        path: the file to write, on success.

    Returns:
        The SHA-256 digest of the file, in hexadecimal digits.
    """
    text, tensors = encode({str(number): _described(call) for number, call in enumerate(samples.calls)})
    content = save({name: tensor.clone() for name, tensor in tensors.items()}, {_CALLS: text})
    with replacing(path) as file:
        file.write(content)
    return hashlib.sha256(content).hexdigest()


def read_samples(path: str) -> RecordedSamples:
    """Reads samples.

    Raises:
        OSError: the file cannot be opened.
        DelegatecError: DC131, it is damaged, or not a file of samples.
    """
    with open(path, "rb"):
        pass  # safe_open does not name the file
    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(_CALLS)
            if text is None:
                fail("it has no calls")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        values = decode(
            memoryview(text.encode("utf-8", "surrogatepass")), tensors, "the description of calls"
        )
        return RecordedSamples(tuple(_call(value) for value in values.values()))
    except (SafetensorError, MalformedError) as error:
        raise DelegatecError(
            [
                Diagnostic(
                    "DC131",
                    f"cannot read {os.path.basename(path)}: {first_line(error)}",
                    expected="a .samples.safetensors that `delegatec export` wrote",
                    help="export the model again with this version of the compiler",
                )
            ]
        ) from error


def _described(call: RecordedCall) -> dict[str, Any]:
    return {
        "method": call.method,
        "name": call.name,
        "inputs": [_stored(value) for value in call.inputs],
        "outputs": [(path, _stored(value)) for path, value in call.outputs],
        "written": [(index, _stored(value)) for index, value in call.written.items()],
    }


def _stored(value: Any) -> Any:
    """Returns a value with the order of a tensor's dimensions in memory, which a file does not have."""
    if not isinstance(value, torch.Tensor):
        return value
    strides = value.stride()
    order = sorted(range(value.dim()), key=lambda dim: -strides[dim])
    return {"order": order, "tensor": value.permute(order).contiguous()}


def _call(value: Any) -> RecordedCall:
    if not isinstance(value, dict) or value.keys() != _described(RecordedCall("", "", (), ())).keys():
        fail("a call lacks a field")
    if not (isinstance(value["method"], str) and isinstance(value["name"], str)):
        fail("a call has no name")
    return RecordedCall(
        value["method"],
        value["name"],
        tuple(_restored(item) for item in _list(value["inputs"])),
        tuple((_of(pair[0], str), _restored(pair[1])) for pair in _pairs(value["outputs"])),
        {_of(pair[0], int): _of(_restored(pair[1]), torch.Tensor) for pair in _pairs(value["written"])},
    )


def _restored(value: Any) -> Any:
    if not isinstance(value, dict):
        return (
            value
            if isinstance(value, (bool, int, float, str, type(None)))
            else fail("a call has an invalid value")
        )
    order, tensor = value.get("order"), value.get("tensor")
    if not isinstance(tensor, torch.Tensor) or not isinstance(order, list):
        fail("a call has an invalid value")
    if sorted(map(str, order)) != sorted(map(str, range(tensor.dim()))):
        fail("a tensor has an invalid order of dimensions")
    return tensor.permute([order.index(dim) for dim in range(tensor.dim())])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else fail("a call has an invalid list")


def _pairs(value: Any) -> list[Any]:
    pairs = _list(value)
    return (
        pairs
        if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)
        else fail("an invalid pair")
    )


def _of(value: Any, kind: Any) -> Any:
    return value if isinstance(value, kind) else fail("a call has an invalid value")
