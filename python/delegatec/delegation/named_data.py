# SPDX-License-Identifier: Apache-2.0
"""Data that delegates look up by name, so that several of them share it: weights, as a rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

from delegatec.delegation.backend import ReferenceExecutor
from delegatec.delegation.compile_spec import CompileSpec


def make_reference(
    reference: Callable[..., ReferenceExecutor],
    blob: memoryview,
    compile_specs: Sequence[CompileSpec],
    named_data: Mapping[str, memoryview],
) -> ReferenceExecutor:
    """Makes an executor of a blob.

    Args:
        reference: `Backend.reference`, which gets the named data if it has a parameter `named_data`.
        blob: what the runtime would hand to the backend.
        compile_specs: its settings.
        named_data: what the backend could look up, of all delegates of the program.
    """
    if "named_data" in inspect.signature(reference).parameters:
        return reference(blob, compile_specs, named_data=named_data)
    return reference(blob, compile_specs)
