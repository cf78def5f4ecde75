# SPDX-License-Identifier: Apache-2.0
"""Calibration data, and diagnostics of invalid data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.samples import (
    Samples,
    check_samples,
    listed,
    samples_of_files,
    samples_of_function,
)
from delegatec.quantize.settings import Settings


class Two(nn.Module):
    def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
        return x * scale


class Sum(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y.sum()


_TWO = export(Model(Two(), (torch.ones(2, 3),), {"scale": torch.ones(3)}))
_ONE = export(Model(nn.ReLU(), (torch.ones(2, 3),)))
_METHODS = export(Model(nn.ReLU(), (torch.ones(2, 3),), methods={"one": (torch.ones(1, 3),)}))
_ROW = export(Model(nn.ReLU(), (torch.ones(1, 3),)))
_X, _SCALE = torch.rand(4, 2, 3), torch.rand(4, 3)


def _files(folder: Path, methods: Any, *contents: Any) -> Samples:
    paths = []
    for number, content in enumerate(contents):
        path = folder / (f"{number}.safetensors" if isinstance(content, dict) else f"{number}.npy")
        if isinstance(content, dict):
            save_file({name: tensor.contiguous() for name, tensor in content.items()}, path)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            numpy.save(path, content.numpy())
        paths.append(str(path))
    return samples_of_files(paths, methods)


def test_stacked_and_single_samples(tmp_path: Path) -> None:
    samples = _files(tmp_path, _TWO, {"x": _X, "scale": _SCALE}, {"x": _X[0], "scale": _SCALE[0]})["forward"]
    assert len(samples) == 5
    for number, ((x,), keywords) in enumerate(samples):
        assert torch.equal(x, _X[number % 4]) and torch.equal(keywords["scale"], _SCALE[number % 4])


def test_an_array_is_the_only_input(tmp_path: Path) -> None:
    samples = _files(tmp_path, _ONE, _X, _X[1])["forward"]
    assert [arguments[0].tolist() for arguments, _ in samples] == [*_X.tolist(), _X[1].tolist()]


def test_names_of_other_methods_have_a_prefix(tmp_path: Path) -> None:
    samples = _files(tmp_path, _METHODS, {"input": _X, "one.input": torch.rand(2, 1, 3)})
    assert {name: len(group) for name, group in samples.items()} == {"forward": 4, "one": 2}


def test_samples_may_have_masks_of_negative_infinity(tmp_path: Path) -> None:
    masks = torch.where(_X > 0.5, -math.inf, 0.0)
    ((sample, *_),) = _files(tmp_path, _ONE, {"input": masks}).values()
    assert torch.equal(sample[0][0], masks[0])


@pytest.mark.parametrize(
    ("methods", "content", "words"),
    [
        (_TWO, {"x": _X}, 'DC132.*input "scale" is missing'),
        (_TWO, {"x": _X, "scal": _SCALE}, "did you mean 'scale'?"),
        (_TWO, {"x": _X, "scale": _SCALE[:2]}, '"scale" has 2, "x" has 4'),
        (_TWO, {"x": _X[0], "scale": _SCALE}, '"scale" has 4, "x" has 1'),
        (_TWO, {"x": _X.double(), "scale": _SCALE}, '"x" is float64[2, 3], and the input is float32[2, 3]'),
        (_TWO, {"x": _X[:, :, :2], "scale": _SCALE}, 'sample 0: "x" is float32[2, 2]'),
        (_ROW, {"input": _X[:, 0]}, "for 4 samples, add a first dimension"),
        (_ONE, {"input": _X / 0 * 0}, 'sample 0: "input" has NaN or infinity'),
        (_ONE, {"input": _X + math.inf}, 'sample 0: "input" has NaN or infinity'),
        (_TWO, _X, "DC131.*it has one array, but the model has the inputs x, scale"),
        (_METHODS, _X, "DC131.*it has one array, but the model has the inputs 2 methods"),
        (_ONE, b"", "DC131.*0.npy: it is empty"),
        (_ONE, b"<html>", "DC131.*it is a web page"),
        (_ONE, b"\x93NUMPY\x01\x00", "DC131.*it is truncated or damaged"),
    ],
)
def test_invalid_files(methods: Any, content: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(DelegatecError) as caught:
        _files(tmp_path, methods, content)
    code, _, rest = words.rpartition(".*")
    text = str(caught.value)
    assert code in text and rest in text, text


def test_all_files_are_checked(tmp_path: Path) -> None:
    with pytest.raises(DelegatecError) as caught:
        samples_of_files([str(tmp_path), str(tmp_path / "missing.npy")], _ONE)
    assert [problem.code for problem in caught.value.diagnostics] == ["DC131", "DC131"]
    assert "it is a directory" in str(caught.value) and "no such file" in str(caught.value)


@pytest.mark.parametrize(
    ("methods", "result", "count"),
    [
        (_ONE, (x for x in _X), {"forward": 4}),
        (_ONE, [(_X[0],), {"input": _X[1]}], {"forward": 2}),
        (_TWO, [(_X[0], _SCALE[0]), {"x": _X[0], "scale": _SCALE[0]}], {"forward": 2}),
        (_METHODS, {"forward": iter(_X), "one": [_X[0, :1]]}, {"forward": 4, "one": 1}),
    ],
)
def test_results_of_functions(methods: Any, result: Any, count: dict[str, int]) -> None:
    samples = samples_of_function(listed(result), methods, None)
    assert {name: len(group) for name, group in samples.items()} == count


@pytest.mark.parametrize(
    ("methods", "result", "words"),
    [
        (_ONE, None, "DC133.*returns None"),
        (_ONE, _X, "DC133.*returns a Tensor"),
        (_ONE, {"two": [_X]}, 'DC133.*a dict with the key "two"'),
        (_ONE, [_X], 'sample 0: "input" is float32[4, 2, 3]'),
        (_ONE, [_X[0], 3], '"input" is of type int, not a tensor'),
        (_ONE, [(_X[0], _X[0])], "it has 2 values, but the method has the inputs input"),
        (_TWO, [{"x": _X[0]}], 'input "scale" is missing'),
    ],
)
def test_invalid_results_of_functions(methods: Any, result: Any, words: str) -> None:
    with pytest.raises(DelegatecError) as caught:
        samples_of_function(listed(result), methods, None)
    code, _, rest = words.rpartition(".*")
    text = str(caught.value)
    assert code in text and rest in text, text


def test_each_method_needs_samples(tmp_path: Path) -> None:
    with pytest.raises(DelegatecError, match=r"DC132.*no calibration samples for method one"):
        check_samples(_files(tmp_path, _METHODS, {"input": _X}), _METHODS)


_ZEROS = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("examples", "samples", "words"),
    [
        # All zero, for any example.
        ((_X[0], _X[1]), [(_ZEROS, _ZEROS)] * 2, ["the calibration samples are all zero"]),
        ((_ZEROS, _ZEROS), [(_ZEROS, _ZEROS)], ["the calibration samples are all zero"]),
        # One of the inputs, which the example shows to have a range.
        (
            (_X[0], _X[1]),
            [(_X[2], _ZEROS), (_X[3], _ZEROS)],
            ['the input "y" in the calibration samples are 0'],
        ),
        ((_X[0], _X[1]), [(_ZEROS + 2, _X[2])], ['the input "x" in the calibration samples are 2']),
        ((_X[0], _X[1]), [(_ZEROS + 2, _ZEROS + 3)], ['input "x"', 'input "y"']),
        # Values that differ between samples, a mask of zeros, a factor of one element, numbers of rows.
        ((_X[0], _X[1]), [(_ZEROS, _X[0]), (_ZEROS + 1, _X[0])], []),
        ((_X[0], _ZEROS), [(_X[0], _ZEROS)], []),
        ((_X[0], torch.tensor([0.5])), [(_X[0], torch.tensor([0.5]))], []),
        ((_X[0], torch.tensor([0, 1])), [(_X[0], torch.tensor([0, 0]))], []),
    ],
)
def test_samples_without_a_range(
    examples: tuple[Tensor, Tensor], samples: list[tuple[Tensor, Tensor]], words: list[str]
) -> None:
    methods = export(Model(Sum(), examples))
    group: Samples = {"forward": [(sample, {}) for sample in samples]}
    if not words:
        check_samples(group, methods)
        return
    with pytest.raises(DelegatecError) as caught:
        check_samples(group, methods)
    problems = caught.value.diagnostics
    assert [problem.code for problem in problems] == ["DC132"] * len(words)
    assert all(word in problem.message for word, problem in zip(words, problems, strict=True))


def test_unknown_settings() -> None:
    with pytest.raises(DelegatecError) as caught:
        Settings(activation="int9", observer="histo")
    assert [problem.code for problem in caught.value.diagnostics] == ["DC130", "DC130"]
    assert "did you mean 'int8'?" in str(caught.value)
