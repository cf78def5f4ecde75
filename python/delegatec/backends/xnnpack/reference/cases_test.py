# SPDX-License-Identifier: Apache-2.0
"""The cases: they run, and every operation and every combination of types has one.

`tests/oracle/xnnpack_blob_test.py` compares their results with the runtime's.
"""

from __future__ import annotations

import torch

from delegatec.backends.xnnpack.checking.signatures import SIGNATURES
from delegatec.backends.xnnpack.operands import OPERATION_NAMES, operand_ids, result_ids
from delegatec.backends.xnnpack.reference.executor import SEMANTICS
from delegatec.backends.xnnpack.testing.reference.table import CASES
from delegatec.backends.xnnpack.values import tensor_of


def test_names_are_different() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_results_tell_something() -> None:
    """A result of zeros, or of limits only, would hide a wrong one."""
    for case in CASES:
        for result in case.run():
            assert result.numel() and not result.double().isnan().any(), case.name
            assert len({*result.flatten().tolist()}) > 1 or result.numel() < 6, case.name


def test_every_operation_has_semantics() -> None:
    assert {*SEMANTICS} == {*SIGNATURES} == {*OPERATION_NAMES.values()} - {"Attention"}


def test_every_combination_of_types_has_a_case() -> None:
    found: dict[str, set[tuple[int, ...]]] = {name: set() for name in SIGNATURES}
    for case in CASES:
        graph = case.blob().graph
        types = {tensor_of(value).id: tensor_of(value).dataType for value in graph.values}
        for node in graph.nodes:
            ids = [*operand_ids(node), *result_ids(node)]
            found[OPERATION_NAMES[node.operationType]].add(tuple(types[id] for id in ids))
    missing = {name: SIGNATURES[name] - found[name] for name in SIGNATURES if SIGNATURES[name] - found[name]}
    assert missing == {}


def test_a_run_forgets_the_one_before() -> None:
    case = next(case for case in CASES if case.name == "Add-row-f32")
    executor = case.executor()
    first = executor(case.inputs)
    assert torch.equal(executor([-each for each in case.inputs])[0], -first[0])
    assert torch.equal(executor(case.inputs)[0], first[0])
