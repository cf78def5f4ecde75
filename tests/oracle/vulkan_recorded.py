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
from delegatec.program import write_program
from tests.oracle.blob_program import content_name, program_of

_DATA: Final = "testdata/vulkan_outputs.safetensors"


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


def _write(directory: Path) -> None:
    for case, placement in all_blobs():
        path = directory / key_of(case, placement)
        with path.with_suffix(".pte").open("wb") as file:
            blob = case.blob(placement).data()
            write_program(program_of("VulkanBackend", blob, case.inputs, case.wanted), file)
        inputs = {str(index): tensor.contiguous().clone() for index, tensor in enumerate(case.inputs)}
        save_file(inputs, path.with_suffix(".inputs.safetensors"))


def _record(directory: Path) -> None:
    tensors: dict[str, torch.Tensor] = {}
    index: dict[str, list[str]] = {}
    for case, placement in all_blobs():
        key = key_of(case, placement)
        found = load_file(directory / f"{key}.outputs.safetensors")
        outputs = [found[str(number)] for number in range(len(found))]
        names = [content_name(output) for output in outputs]
        tensors.update(zip(names, outputs, strict=True))
        index[key] = names
    path = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"]) / "tests" / "oracle" / _DATA
    save_file(tensors, path, {"index": json.dumps(index)})


if __name__ == "__main__":
    {"write": _write, "record": _record}[sys.argv[1]](Path(sys.argv[2]))
