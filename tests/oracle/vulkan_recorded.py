# SPDX-License-Identifier: Apache-2.0
"""Outputs of the cases in the ExecuTorch runtime, recorded as data: the oracle of the reference executor.

To record them again after a change of cases, with a runtime that has the Vulkan backend:

    bazel run //tests/oracle:vulkan_recorded -- write DIRECTORY
    (run each KEY.pte with the tensors "0", "1", ... of KEY.inputs.safetensors; save KEY.outputs.safetensors)
    bazel run //tests/oracle:vulkan_recorded -- record DIRECTORY

The data was recorded with ExecuTorch 1.4.1 on Mesa's lavapipe 22.3.6.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from delegatec.backends.vulkan.reference.testing import Placement
from delegatec.backends.vulkan.testing.reference.cases import Case
from delegatec.backends.vulkan.testing.reference.table import CASES
from delegatec.program import EmittedProgram, MemoryPlan, write_program
from delegatec.program.emitted import Delegate, DelegateCall, EmittedMethod, TensorValue
from delegatec.program.scalar_type import SCALAR_TYPES

_DATA: Final = "testdata/vulkan_outputs.safetensors"
_ALIGNMENT: Final = 64


def all_blobs() -> Iterator[tuple[Case, Placement]]:
    """Yields the cases with each configuration in which they run."""
    for case in CASES:
        for placement in case.placements:
            yield case, placement


def key_of(case: Case, placement: Placement) -> str:
    """Returns the hash of a blob and of its inputs."""
    digest = hashlib.sha256(case.blob(placement).data())
    for tensor in case.inputs:
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def recorded_outputs() -> dict[str, list[torch.Tensor]]:
    """Returns key -> the outputs of the runtime."""
    path = Path(__file__).parent / _DATA
    tensors = load_file(path)
    with safe_open(path, "pt") as file:
        index: Mapping[str, Sequence[str]] = json.loads(file.metadata()["index"])
    return {key: [tensors[name] for name in names] for key, names in index.items()}


def _program(case: Case, placement: Placement) -> EmittedProgram:
    tensors = [*case.inputs, *case.wanted]
    values = []
    end = 0
    for tensor in tensors:
        values.append(TensorValue(SCALAR_TYPES[tensor.dtype], tuple(tensor.shape), offset=end))
        end += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
    ids = tuple(range(len(values)))
    method = EmittedMethod(
        name="forward",
        values=list(values),
        inputs=list(ids[: len(case.inputs)]),
        outputs=list(ids[len(case.inputs) :]),
        operators=[],
        instructions=[DelegateCall(0, ids)],
        debug_handles=[()],
        delegates=[Delegate("VulkanBackend", (case.blob(placement).data(),), (), "case", {})],
        memory_plan=MemoryPlan(arena_size=end),
    )
    return EmittedProgram([method])


def _write(directory: Path) -> None:
    for case, placement in all_blobs():
        path = directory / key_of(case, placement)
        with path.with_suffix(".pte").open("wb") as file:
            write_program(_program(case, placement), file)
        inputs = {str(index): tensor.contiguous().clone() for index, tensor in enumerate(case.inputs)}
        save_file(inputs, path.with_suffix(".inputs.safetensors"))


def _record(directory: Path) -> None:
    tensors: dict[str, torch.Tensor] = {}
    index: dict[str, list[str]] = {}
    for case, placement in all_blobs():
        key = key_of(case, placement)
        found = load_file(directory / f"{key}.outputs.safetensors")
        outputs = [found[str(number)] for number in range(len(found))]
        names = [_name(output) for output in outputs]
        tensors.update(zip(names, outputs, strict=True))
        index[key] = names
    path = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"]) / "tests" / "oracle" / _DATA
    save_file(tensors, path, {"index": json.dumps(index)})


def _name(tensor: torch.Tensor) -> str:
    content = f"{tensor.dtype}{list(tensor.shape)}".encode() + tensor.numpy().tobytes()
    return hashlib.sha256(content).hexdigest()[:12]


if __name__ == "__main__":
    {"write": _write, "record": _record}[sys.argv[1]](Path(sys.argv[2]))
