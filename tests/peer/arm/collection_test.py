# SPDX-License-Identifier: Apache-2.0
"""The peer's Arm suite is recorded as a whole, and a case has what its test has chosen."""

from __future__ import annotations

from collections import Counter

import torch

from tests.peer.arm.cases import PreparedCase, Tolerance, prepare
from tests.peer.arm.collection import arm_cases, arm_modules, arm_tests, record

# ExecuTorch 1.4.1. One case per test, without a conftest, would give 96 fewer: 6 tests run 40 pipelines, and
# test_transpose_conv2d, which imports it, has 62.
_CASES = {"FP": 1907, "INT": 2276, "U55": 1473, "U65": 5, "U85": 1813, "refused": 433}


def _prepared(name: str) -> PreparedCase:
    (case,) = (case for case in arm_cases([name.partition("::")[0]]) if case.name == name)
    return prepare(case)


def test_the_suite_is_complete() -> None:
    names = Counter[str]()
    kinds = Counter[str]()
    for case in arm_cases(arm_modules()):
        names[case.name] += 1
        kinds[case.kind] += 1
    assert kinds == _CASES
    assert max(names.values()) == 1


def test_cases_are_the_same_each_time() -> None:
    (test,) = (test for test in arm_tests("ops/add") if test.name == "ops/add::add_tensor_tosa_FP[1d_randn]")
    first, second = (record(test)[0].pipeline.test_data[0] for _ in range(2))
    assert torch.equal(first, second)


def test_a_case_of_floating_point() -> None:
    case = _prepared("ops/add::add_tensor_tosa_FP[1d_randn]")
    assert (case.kind, case.specification) == ("FP", "TOSA-1.0+FP+bf16")
    assert case.tolerance == Tolerance()
    assert case.compare(case.wanted) == ""
    assert "not match" in case.compare([value + 0.1 for value in case.wanted])
    assert case.compare([]) == "0 results instead of 1"


def test_a_quantized_case_is_compared_with_the_model_before_quantization_too() -> None:
    case = _prepared("ops/ceil::ceil_tosa_INT[ceil_rand]")
    assert case.tolerance == Tolerance(0.06, 0.01, 1, 0.2, 0.9)
    assert "quantized_decomposed.quantize_per_tensor" in case.program.graph_module.code
    assert case.compare(case.wanted) == ""
    (wanted,), (scale,) = case.wanted, case.scales
    assert "does not match" in case.compare([wanted + 3 * scale + 0.1])
    flat = PreparedCase(**{**vars(case), "tolerance": Tolerance(10, 10, 1, 0.2, 0.9)})
    assert "cosine" in flat.compare([-wanted]).lower()


def test_a_case_that_must_not_be_delegated() -> None:
    case = _prepared("ops/where::where_self_u55_INT_not_delegated[two_dim_tensor_cond]")
    assert case.specification == "TOSA-1.0+INT+u55"
    assert case.kept == {"executorch_exir_dialects_edge__ops_aten_where_self": 1}
    assert case.delegates == 1


def test_a_case_of_an_npu_has_the_settings_of_its_compiler() -> None:
    case = next(case for case in arm_cases(["ops/add"]) if case.kind == "U55")
    assert prepare(case).options == {
        "accelerator": "ethos-u55-128",
        "system_config": "Ethos_U55_High_End_Embedded",
        "memory_mode": "Shared_Sram",
    }
