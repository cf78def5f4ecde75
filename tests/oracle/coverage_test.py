# SPDX-License-Identifier: Apache-2.0
"""All of torch's operators: samples agree with eager mode in the stock runtime, or are rejected by name.

The samples are those that torch tests its operators with, by the hundreds: views, empty tensors, negative
dimensions, every mode and option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

import pytest
import torch

from delegatec.edge.unsupported import UNSUPPORTED
from tests.oracle.sample_outcome import Outcome
from tests.oracle.sample_process import SampleProcess
from tests.oracle.torch_samples import op_db

# Samples of each operator; all of them would take an hour.
_MOST: Final = 2

# Refusals that are of no operator: of training mode, of a dtype, of a size without a bound, of strides.
_OTHER_CODES: Final = ("DC118", "DC125", "DC202", "DC203", "DC205", "DC206", "DC210", "DC215", "DC302")

# Operators with a sample that is neither computed nor rejected -> the reason.
KNOWN: Final[dict[str, str]] = {
    "linalg.ldl_solve": "torch itself ends the process, on a matrix without rows",
    "max_pool2d_with_indices_backward": "a derivative, whose kernel in the runtime returns other values",
    "matrix_exp": "another series, as exact as torch's for the matrix, but not for its smallest element",
    "tensor_split": "torch's decomposition reads the numbers of a constant tensor, which has none in a trace",
}

# Operators that torch.export does not trace: they answer with a bool of Python, read scalars out of tensors,
# or have code that it does not support.
NOT_EXPORTED: Final = frozenset(
    ("allclose", "corrcoef", "cov", "equal", "linalg.lstsq", "linalg.lstsq.grad_oriented")
    + ("nn.functional.ctc_loss", "nn.functional.gaussian_nll_loss")
    + ("jiterator_unary", "jiterator_binary", "jiterator_binary_return_by_ref")
    + ("jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args")
)

torch.set_num_threads(1)


def _name(operator: Any) -> str:
    return ".".join(filter(None, (operator.name, operator.variant_test_name)))


# Without those of sparse tensors, which programs do not support, and those without a dtype on the CPU.
OPERATORS: Final = {
    _name(operator): operator
    for operator in op_db
    if operator.dtypes and not operator.name.startswith("sparse.")
}


def _dtype(operator: Any) -> torch.dtype:
    """Returns float32, or the closest dtype."""
    return next(
        dtype
        for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, *operator.dtypes)
        if dtype in operator.dtypes
    )


@pytest.fixture(scope="module")
def process() -> Iterator[SampleProcess]:
    with SampleProcess(OPERATORS) as started:
        yield started


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", OPERATORS)
def test_samples_agree_or_are_rejected(process: SampleProcess, name: str) -> None:
    found = process.outcomes(name, _dtype(OPERATORS[name]), _MOST)
    assert found
    wrong = [outcome.text for outcome in found if outcome.kind == "wrong"]
    if name in KNOWN:
        assert wrong, f"{name} is correct: remove it from KNOWN"
    else:
        assert wrong == []
    assert [outcome for outcome in found if outcome.kind == "refused" and not _is_named(outcome)] == []
    assert all(outcome.kind == "no export" for outcome in found) == (name in NOT_EXPORTED)


def _is_named(outcome: Outcome) -> bool:
    """Whether an error names the unsupported operator, or has another reason."""
    names = re.findall(r"\.(\w+)\.\w+(?:, which)? has no kernel", outcome.text)
    return any(name in UNSUPPORTED for name in names) or any(
        f"error {code}" in outcome.text for code in _OTHER_CODES
    )


def test_most_samples_agree(process: SampleProcess) -> None:
    """A few random ones, so that a compiler that rejects everything fails."""
    kinds = [
        outcome.kind
        for name in ("add", "sort", "nn.functional.conv3d", "scatter_reduce.amax", "softmax", "linalg.inv")
        for outcome in process.outcomes(name, torch.float32, 3)
    ]
    assert kinds.count("agrees") >= 16


def _ends(*_: object) -> list[object]:
    os._exit(3)


def _samples(*_: object) -> list[object]:
    return [SimpleNamespace(input=torch.ones(2), args=(), kwargs={})]


def test_a_crash_is_the_outcome_of_its_operator_alone() -> None:
    right = SimpleNamespace(sample_inputs=_samples, op=torch.neg)
    operators = {"right": right, "crash": SimpleNamespace(sample_inputs=_ends, op=torch.neg)}
    with SampleProcess(operators) as process:
        kinds = [
            [(outcome.kind, outcome.text) for outcome in process.outcomes(name, torch.float32, 2)]
            for name in ("crash", "right", "crash", "right")
        ]
    ended = [("wrong", f"the process ended with status {3 << 8}")]
    assert kinds == [ended, [("agrees", "")], ended, [("agrees", "")]]
