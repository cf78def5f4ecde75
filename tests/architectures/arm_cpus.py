# SPDX-License-Identifier: Apache-2.0
"""Runs XNNPACK programs of architectures on emulated Arm CPUs: `bazel run //tests/architectures:arm_cpus`.

Each program runs in the same runtime on this host and on the CPUs, with the same inputs. A line of JSON for a
program has the largest difference of an output from this host's, for each CPU, and of this host's from eager
mode in float32, as parts of the output's largest magnitude.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec import export, lower
from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.program import write_program
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from executorch_runner import RUNTIME
from executorch_runner.arm import on_cpu
from tests.architectures.case import Case
from tests.architectures.cases import CASES
from tests.architectures.measure import difference

# Form of a program -> options of the lowering.
_FORMS: Final = {"fp32": {}, "fp16": {"precision": "fp16"}, "int8": {}}


def _methods(case: Case, form: str, folder: Path) -> dict[str, ExportedProgram]:
    path = folder / "model.pt2"
    methods = export(case.declared())
    if form == "int8":
        methods = quantize_model(methods, {"forward": [((), case.examples())]}, Settings()).methods
    archive.save(methods, str(path))
    return archive.load(str(path)).methods


def _outputs(case: Case, pte: Path, runtime: Any) -> list[list[Any]]:
    program = runtime.load(str(pte), None, False)
    # The next run may write to the outputs.
    return [
        copy.deepcopy(list(program.run("forward", [*case.examples(run).values()])))
        for run in range(case.runs)
    ]


def _expected(case: Case) -> list[list[Any]]:
    module = case.module()
    with torch.no_grad():
        # Outputs may be state, which the next run writes to.
        return [copy.deepcopy(pytree.tree_leaves(module(**case.examples(run)))) for run in range(case.runs)]


def _worst(actual: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]) -> float:
    """Returns the largest difference, as a part of the largest magnitude of its output."""
    return max(
        difference(a, e).relative
        for one, other in zip(actual, expected, strict=True)
        for a, e in zip(one, other, strict=True)
    )


def measure(case: Case, form: str, cpus: Sequence[str]) -> dict[str, Any]:
    """Returns the differences of a program, by CPU, and its error on this host, as "eager".

    Args:
        case: the architecture.
        form: "fp32", "fp16" or "int8".
        cpus: names of CPUs.

    Raises:
        DelegatecError: the compiler rejects it.
        RuntimeError: a runtime rejects the program.
    """
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pte = Path(name) / "model.pte"
        with pte.open("wb") as file:
            write_program(lower(_methods(case, form, Path(name)), "xnnpack", _FORMS[form]).emitted, file)
        here = _outputs(case, pte, RUNTIME)
        found = {cpu: _worst(_outputs(case, pte, on_cpu(cpu)), here) for cpu in cpus}
        return {**found, "eager": _worst(here, _expected(case))}


def rows(cases: Sequence[Case], forms: Sequence[str], cpus: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields a row for each program, with "error" instead of figures if it cannot be had."""
    for case in cases:
        for form in forms:
            try:
                found = measure(case, form, cpus)
            except (DelegatecError, RuntimeError) as error:
                found = {"error": str(error).splitlines()[0]}
            yield {"name": case.name, "form": form, **found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpus", default="cortex-a53,cortex-a76", help="names, separated by commas")
    parser.add_argument("--forms", default=",".join(_FORMS), help="of programs, separated by commas")
    parser.add_argument("--names", default="", help="of architectures, separated by semicolons; default: all")
    parser.add_argument("--every", type=int, default=1, help="only each N-th architecture")
    arguments = parser.parse_args()
    names = arguments.names.split(";") if arguments.names else [case.name for case in CASES]
    cases = [case for case in CASES if case.name in names and not case.refusal][:: arguments.every]
    failed = 0
    for row in rows(cases, arguments.forms.split(","), arguments.cpus.split(",")):
        failed += "error" in row
        print(json.dumps(row), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
