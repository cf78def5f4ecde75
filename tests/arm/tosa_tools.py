# SPDX-License-Identifier: Apache-2.0
"""The TOSA reference model and the validator of tosa-opt, as checks of a graph."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import torch

from delegatec.backends.arm.specification import TosaSpecification
from tests.arm.child import Child, packed, runfile, unpacked

_SITE: Final = "delegatec_pip_tosa_tools/site-packages"
_VARIABLE: Final = "TOSA_TOOLS"
_EXTENSIONS: Final = {"cf": "controlflow"}
"""Extensions that tosa-opt names in another way."""


class InvalidGraphError(Exception):
    """The reference model or the validator rejects a graph."""


class UnpredictableError(InvalidGraphError):
    """The results of a graph are unpredictable for these inputs."""


@cache
def _model() -> Child:
    script = Path(__file__).with_name("reference_model_server.py")
    # Without a PATH: the model starts a debugger for an invalid graph if there is one.
    environment = {
        "PATH": "/nonexistent",
        "PYTHONPATH": str(runfile(_SITE, _VARIABLE)),
        "OMP_NUM_THREADS": "1",
    }
    return Child([sys.executable, "-s", "-P", "-B", script], environment)


def run(graph: bytes, inputs: Sequence[torch.Tensor], seconds: int = 120) -> list[torch.Tensor]:
    """Returns the outputs of a graph in the reference model.

    Args:
        graph: its FlatBuffer.
        inputs: in the order of the graph.
        seconds: of CPU time.

    Raises:
        UnpredictableError: the results are unpredictable for these inputs.
        InvalidGraphError: the graph is invalid, or the model crashes.
    """
    status, outputs = _model().ask((graph, [packed(each) for each in inputs], seconds))
    if status == "TOSA_UNPREDICTABLE":
        raise UnpredictableError(f"{status}\n{_model().log()}")
    if status != "TOSA_VALID":
        raise InvalidGraphError(f"{status}\n{_model().log()}")
    return [unpacked(each) for each in outputs]


def check(graph: bytes, specification: TosaSpecification) -> None:
    """Checks a graph by the rules of its specification.

    Raises:
        InvalidGraphError: with the messages of tosa-opt.
    """
    profiles = [name for name, has in (("int", specification.integer), ("fp", specification.floating)) if has]
    extensions = [_EXTENSIONS.get(each, each) for each in sorted(specification.extensions)]
    target = [
        f"specification_version={'1.0' if specification.version == (1, 0) else '1.1.draft'}",
        f"level={'8k' if specification.level_8k else 'none'}",
        f"profiles={','.join(f'pro_{each}' for each in profiles)}",
        *([f"extensions={','.join(extensions)}"] if extensions else []),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "graph.tosa").write_bytes(graph)
        (folder / "empty.mlir").write_text("module {}\n")
        passes = [
            "tosa-deserialize{tosa-flatbuffer-filename=graph.tosa}",
            f"tosa-attach-target{{{' '.join(target)}}}",
            "tosa-validate{strict-op-spec-alignment=true}",
        ]
        done = subprocess.run(
            [runfile(_SITE, _VARIABLE) / "bin/tosa-opt", "empty.mlir"]
            + [f"--pass-pipeline=builtin.module({','.join(passes)})", "-o", "result.mlir"],
            cwd=folder,
            env={},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
            check=False,
        )
    if done.returncode:
        raise InvalidGraphError(done.stderr)
