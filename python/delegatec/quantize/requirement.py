# SPDX-License-Identifier: Apache-2.0
"""Import of torchao, which is not among the compiler's own wheels."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.quiet import quiet_logs


def require_torchao() -> None:
    """Imports torchao, which logs that its kernels for GPUs are missing.

    Raises:
        DelegatecError: DC135, it is missing.
    """
    printed = io.StringIO()
    with quiet_logs(logging.ERROR), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
        except ModuleNotFoundError as error:
            raise DelegatecError(
                [
                    Diagnostic(
                        "DC135",
                        f'quantization needs torchao: no module named "{error.name}"',
                        expected="torchao 0.18",
                        help="install it, or pass its directory with --import-path",
                    )
                ]
            ) from error
