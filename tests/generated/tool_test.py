# SPDX-License-Identifier: Apache-2.0
"""The generator and the minimizer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from tests.generated.examples import DIMS, Call
from tests.generated.expected import accepted, difference, expected
from tests.generated.generate import _Generator, generate
from tests.generated.outcomes import CRASH, HANG, RIGHT, Outcome, outcomes
from tests.generated.processes import last_of, results
from tests.generated.profiles import ANY, LAYERS
from tests.generated.program import STEP, Input, Node, Program, is_constant
from tests.generated.quantization_noise import QuantizationNoise, signal_to_noise
from tests.generated.report import failure_file
from tests.generated.rows import CONTROL_FLOW, GROUPS, IN_PLACE, functions
from tests.generated.rows_layers import WEIGHTED
from tests.generated.rows_memory import VIEWS
from tests.generated.shrink import minimized, shrunk
from tests.generated.targets import PORTABLE
from tests.generated.values import make

SEEDS = range(300)


def test_the_same_seed_is_the_same_program() -> None:
    for seed in range(20):
        assert generate(seed) == generate(seed)
        assert generate(seed).source() == generate(seed).source()


def test_programs_are_of_all_kinds() -> None:
    programs = [generate(seed) for seed in SEEDS]
    inputs = [each for program in programs for each in program.inputs]
    rows = {node.template for program in programs for node in program.nodes}
    assert len(functions()) > 300
    assert len(functions(rows)) > 300
    assert len(rows) > 0.8 * len({row for group in GROUPS for row in group})
    assert len({each.dtype for each in inputs}) >= 6
    assert {len(each.shape) for each in inputs} == set(range(6))
    assert {size for each in inputs for size in each.shape} >= set(range(8))
    kinds = {"normal", "dyadic", "special", "large", "index", "zeros", "ones"}
    assert {each.values.split()[0] for each in inputs} == kinds
    assert rows & set(IN_PLACE) and rows & set(CONTROL_FLOW)
    for letters, least in (("snubmtw", 60), ("nubmtw", 15), ("pdlo", 3)):
        assert sum(any(o.attribute[0] in letters for o in each.buffers) for each in programs) > least
    assert sum(any(each.dynamic for each in program.inputs) for program in programs) > 60
    assert sum(bool(program.step) for program in programs) > 20
    assert sum(bool(program.aliases) for program in programs) > 3
    assert sum(any(node.template in VIEWS for node in each.nodes) for each in programs) > 20
    assert {program.dims for program in programs} == set(DIMS)
    lengths = {len(program.nodes) for program in programs}
    assert min(lengths) >= 2 and max(lengths) >= 30


def test_a_row_does_not_read_other_views_of_what_it_writes() -> None:
    made = _Generator(Random(0), ANY)
    base = torch.ones(2, 3)
    made.values = {"v0": base, "v1": base[:1], "v2": base[:], "v3": base.clone()}
    for other in ("v0", "v2", "v3"):
        made._reject_overlaps("v0", Node("", "{w}.add_({n~})", {"w": "v0", "n": other}))
    with pytest.raises(ValueError, match="reads what it writes"):
        made._reject_overlaps("v0", Node("", "{w}.add_({n~})", {"w": "v0", "n": "v1"}))


def test_a_layer_that_is_quantized_has_an_input() -> None:
    """One of constants alone is folded, and leaves weights without a test."""
    for seed in range(100):
        program = generate(seed, LAYERS)
        first = next(node for node in program.nodes if node.template in WEIGHTED)
        assert any(not is_constant(name) for name in first.operands()), seed


X = Input("x0", torch.float32, (3, 4))
CALL = Call("forward", [make(X)])


def _program(*texts: str) -> Program:
    nodes = tuple(Node(f"v{i}", text, {"t": "x0" if i == 0 else f"v{i - 1}"}) for i, text in enumerate(texts))
    return Program((X,), nodes, (f"v{len(texts) - 1}",))


def test_a_result_that_is_not_that_of_eager_mode_is_found() -> None:
    program = _program("{t}.exp()", "{t} + 1")
    value = expected(program, {}, [CALL]).calls[0][0]
    assert difference(make(X).exp() + 1, value) == ""
    assert difference((make(X).exp() + 1) * (1 + 1e-7), value) == ""
    assert difference((make(X).exp() + 1) * (1 + 1e-4), value) != ""
    assert difference(make(X).exp().double() + 1, value) != ""
    assert difference(make(X).exp()[:2] + 1, value) != ""
    assert difference(torch.full((3, 4), torch.nan), value) != ""


def test_an_ill_conditioned_result_has_a_wide_tolerance() -> None:
    program = _program("{t}.exp()", "({t} + 1e6)", "({t} - 1e6)", "{t} * 1e3")
    value = expected(program, {}, [CALL]).calls[0][0]
    assert difference((make(X).exp().double() * 1e3).float(), value) == ""


def test_terms_of_any_sum_may_cancel() -> None:
    """Also where eager mode is exact by chance."""
    terms = torch.tensor([1e5 / 3, -1e5 / 3, 0.1])
    source = f"torch.tensor([{terms.tolist()}] * 3)"
    scatter = f"({{t}} * 0).scatter(1, torch.zeros(3, 3).long(), {source}, reduce='add')"
    value = expected(_program(scatter), {}, [CALL]).calls[0][0]
    other = torch.zeros(3, 4)
    other[:, 0] = terms[2] + terms[0] + terms[1]
    assert difference(other, value) == ""
    grid = "F.affine_grid(torch.full((1, 2, 3), 4.5) + {t}[0, 0] * 0, (1, 1, 2, 3), align_corners=False)"
    assert expected(_program(grid), {}, [CALL]).calls[0][0].tolerance[0, 0, 0, 0] > 1e-5


def test_the_largest_of_two_zeros_has_either_sign() -> None:
    program = _program("torch.topk({t} * torch.tensor([0.0, -0.0, 0.0, 0.0]), 2)[0]", "torch.atan2({t}, {t})")
    value = expected(program, {}, [CALL]).calls[0][0]
    assert difference(torch.zeros(3, 2), value) == "" == difference(torch.full((3, 2), -torch.pi), value)
    program = _program("torch.topk({t}.clamp(max=-9).relu(), 2)[0]", "torch.atan2({t}, {t})")
    value = expected(program, {}, [CALL]).calls[0][0]
    assert difference(torch.full((3, 2), -torch.pi), value) != ""


@pytest.mark.parametrize("power", ["{t} ** {t}", "{t}.clone().pow_({t})", "({t} * 1).pow_({t})"])
def test_powers_of_integers_that_overflow_are_any_number(power: str) -> None:
    program = _program("({t} * 0).int() + 24", "{t}.long()", power)
    value = expected(program, {}, [CALL]).calls[0][0]
    assert difference(torch.full((3, 4), -(2**63)), value) == ""
    value = expected(_program("({t} * 0).int() + 3", "{t}.long()", power), {}, [CALL]).calls[0][0]
    assert difference(torch.full((3, 4), -(2**63)), value) != ""


def test_an_infinite_factor_of_a_product_multiplies_terms_or_sums() -> None:
    program = _program("torch.addmm({t}, {t}, torch.ones(4, 4), alpha=-math.inf)")
    value = expected(program, {}, [CALL]).calls[0][0]
    x = make(X)
    assert difference(x + (x @ torch.ones(4, 4)) * -torch.inf, value) == ""
    finite = expected(_program("torch.addmm({t}, {t}, torch.ones(4, 4), alpha=2)"), {}, [CALL]).calls[0][0]
    assert difference(x, finite) != ""


def test_a_mean_of_zero_is_zero_but_for_rounding() -> None:
    program = _program("({t} * 0 + torch.tensor([1.0, 2.0, 0.0, -3.0])).mean(1).bool()")
    value = expected(program, {}, [CALL]).calls[0][0]
    assert difference(torch.ones(3, dtype=torch.bool), value) == ""


def test_a_logarithm_of_a_sum_is_zero_but_for_rounding() -> None:
    value = expected(_program("({t} * 0 - 1)", "torch.logaddexp2({t}, {t}).bool()"), {}, [CALL]).calls[0][0]
    assert difference(torch.ones(3, 4, dtype=torch.bool), value) == ""


def test_values_that_delegates_do_not_have_are_noted() -> None:
    """Integers beyond int32, and max pools of minus infinity only, also between inputs and results."""
    shifts = _program("{t}.long()", "({t} << 40)", "({t} >> 40)")
    assert not expected(shifts, {}, [CALL]).fits_int32
    assert expected(_program("{t}.long()"), {}, [CALL]).fits_int32
    pools = _program("torch.where({t} > 99, {t}, -math.inf)", "F.max_pool2d({t}[None], 2)", "{t}.exp()")
    assert not expected(pools, {}, [CALL]).maxima_finite
    assert expected(_program("F.max_pool2d({t}[None], 2)"), {}, [CALL]).maxima_finite
    masked = _program("torch.where({t} < 0, {t}, -math.inf).amin(1, True)", "torch.softmax({t}, 1)")
    assert not expected(masked, {}, [CALL]).maxima_finite
    assert expected(_program("torch.softmax({t}, 1)"), {}, [CALL]).maxima_finite
    assert not expected(_program("({t} * 1e7).int()"), {}, [CALL]).sums_fit
    assert expected(_program("{t}.int()"), {}, [CALL]).sums_fit
    groups = "F.conv1d({t}[None], torch.ones({t}.shape[0], 1, 1), groups={t}.shape[0])"
    assert not expected(_program("torch.where({t} > 0, {t}, math.inf)", groups), {}, [CALL]).groups_finite
    assert expected(_program(groups), {}, [CALL]).groups_finite
    for function in ("torch.std({t}, 1)", "torch.renorm({t}, 2, 0, 1.5)", "torch.complex({t}, {t}).abs()"):
        assert not expected(_program("({t} * 1.3e28)", function), {}, [CALL]).squares_fit
        assert expected(_program(function), {}, [CALL]).squares_fit
    assert not expected(_program("({t} * 1e9).int()", "{t}.relu()"), {}, [CALL]).short_integers
    assert expected(_program("({t} * 1e9).int()", "{t}.flip(0)"), {}, [CALL]).short_integers
    assert not expected(_program("({t} * 1e-39)"), {}, [CALL]).is_normal
    assert expected(_program("({t} * 1e-30)"), {}, [CALL]).is_normal
    attention = "F.scaled_dot_product_attention({t}, {t}, {t})"
    assert not expected(_program("({t} * 300).half()", attention), {}, [CALL]).scores_fit
    assert expected(_program("{t}.half()", attention), {}, [CALL]).scores_fit


def test_a_running_mean_of_infinities_may_be_infinite() -> None:
    program = _program("torch.var_mean({t} * 0 - math.inf, 1)[1]")
    value = expected(program, {}, [CALL]).calls[0][0]
    assert value.value.isnan().all()
    assert difference(torch.full((3,), -torch.inf), value) == ""


def _filled(x: Tensor) -> Tensor:
    y = x * 1.0
    y[0] = 2
    return y[0].clone()


def _normed(x: Tensor) -> Tensor:
    return F.layer_norm(x, (64,))


_RANGE = torch.arange(64.0) - 20
_QUIET = torch.arange(64.0).cos() / 50


@pytest.mark.parametrize(
    ("function", "x", "others", "most"),
    [
        pytest.param(_filled, _RANGE, (), 40, id="a part that is filled has the scale of the whole"),
        pytest.param(lambda x: torch.heaviside(x, x), _RANGE, (), 30, id="ones have the scale of others"),
        pytest.param(lambda x: x / x, _RANGE / 32 + 0.01, (), 35, id="a reciprocal has its own range"),
        pytest.param(_normed, _QUIET, (_RANGE / 200,), 30, id="a variance has the range of all calls"),
        pytest.param(_normed, _QUIET, (), 50, id="a norm of one call"),
    ],
)
def test_what_quantized_values_cannot_reach_is_not_expected(
    function: Callable[[Tensor], Tensor], x: Tensor, others: tuple[Tensor, ...], most: float
) -> None:
    found, widths = [], dict[int, float]()
    for seed in (None, 1, 2, 3):
        for each in (*others, x):
            with QuantizationNoise(255, widths, seed):
                result = function(each)
        found.append(result)
    ratios = [signal_to_noise(found[0], each) for each in found[1:]]
    assert most - 25 < min(ratios) < most


def test_attention_with_more_keys_than_values_is_no_call() -> None:
    program = _program("F.scaled_dot_product_attention({t}, {t}, {t}[:2])")
    assert accepted(program, {}, [CALL]) == []
    assert accepted(_program("F.scaled_dot_product_attention({t}, {t}, {t})"), {}, [CALL]) == [CALL]


def test_sizes_of_another_method() -> None:
    """The sizes of the first call, of `step`, are none that `forward` accepts."""
    # the index of the example is in range for all sizes, that of the first call is not
    index = Input("x1", torch.int64, (1,), "index 3", seed=21)
    inputs = (Input("x0", torch.float32, (3,), dynamic=(0,)), index)
    assert (int(make(index)), int(make(replace(index, seed=22)))) == (0, 2)
    rows = (Node("v0", "torch.put(x0, x1, x0[:1])", {}), Node("v1", "x0 * 2", {}, STEP))
    (outcome,) = outcomes(Program(inputs, rows, ("v0",), ("v1",)), [PORTABLE])
    assert outcome.kind == RIGHT, outcome.text


def test_a_failure_is_minimized() -> None:
    program = _program("{t}.exp()", "{t} + 1", "{t}.relu()", "{t}.flip(0)", "{t}.sigmoid()")

    def fails(candidate: Program) -> bool:
        return any("relu" in node.text() for node in candidate.nodes)

    *_, small = minimized(program, fails, time.monotonic() + 60)
    assert [node.template for node in small.nodes] == ["{t}.relu()"]
    assert [each.shape for each in small.inputs] == [(1, 1)]
    text = failure_file(small, Outcome(PORTABLE, "wrong", "text"), 3)
    exec(compile(text, "failure.py", "exec"), {})


def test_candidates_are_tried_in_another_process() -> None:
    program = _program("{t}.exp()", "{t} + 1", "{t}.relu()")
    small = shrunk(program, Outcome(PORTABLE, RIGHT), 60)
    assert not small.nodes and len(small.inputs) == 1
    assert shrunk(program, Outcome(PORTABLE, "wrong"), 60) == program


def test_a_crash_ends_a_search() -> None:
    def values() -> Iterator[int]:
        yield from (1, 2)
        os.abort()

    assert last_of(values(), 60) == [2]
    assert last_of(iter(()), 60) == []


@pytest.mark.parametrize(("job", "kind"), [("crash", CRASH), ("hang", HANG)])
def test_a_crash_or_a_hang_is_an_outcome(job: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.generated.processes.outcomes", _outcomes)
    found = list(results(["", job, ""], _named, (PORTABLE,), seconds=5))
    assert [outcome.kind for _, (outcome,) in found] == [RIGHT, kind, RIGHT]


def _named(job: str) -> Program:
    return Program((X,), (Node("v0", job or "{t}", {"t": "x0"}),), ("v0",))


def _outcomes(program: Program, _targets: object) -> list[Outcome]:
    job = program.nodes[0].template
    if job == "crash":
        os.abort()
    if job == "hang":
        time.sleep(1000)
    return [Outcome(PORTABLE, RIGHT)]


def test_the_run_in_float64_does_not_write_to_the_inputs() -> None:
    written = Input("x0", torch.float64, (3, 4))
    program = Program((written,), (Node("v0", "{t}.mul_(2)", {"t": "x0"}),), ("v0",))
    call = Call("forward", [make(written)])
    expected(program, {}, [call])
    assert torch.equal(call.inputs[0], make(written))
