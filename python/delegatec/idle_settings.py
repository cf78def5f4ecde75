# SPDX-License-Identifier: Apache-2.0
"""Settings about delegates that have no effect on a model without any."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from delegatec.delegation import PartitionRules
from delegatec.diagnostics import Diagnostic
from delegatec.program import ProgramOptions

_LAYOUT: Final = ("delegate_alignment", "inline_delegates")


def idle_problems(
    rules: PartitionRules, options: ProgramOptions, requires_full_delegation: bool
) -> list[Diagnostic]:
    """Returns problems of a model without a backend: DC423 for settings about delegates, DC405 for a demand.

    Args:
        rules: the partition rules.
        options: the layout of the program.
        requires_full_delegation: whether an operator that is not delegated is an error.
    """
    idle = [each.name for each in fields(rules) if getattr(rules, each.name) != each.default]
    idle += [name for name in _LAYOUT if getattr(options, name) != getattr(ProgramOptions, name)]
    problems = []
    if requires_full_delegation:
        message = "the portable kernels are not a delegate"
        help = "choose a backend, or do not require full delegation"
        problems.append(Diagnostic("DC405", message, help=help))
    if idle:
        message = f"{' and '.join(idle)} {'have' if len(idle) > 1 else 'has'} no effect without a backend"
        expected = "a backend besides portable, or none of these settings"
        problems.append(Diagnostic("DC423", f"{message} that delegates", expected=expected))
    return problems
