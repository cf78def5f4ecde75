# SPDX-License-Identifier: Apache-2.0
"""One trial in a separate process: quantizes a model by one tool, and lowers it for each Ethos-U.

    ethos_u_trial.py (ours|peer) NAME_OF_MODEL

The last line on stdout is a list of outcomes as JSON.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from ethos_u_models import ETHOS_U_MODELS, Case, warm_up
from runfiles import Runfiles

from delegatec import Model, lowering
from delegatec.backends.arm.ethos_u.backend import ETHOS_U
from delegatec.backends.arm.ethos_u.settings import EthosUSettings
from delegatec.backends.arm.ethos_u.vela import compile_graph
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings

TOOLS: Final = ("peer", "ours")
# Accelerator -> the peer's specification.
ACCELERATORS: Final = {
    "ethos-u55-128": "TOSA-1.0+INT+u55",
    "ethos-u65-256": "TOSA-1.0+INT+u55",
    "ethos-u85-256": "TOSA-1.0+INT",
}
_TOSA_TOOLS: Final = "delegatec_pip_tosa_tools/site-packages"

Lower = Callable[[str], list[dict[str, int]]]
"""Lowers for an accelerator; returns Vela's estimates for each delegate."""


@dataclass
class Outcome:
    """The result for one accelerator.

    Attributes:
        error: the failure, empty if none; other attributes are not set then.
        accelerator: of `ACCELERATORS`.
        delegates: number of delegates.
        totals: Vela's estimates, of all delegates.
        seconds: CPU seconds of the lowering, without quantization and Vela.
    """

    error: str = ""
    accelerator: str = ""
    delegates: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class _Clock:
    """CPU seconds of this process, without those that `apart` takes."""

    def __init__(self) -> None:
        self._start = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self._start

    def apart(self, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        self._start += time.process_time() - start
        return result


def _ours(case: Case, clock: _Clock) -> Lower:
    module, samples = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        methods = export(Model(module.eval(), (samples[0],)))
        calibration = {"forward": [((sample,), {}) for sample in samples]}
        quantized = quantize_model(methods, calibration, Settings()).methods
    path = Path(tempfile.mkdtemp()) / "model.pt2"
    archive.save(quantized, str(path))

    def lower(accelerator: str) -> list[dict[str, int]]:
        model = clock.apart(lambda: archive.load(str(path)))
        found = lowering.lower(model.methods, "ethos_u", {"accelerator": accelerator})
        return [_totals(each.module.estimates) for each in found.reports["forward"].delegates]

    return lower


def _totals(estimates: Any) -> dict[str, int]:
    return dict(estimates.totals)


def _peer(case: Case, clock: _Clock) -> Lower:
    def imported() -> tuple[Any, ...]:
        # its serializer; other libraries are this process's
        sys.path.append(_tosa_tools())
        logging.disable(logging.WARNING)
        from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
        from executorch.backends.arm.tosa import TosaSpecification
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
        from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
        from executorch.exir import to_edge_transform_and_lower
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        return (
            *(TOSAQuantizer, get_symmetric_quantization_config, TosaSpecification, TosaCompileSpec),
            *(TOSAPartitioner, to_edge_transform_and_lower, convert_pt2e, prepare_pt2e),
        )

    quantizer, configuration, specification, compile_spec, partitioner, lower_edge, convert, prepare = (
        imported()
    )
    module, samples = case

    def quantized(spec: Any) -> Any:
        observed = quantizer(spec)
        observed.set_global(configuration())
        exported = torch.export.export(copy.deepcopy(module).eval(), (samples[0],), strict=True)
        prepared = prepare(exported.module(check_guards=False), observed)
        for sample in samples:
            prepared(sample)
        return torch.export.export(convert(prepared), (samples[0],), strict=True)

    def lower(accelerator: str) -> list[dict[str, int]]:
        spec = compile_spec(specification.create_from_string(ACCELERATORS[accelerator]))
        exported = clock.apart(lambda: quantized(spec))
        with tempfile.TemporaryDirectory() as directory:
            spec.dump_intermediate_artifacts_to(directory)
            lower_edge(exported, partitioner=[partitioner(spec)]).to_executorch()
            blobs = [path.read_bytes() for path in sorted(Path(directory).glob("**/*.tosa"))]
        return clock.apart(lambda: [_compiled(blob, accelerator) for blob in blobs])  # type: ignore[no-any-return]

    return lower


def _tosa_tools() -> str:
    runfiles = Runfiles.Create()
    return str(runfiles.Rlocation(_TOSA_TOOLS) if runfiles is not None else os.environ["TOSA_TOOLS"])


def _compiled(blob: bytes, accelerator: str) -> dict[str, int]:
    settings = ETHOS_U.settings(ETHOS_U.compile_specs({"accelerator": accelerator}))
    assert isinstance(settings, EthosUSettings)
    return _totals(compile_graph([memoryview(blob)], settings)[1])


_TOOLS: Final = {"ours": _ours, "peer": _peer}


def outcomes(tool: str, name: str, accelerators: Sequence[str] = (*ACCELERATORS,)) -> list[Outcome]:
    """Returns what a tool makes of a model for each accelerator, after it has lowered a small one."""
    torch.manual_seed(0)
    clock = _Clock()
    _TOOLS[tool](warm_up(), clock)(accelerators[0])
    torch.manual_seed(0)
    lower = _TOOLS[tool](ETHOS_U_MODELS[name](), clock)
    found = []
    for accelerator in accelerators:
        start = clock.seconds
        try:
            delegates = lower(accelerator)
        except Exception as error:  # noqa: BLE001 - a failure of a tool is a result
            traceback.print_exc()
            found.append(Outcome(f"{type(error).__name__}: {error}"[:200], accelerator))
            continue
        totals = {key: sum(each[key] for each in delegates) for key in delegates[0]} if delegates else {}
        found.append(Outcome("", accelerator, len(delegates), totals, clock.seconds - start))
    return found


def main() -> None:
    """Parses the command line and prints the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("model", choices=ETHOS_U_MODELS)
    parser.add_argument("accelerators", nargs="*", default=[*ACCELERATORS])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found = outcomes(arguments.tool, arguments.model, arguments.accelerators)
    print(json.dumps([asdict(each) for each in found]))


if __name__ == "__main__":
    main()
