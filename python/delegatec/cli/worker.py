# SPDX-License-Identifier: Apache-2.0
"""A persistent Bazel worker: imports torch once, and forks a child for each request.

Every child starts from the same state, so that a request gives the same bytes as a cold process; user code
cannot affect the worker or the next request. Requests with the same libraries are forked from a copy of the
worker that has imported them (`copies.py`). Requests run one at a time (singleplex).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import BinaryIO

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.isolation import leave_network
from delegatec.cli.supervisor import supervised
from delegatec.cli.worker_pool import WorkerPool
from delegatec.cli.worker_protocol import (
    ProtocolError,
    WorkRequest,
    WorkResponse,
    read_request,
    write_response,
)

# Runs a command line, and its verb with the given function.
Run = Callable[[Sequence[str], Callable[[Callable[[], int]], int]], int]


def serve(run: Run, warm_up: Callable[[], None]) -> int:
    """Serves requests from stdin until it ends.

    Args:
        run: runs one command line; may print, and returns an exit code. Takes the function that runs its user
            code: in a child process.
        warm_up: imports the modules that every request needs; called once, before the first fork.

    Returns:
        Exit code: 0 at the end of the requests, 1 for invalid input.
    """
    requests = os.fdopen(os.dup(0), "rb")
    responses = os.fdopen(os.dup(1), "wb")
    # Only `responses` writes to Bazel from here on: a stray print would corrupt the protocol.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    warm_up()
    gc.collect()
    gc.freeze()  # A collection in a child would touch, and so copy, all pages of these objects.
    copies = WorkerPool(partial(_answer, run), (requests, responses))
    try:
        while (request := read_request(requests)) is not None:
            # Requests run one at a time: a cancelled request has finished when its cancellation is read.
            if not request.cancel:
                write_response(responses, copies.answer(request))
    except ProtocolError as error:
        print(f"delegatec worker: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        pass  # Bazel is gone, and nobody reads the exit code.
    return 0


def warm_up() -> None:
    """Imports torch and compiles a small model: much of torch is imported on first use.

    Starts no threads: a forked child would lack them.
    """
    pin_torch()
    import torch

    import delegatec.report.build
    import delegatec.report.html  # noqa: F401 - loads its template library
    from delegatec.frontend import archive
    from delegatec.frontend.export import export
    from delegatec.frontend.model import Model
    from delegatec.lowering import PORTABLE, lower
    from delegatec.program import write_program

    module = torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 2)),
        torch.nn.Softplus(),  # a decomposition by torch
    )
    shapes = ({0: torch.export.Dim("batch", max=4)},)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "warm_up.pt2")
        archive.save(export(Model(module, (torch.zeros(2, 1, 4, 4),), dynamic_shapes=shapes)), path)
        # No backend: their sources are inputs of requests, so that a worker serves all of them.
        loaded = archive.load(path)
        lowered = lower(loaded.methods, PORTABLE)
        write_program(lowered.emitted, io.BytesIO(), [loaded.file])


def _answer(
    run: Run,
    request: WorkRequest,
    streams: Sequence[BinaryIO],
    wrap: Callable[[Callable[[], int]], Callable[[], int]] = lambda run: run,
) -> WorkResponse:
    with tempfile.TemporaryFile() as output, io.TextIOWrapper(output, "utf-8", write_through=True) as text:

        def prepare() -> None:
            leave_network()
            for stream in streams:
                os.close(stream.fileno())
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            sys.stdout, sys.stderr = standard
            importlib.invalidate_caches()  # The request may bring files that did not exist at the start.

        standard = sys.stdout, sys.stderr
        for stream in standard:
            stream.flush()  # A child would print a copy of the buffered text.
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = run(request.arguments, lambda verb: supervised(wrap(verb), prepare))
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")
    return WorkResponse(code, printed, request.request_id)
