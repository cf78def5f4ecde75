# SPDX-License-Identifier: Apache-2.0
"""A user's options for a backend, checked against what the backend declares."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from delegatec.delegation.backend import OptionSpec
from delegatec.diagnostics import DelegatecError, Diagnostic


def resolve_options(
    name: str, declared: Mapping[str, OptionSpec], given: Mapping[str, str]
) -> dict[str, str]:
    """Value of every declared option.

    Args:
        name: the backend's name, for messages.
        declared: the backend's options.
        given: what the user set.

    Raises:
        DelegatecError: DC402, once for each unknown option and each value that is not allowed.
    """
    problems = []
    for key, value in sorted(given.items()):
        spec = declared.get(key)
        if spec is None:
            near = difflib.get_close_matches(key, declared, n=1)
            problems.append(
                Diagnostic(
                    code="DC402",
                    message=f"backend {name} has no option {key!r}",
                    expected=", ".join(sorted(declared)) or "no options",
                    help=f"did you mean {near[0]!r}?" if near else "",
                )
            )
        elif spec.values and value not in spec.values:
            problems.append(
                Diagnostic(
                    code="DC402",
                    message=f"option {key!r} of backend {name} cannot be {value!r}",
                    expected=" or ".join(spec.values),
                    help=spec.doc,
                )
            )
    if problems:
        raise DelegatecError(problems)
    return {key: given.get(key, spec.default) for key, spec in declared.items()}
