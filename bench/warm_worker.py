# SPDX-License-Identifier: Apache-2.0
"""The compiler's worker, which writes the CPU seconds of the stages of each request to a file, as JSON."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from delegatec.cli import worker
from delegatec.cli.arithmetic import pin_arithmetic
from delegatec.cli.main import run_verb

# "module:function", as the caller finds it -> its stage.
STAGES: Final = {
    "delegatec.frontend.export:load_model": "import and build the model",
    "delegatec.frontend.export:trace": "torch.export",
    "delegatec.frontend.archive:save": "write the .pt2",
    "delegatec.frontend.archive:load": "read the .pt2",
    "delegatec.frontend.pt2.zip_reader:MappedZip._checksum": "checksums",
    "delegatec.lowering:to_edge": "to_edge",
    "delegatec.lowering:to_backend": "to_backend",
    "delegatec.lowering:emit": "emit, plan",
    "delegatec.program:write_program": "write",
    "delegatec.report.debug_map:debug_map_json": "debug map",
    "delegatec.report.build:build_manifest": "manifest",
    "delegatec.report.manifest:from_json": "manifest",
    "delegatec.report.manifest:to_json": "manifest",
    "delegatec.report.blob_graphs:blob_graphs": "report",
    "delegatec.report.html:render_html": "report",
    "delegatec.report.reasons:format_reasons": "reasons",
    "delegatec.lowering:print_program": "ir",
}


class Stages:
    """CPU seconds of stages, without those of stages inside them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    def timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """Returns a function whose time counts for a stage."""

        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            self._inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                elapsed = time.process_time() - start
                self.seconds[stage] = self.seconds.get(stage, 0.0) + elapsed - self._inner.pop()
                self._inner[-1] += elapsed

        return run


def measured(run: Callable[[], int]) -> int:
    """Runs a verb, and writes the time of its stages."""
    stages = Stages()
    for path, stage in STAGES.items():
        module, _, name = path.partition(":")
        *owners, attribute = name.split(".")
        owner: Any = importlib.import_module(module)
        for each in owners:
            owner = getattr(owner, each)
        setattr(owner, attribute, stages.timed(getattr(owner, attribute), stage))
    code: int = stages.timed(run, "the rest of the child")()
    Path(sys.argv[1]).write_text(json.dumps(stages.seconds))
    return code


def serve(argv: Sequence[str], execute: Callable[[Callable[[], int]], int]) -> int:
    """Runs a verb as the worker does."""
    return run_verb(argv, lambda run: execute(lambda: measured(run)))


if __name__ == "__main__":
    pin_arithmetic()
    sys.exit(worker.serve(serve, worker.warm_up))
