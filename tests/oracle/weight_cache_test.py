# SPDX-License-Identifier: Apache-2.0
"""Programs of the XNNPACK backend in the stock runtime with its weight cache.

The cache frees all named data once a delegate is loaded, and finds packed weights by their keys. It is one
for all programs of a process.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.quantization.granularity import PerAxis

from delegatec.backends.xnnpack.building import draft
from delegatec.backends.xnnpack.quantized.testing import GroupedLinear
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import weights_of, write_flat_tensors, write_program
from tests.oracle.oracle import OracleProgram
from tests.oracle.weight_cache import with_weight_cache


class Sums(nn.Module):
    """A layer whose bias is read again, and constants of sums and products."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 256)
        self.shift = nn.Parameter(torch.randn(1, 256, 256))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.linear(x) + self.shift, x * self.shift * self.linear.bias


class Twice(nn.Module):
    """Two layers with the same bytes in different shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 32, bias=False)
        self.second = nn.Linear(32, 64, bias=False)
        with torch.no_grad():
            self.second.weight.copy_(self.first.weight.view(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Strides(nn.Module):
    """Two layers with the same parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(16, 16, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.layer(x), nn.functional.conv2d(x, self.layer.weight, self.layer.bias, stride=2)


class EqualQuantized(nn.Module):
    """Two layers with the same quantized values and different scales."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)
        self.second = nn.Linear(64, 64, bias=False)
        with torch.no_grad():
            self.second.weight.copy_(self.first.weight * 4)
        axis = PerAxis(0)
        quantize_(
            self, Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=axis)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.first(x), self.second(x)


class Transposed(nn.Module):
    """A matrix and its transpose in one delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 32) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x @ self.weight, self.weight)


class Apart(nn.Module):
    """Layers of one square matrix in two delegates: the positions between them are integers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64) / 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x @ self.weight
        z = y * (y.argmax(-1, keepdim=True) % 2 + 1)
        return y, nn.functional.linear(z, self.weight), z @ self.weight


def slopes() -> nn.Module:
    return nn.PReLU(64)


def norms() -> nn.Module:
    network = nn.Sequential(nn.Linear(256, 256), nn.LayerNorm(256), nn.Linear(256, 8))
    nn.init.uniform_(network[1].weight)  # type: ignore[arg-type]
    return network


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


def layer() -> nn.Module:
    return nn.Linear(256, 256)


def groups() -> nn.Module:
    network = GroupedLinear((256, 256), 32, has_zeros=True)
    network.values[:, 32:64] = network.values[:, :32]  # two groups with equal quantized values
    return network


CASES: dict[str, tuple[Callable[[], nn.Module], dict[str, tuple[int, ...]]]] = {
    "sums": (Sums, {"forward": (1, 256, 256)}),
    "slopes": (slopes, {"forward": (1, 64, 256)}),
    "norms": (norms, {"forward": (4, 256)}),
    "encoder": (encoder, {"forward": (1, 32, 64)}),
    "two methods of an encoder": (encoder, {"prefill": (1, 32, 64), "step": (1, 1, 64)}),
    "one layer in two methods": (layer, {"prefill": (64, 256), "step": (1, 256)}),
    "groups in two methods": (groups, {"prefill": (64, 256), "step": (1, 256)}),
    "equal bytes": (Twice, {"forward": (4, 64)}),
    "equal parameters": (Strides, {"forward": (1, 16, 20, 20)}),
    "equal quantized values": (EqualQuantized, {"forward": (4, 64)}),
    "transposed": (Transposed, {"forward": (4, 64)}),
    "two delegates": (Apart, {"forward": (4, 64)}),
}


class Program:
    """A network with its program, loaded from memory and from files.

    In memory, equal offsets in a file are equal addresses, by which the runtime identifies data.
    """

    def __init__(self, network: nn.Module, shapes: Mapping[str, Sequence[int]], external: bool) -> None:
        self.network = network.eval()
        self.inputs = {name: torch.randn(shape) for name, shape in shapes.items()}
        programs = {name: export(Model(network, (x,)))["forward"] for name, x in self.inputs.items()}
        self.lowered = lower(programs, "xnnpack", external_weights=external)
        file, data = io.BytesIO(), io.BytesIO()
        write_program(self.lowered.emitted, file)
        write_flat_tensors(weights_of(programs), data)
        with tempfile.TemporaryDirectory() as folder:
            pte, ptd = Path(folder) / "program.pte", Path(folder) / "weights.ptd"
            pte.write_bytes(file.getvalue())
            ptd.write_bytes(data.getvalue())
            self._loaded = [
                OracleProgram(file.getvalue(), data.getvalue() if external else None),
                OracleProgram(pte, ptd if external else None),
            ]
            self.differences()  # loads the methods

    def differences(self) -> dict[str, float]:
        """Returns method -> the largest difference from eager mode."""
        found: dict[str, float] = {}
        for program in self._loaded:
            for name, x in self.inputs.items():
                with torch.no_grad():
                    wanted = self.network(x)
                pairs = zip(
                    program.run([x], name), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
                )
                largest = max(float((result - value).abs().max()) for result, value in pairs)
                found[name] = max(found.get(name, 0.0), largest if largest == largest else float("inf"))
        return found


def differences(network: nn.Module, shapes: Mapping[str, Sequence[int]], external: bool) -> dict[str, float]:
    """Returns method -> the largest difference from eager mode, after all methods are loaded."""
    torch.set_num_threads(1)
    program = Program(network, shapes, external)
    for report in program.lowered.reports.values():
        delegates, rejections = len(report.delegates), report.rejections
        assert (delegates, rejections == []) == ((2, False) if isinstance(network, Apart) else (1, True))
    return program.differences()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("external", [False, True], ids=["in the program", "external weights"])
@pytest.mark.parametrize("name", CASES)
def test_programs_compute_the_same(name: str, external: bool) -> None:
    make, shapes = CASES[name]

    def work() -> None:
        torch.manual_seed(0)
        found = differences(make(), shapes, external)
        limit = 0.02 if make is EqualQuantized else 1e-4  # of quantized rows, rounded in another order
        assert max(found.values()) < limit, found

    with_weight_cache(work)


@pytest.mark.parametrize("make", [Twice, EqualQuantized])
def test_the_cache_is_on(make: Callable[[], nn.Module]) -> None:
    """It mixes equal bytes of two shapes or scales if the key does not depend on the layer."""

    def work() -> None:
        torch.manual_seed(0)
        with mock.patch.object(draft, "layer_key", lambda content, _: content):
            found = differences(make(), {"forward": (4, 64)}, external=False)
        assert found["forward"] > 0.1

    with_weight_cache(work)


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU())


def without_bias() -> nn.Module:
    return nn.Linear(64, 64, bias=False)


def convolution() -> nn.Module:
    """A layer that differs from others in its bias only; its filter is stored in another order."""
    layer = nn.Conv2d(64, 8, 3, padding=1)
    nn.init.constant_(layer.weight, 0.01)
    return nn.Sequential(nn.Unflatten(1, (64, 1, 1)), layer)


@pytest.mark.parametrize("external", [False, True], ids=["in the program", "external weights"])
@pytest.mark.parametrize("make", [linear, without_bias, convolution])
def test_models_share_no_weights_by_name(make: Callable[[], nn.Module], external: bool) -> None:
    def work() -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        programs = [Program(make(), {"forward": (4, 64)}, external) for _ in range(2)]
        found = [program.differences()["forward"] for program in programs]
        assert max(found) < 1e-4, found

    with_weight_cache(work)


class Adapted(nn.Module):
    """A layer, and one whose weight another data file may have."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)
        self.adapter = nn.Linear(64, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.adapter(x)


def test_data_files_of_one_program_are_not_mixed() -> None:
    def work() -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        network, x, pte = Adapted(), torch.randn(4, 64), io.BytesIO()
        model = Model(network, (x,), external_weights=("adapter.weight",))
        programs = export(model)
        write_program(lower(programs, "xnnpack", external_weights=model.external_weights).emitted, pte)
        loaded = []
        for _ in range(2):
            nn.init.normal_(network.adapter.weight)
            data = io.BytesIO()
            write_flat_tensors({"adapter.weight": network.adapter.weight.detach()}, data)
            with torch.no_grad():
                loaded.append((OracleProgram(pte.getvalue(), data.getvalue()), network(x)))
        for program, wanted in loaded * 2:
            torch.testing.assert_close(program.run([x])[0], wanted, rtol=1e-4, atol=1e-4)

    with_weight_cache(work)
