# SPDX-License-Identifier: Apache-2.0
"""Mistakes in calibration data, and in the settings of quantization."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

import numpy
import torch
from mistake import HEAD, Mistake, run
from safetensors.torch import save

# The model has one input, x: float32[2, 3].
_QUANTIZE: Final = "quantize --label=//pkg:net --program=good.pt2 --pt2=net.pt2"
_FILE: Final = f"{_QUANTIZE} --calibration=samples.safetensors"
_FUNCTION: Final = f"{_QUANTIZE} --entry=samples:build --source=pkg/samples.py"


def _array(array: Any) -> bytes:
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def tensors(
    does: str, code: str, *words: str, content: Mapping[str, torch.Tensor], flags: str = ""
) -> Mistake:
    """Samples in a file."""
    files = {"samples.safetensors": save(dict(content))}
    return run(does, code, *words, command=f"{_FILE} {flags}", files=files)


def function(does: str, code: str, *words: str, body: str) -> Mistake:
    """Samples of a function."""
    files = {"pkg/samples.py": f"{HEAD}\ndef build():\n    {body}\n"}
    return run(does, code, *words, command=_FUNCTION, files=files)


_GOOD: Final = {"x": torch.ones(4, 2, 3)}
DATA: Final[tuple[Mistake, ...]] = (
    run("passes no samples", "DC132", "no calibration samples", command=_QUANTIZE),
    run("passes a missing file", "DC131", "no such file", command=_FILE),
    run(
        "passes a web page",
        "DC131",
        "it is a web page",
        command=_FILE,
        files={"samples.safetensors": "<html>"},
    ),
    run(
        "passes pickled objects",
        "DC131",
        "truncated or damaged",
        command=f"{_QUANTIZE} --calibration=a.npy",
        files={"a.npy": _array(numpy.array([{}], dtype=object))},
    ),
    tensors("misspells the input", "DC132", 'input "x" is missing', content={"y": torch.ones(2, 3)}),
    tensors(
        "passes labels, too", "DC132", '"label" is not an input', content={**_GOOD, "label": torch.ones(4)}
    ),
    tensors("numbers the samples", "DC132", 'input "x" is missing', content={"x.0": torch.ones(2, 3)}),
    tensors("stacks no samples", "DC132", "no calibration samples", content={"x": torch.ones(0, 2, 3)}),
    tensors("passes a batch of the model's rows", "DC132", "float32[8, 3]", content={"x": torch.ones(8, 3)}),
    run(
        "passes an image",
        "DC131",
        "unknown format",
        command=f"{_QUANTIZE} --calibration=cat.jpg",
        files={"cat.jpg": b"\xff\xd8\xff"},
    ),
    run("passes a directory", "DC131", "a directory", command=f"{_QUANTIZE} --calibration=pkg"),
    function("returns a dict", "DC133", 'the key "x"', body="return {'x': torch.ones(2, 3)}"),
    function(
        "returns an array",
        "DC132",
        "ndarray",
        body="return [(__import__('numpy').ones((2, 3), 'float32'),)]",
    ),
    function("adds labels", "DC132", "2 values", body="return [(torch.ones(2, 3), torch.ones(2))]"),
    function(
        "batches samples with a data loader",
        "DC132",
        "float32[1, 2, 3]",
        body="return torch.utils.data.DataLoader(torch.ones(4, 2, 3))",
    ),
    tensors("passes another shape", "DC132", "float32[2, 4]", content={"x": torch.ones(2, 4)}),
    tensors("passes another dtype", "DC132", "float64[2, 3]", content={"x": torch.ones(9, 2, 3).double()}),
    tensors("passes NaN", "DC132", "NaN", content={"x": torch.full((2, 3), torch.nan)}),
    tensors(
        "passes zeros",
        "DC132",
        "the calibration samples are all zero",
        content={"x": torch.zeros(4, 2, 3)},
    ),
    function(
        "returns the samples as one tensor", "DC133", "returns a Tensor", body="return torch.ones(9, 2, 3)"
    ),
    function("forgets to return samples", "DC133", "returns None", body="pass"),
    function("returns too many arguments", "DC132", "it has 2 values", body="return [(torch.ones(2, 3), 1)]"),
    function("raises while samples are read", "DC106", "list index", body="yield torch.ones(2, 3); [][0]"),
)
SETTINGS: Final[tuple[Mistake, ...]] = (
    run(
        "writes settings in words of other tools",
        "DC130",
        "did you mean 'tensor'?",
        "group_size = -1",
        'observer = "entropy"',
        command=f"{_QUANTIZE} --weight-scales=per-tensor --group-size=-1 --observer=entropy",
        lines=9,
    ),
    run(
        "requests groups with samples",
        "DC136",
        "group_size = 32 needs activation",
        command=f"{_QUANTIZE} --group-size=32",
    ),
    run(
        "keeps a class, and an operator without its namespace, in float",
        "DC130",
        'no module "Linear"',
        "did you mean 'aten.linear'?",
        command=f"{_QUANTIZE} --activation=float --float-module=Linear --float-operator=linear",
        lines=8,
    ),
    run(
        "quantizes over the model in float",
        "DC004",
        "the same file as --program",
        command="quantize --program=good.pt2 --pt2=good.pt2 --activation=float",
    ),
    run(
        "quantizes a .pte",
        "DC120",
        "it is a .pte program",
        command="quantize --program=good.pte --pt2=net.pt2 --activation=float",
    ),
    tensors("misspells a dtype", "DC130", "did you mean", content=_GOOD, flags="--activation=int32"),
    tensors("requests int4 activations", "DC130", "int16", content=_GOOD, flags="--activation=int4"),
    run(
        "requests groups of float16 with samples",
        "DC136",
        'group_size = 32 needs activation = "dynamic_int8" or "float", not "int8"',
        'group_size = 32 needs weight = "int8" or "int4", not "float16"',
        'weight = "float16" needs activation = "float", not "int8"',
        command=f"{_QUANTIZE} --weight=float16 --group-size=32",
    ),
    run(
        "passes samples for a range that is chosen at run time",
        "DC136",
        'calibration needs activation = "int8" or "int16", not "dynamic_int8"',
        'ranges = "symmetric" needs',
        command=f"{_FILE} --activation=dynamic_int8 --ranges=symmetric",
    ),
    run(
        "requests groups of a size that does not divide the inputs, and misspells a module",
        "DC130",
        'float_modules: the model has no module "head"',
        'group_size = 2 does not divide the 3 inputs of "linear.weight"',
        command=f"{_QUANTIZE} --activation=float --weight=int4 --group-size=2 --float-module=head",
    ),
    tensors(
        "expects more accuracy than int8 has",
        "DC137",
        "expected: at least minimum_snr_db = 120",
        content={"x": torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))},
        flags="--minimum-snr-db=120",
    ),
    run(
        "names a source without a function",
        "DC001",
        "expected --entry",
        command=f"{_QUANTIZE} --source=a.py",
        exit=2,
    ),
)
_METRIC: Final = "def mean(outputs, label):\n    return outputs.mean()\n"


def _search(does: str, code: str, *words: str, flags: str, metric: str = _METRIC, rows: int = 4) -> Mistake:
    """A limit of the loss, with a metric and a dataset, that a search does not take."""
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(4, 2, 3, generator=generator)
    files = {
        "samples.safetensors": save({"x": samples}),
        "net.safetensors": save({"0": samples[:rows], "labels": torch.zeros(rows)}),
        "net_metrics.py": metric,
    }
    command = f"{_FILE} --import-path=. {flags}"
    return run(does, code, *words, command=command, files=files, exit=2 if code == "DC001" else 1)


_BY_METRIC: Final = "--maximum-loss=0.01 --metric=net_metrics:mean --dataset=net.safetensors"
SEARCH: Final[tuple[Mistake, ...]] = (
    _search(
        "allows no loss at all",
        "DC139",
        "maximum_loss is not met: with 0 of 2 layers in float",
        "expected: at most 0 less",
        flags="--maximum-loss=0",
    ),
    _search(
        "searches with a metric that divides by zero",
        "DC521",
        "returns nan for the model in float, sample 0",
        flags=_BY_METRIC,
        metric="def mean(outputs, label):\n    return outputs.mean() / 0 - outputs.mean() / 0\n",
    ),
    _search(
        "searches with a metric that draws random numbers",
        "DC521",
        "for the same outputs",
        flags=_BY_METRIC,
        metric="from itertools import count\nN = count()\ndef mean(outputs, label):\n    return next(N)\n",
    ),
    _search(
        "searches with a metric that does not exist",
        "DC521",
        "did you mean 'mean'?",
        flags="--maximum-loss=0.01 --metric=net_metrics:meen --dataset=net.safetensors",
    ),
    _search("searches with no samples", "DC521", "the dataset has no samples", flags=_BY_METRIC, rows=0),
    _search(
        "searches with samples as the dataset",
        "DC521",
        "dataset samples.safetensors: it has the tensors x",
        flags="--maximum-loss=0.01 --metric=net_metrics:mean --dataset=samples.safetensors",
    ),
    _search(
        "limits the loss by a word",
        "DC001",
        "--maximum-loss",
        flags="--maximum-loss=low",
    ),
    _search(
        "searches with a metric and no dataset",
        "DC001",
        "--metric: expected --dataset or --dataset-entry as well",
        flags="--maximum-loss=0.01 --metric=net_metrics:mean",
    ),
    _search(
        "passes a metric without a limit",
        "DC001",
        "--metric has no effect without --maximum-loss",
        flags="--metric=net_metrics:mean",
    ),
    _search(
        "says what a metric is over, and no metric",
        "DC001",
        "--metric-over has no effect without --metric",
        flags="--maximum-loss=0.01 --metric-over=dataset --dataset=net.safetensors",
    ),
    run(
        "limits the loss of layers without samples",
        "DC001",
        "--maximum-loss without calibration samples: expected --dataset",
        command=f"{_QUANTIZE} --activation=dynamic_int8 --maximum-loss=0.01",
        exit=2,
    ),
)
TABLE: Final = {
    "Calibration data": DATA,
    "Settings of quantization": SETTINGS,
    "Layers in float": SEARCH,
}
