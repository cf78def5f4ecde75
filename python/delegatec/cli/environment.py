# SPDX-License-Identifier: Apache-2.0
"""Check of the libraries that the compiler runs with."""

from __future__ import annotations

from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic

TORCH: Final = "2.13"


def check_environment() -> None:
    """Rejects unsupported versions of torch: the compiler uses unstable parts of torch.export.

    Raises:
        DelegatecError: DC003.
    """
    import torch

    found = str(torch.__version__)
    if found.split(".")[:2] != TORCH.split("."):
        raise DelegatecError(
            [
                Diagnostic(
                    code="DC003",
                    message=f"unsupported version of torch: {found}",
                    expected=f"torch {TORCH}",
                    help="remove torch from `deps`: it hides the compiler's own torch",
                )
            ]
        )
