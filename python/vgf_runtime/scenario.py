# SPDX-License-Identifier: Apache-2.0
"""Arm's scenario runner: a process that runs a VGF file once.

The keys of a scenario and the names of formats are those of ai-ml-sdk-scenario-runner 0.11.0.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from vgf_runtime.device import Device, wheel_directory

_FORMATS: Final[Mapping[torch.dtype, str]] = {
    torch.bool: "VK_FORMAT_R8_BOOL_ARM",
    torch.int8: "VK_FORMAT_R8_SINT",
    torch.int16: "VK_FORMAT_R16_SINT",
    torch.int32: "VK_FORMAT_R32_SINT",
    torch.float16: "VK_FORMAT_R16_SFLOAT",
    torch.float32: "VK_FORMAT_R32_SFLOAT",
}
_SECONDS: Final = 600
_LINES: Final = 5
_PREFIX: Final = re.compile(r"^\S+ \S+ \[Scenario-Runner\] ", re.MULTILINE)

Output = tuple[int, torch.dtype, tuple[int, ...]]
"""Binding, dtype and sizes."""


def run_scenario(
    device: Device,
    folder: Path,
    graph: Path,
    inputs: Sequence[tuple[int, torch.Tensor]],
    outputs: Sequence[Output],
) -> list[torch.Tensor]:
    """Runs a VGF file.

    Args:
        device: where.
        folder: for the scenario and its tensors.
        graph: the file.
        inputs: binding and value of each, in the shape of the file's table of resources.
        outputs: of each.

    Returns:
        The outputs.

    Raises:
        RuntimeError: the runner rejects the file, fails, or does not end; the text has its messages.
    """
    resources: list[dict[str, Any]] = [{"graph": {"uid": "graph", "src": str(graph)}}]
    for binding, value in inputs:
        path = folder / f"{binding}.npy"
        np.save(path, value.contiguous().numpy())
        resources.append(_tensor(binding, value.dtype, value.shape, "readonly", src=path))
    for binding, dtype, shape in outputs:
        resources.append(_tensor(binding, dtype, shape, "writeonly", dst=folder / f"{binding}.npy"))
    bindings = [
        {"set": 0, "id": binding, "resource_ref": f"tensor_{binding}"}
        for binding in (*(each[0] for each in inputs), *(each[0] for each in outputs))
    ]
    command = {"dispatch_vgf": {"graph_ref": "graph", "bindings": bindings}}
    scenario = folder / "scenario.json"
    scenario.write_text(json.dumps({"commands": [command], "resources": resources}), encoding="utf-8")
    _run(device, scenario)
    return [
        torch.from_numpy(np.load(folder / f"{binding}.npy")).view(dtype).reshape(shape)
        for binding, dtype, shape in outputs
    ]


def _tensor(
    binding: int, dtype: torch.dtype, shape: Sequence[int], access: str, **file: Path
) -> dict[str, Any]:
    if dtype not in _FORMATS:
        raise RuntimeError(f"the scenario runner has no tensors of {dtype}")
    paths = {key: str(path) for key, path in file.items()}
    described = {"uid": f"tensor_{binding}", "dims": [*shape], "format": _FORMATS[dtype]}
    return {"tensor": described | {"shader_access": access} | paths}


def _run(device: Device, scenario: Path) -> None:
    command: list[str | Path] = [
        *device.loader(),
        *(_runner(), "--scenario", scenario, "--output", scenario.parent),
    ]
    # The cache is below /tmp otherwise, where tests at the same time would share it.
    command += ["--cache-path", scenario.parent, "--log-level", "warning"]
    try:
        done = subprocess.run(
            command, env=device.environment(), capture_output=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"the scenario runner does not end within {_SECONDS} seconds") from error
    if done.returncode:
        lines = _PREFIX.sub("", (done.stdout + done.stderr).decode(errors="replace")).strip().splitlines()
        status = f"the scenario runner ends with status {done.returncode}"
        raise RuntimeError("; ".join([status, *lines[-_LINES:]]))


def _runner() -> Path:
    return wheel_directory("scenario_runner") / "binaries/bin/scenario-runner"
