# SPDX-License-Identifier: Apache-2.0
"""Whether the libraries that the compiler finds are those that it was written for."""

from __future__ import annotations

from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic

TORCH: Final = "2.13"


def check_environment() -> None:
    """Refuses another torch: the compiler uses parts of torch.export that change from one to the next.

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
