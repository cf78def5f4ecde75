# SPDX-License-Identifier: Apache-2.0
"""Whether an app links what a program needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from delegatec.diagnostics import Diagnostic
from delegatec.report.needs import RuntimeNeeds

KERNELS: Final = "kernels"
QUANTIZED_KERNELS: Final = "quantized_kernels"
# The namespace of the library of quantized kernels.
_QUANTIZED: Final = "quantized_decomposed::"
# Names to list in a message.
_SHOWN: Final = 5


def link_problems(
    needs: RuntimeNeeds, program: str, linked: Collection[str], exact: Collection[str]
) -> Iterator[Diagnostic]:
    """Yields what is missing, and what is linked in vain.

    Args:
        needs: what the program needs.
        program: its name in messages.
        linked: ids of backends, and names of libraries of kernels.
        exact: names that the user has chosen: each of them that is linked must be needed.
    """
    quantized = [name for name in needs.kernels if name.startswith(_QUANTIZED)]
    libraries = {
        KERNELS: [name for name in needs.kernels if not name.startswith(_QUANTIZED)],
        QUANTIZED_KERNELS: quantized,
    }
    backends = sorted({*linked} - libraries.keys())
    for backend in needs.backends:
        if backend not in linked:
            yield Diagnostic(
                "DC518",
                f"{program} has delegates of {backend}, which is not linked",
                expected=f"delegates of {', '.join(backends)}" if backends else "",
                help=f'add "{backend}" to `backends`',
            )
    for library, kernels in libraries.items():
        if kernels and library not in linked:
            yield Diagnostic(
                "DC518",
                f"{program} calls {_listed(kernels)} outside of delegates, and `{library}` is not linked",
                help=f"set {library} = True"
                + (
                    "; require_full_delegation = True of the program says what leaves them outside"
                    * (library == KERNELS)
                ),
            )
    used = {*needs.backends, *(library for library, kernels in libraries.items() if kernels)}
    for name in linked:
        if name not in used and name in exact:
            yield Diagnostic(
                "DC423",
                f"`{name}` is linked, but {program} calls nothing of it",
                help=f"set {name} = False" if name in libraries else f'remove "{name}" from `backends`',
            )


def _listed(kernels: list[str]) -> str:
    rest = len(kernels) - _SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"kernel{'s' * (len(kernels) > 1)} {', '.join(kernels[:_SHOWN])}{more}"
