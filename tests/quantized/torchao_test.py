# SPDX-License-Identifier: Apache-2.0
"""Models that torchao quantizes, from torch.export to files, against the quantized model in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torchao.kernel import intmm
from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    MappingType,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup

from delegatec import Method, Model
from delegatec.edge import to_edge
from delegatec.edge.printer import print_program
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from tests.oracle.oracle import run
from tests.quantized.checks import check

GROUPS, ROWS = PerGroup(32), PerAxis(0)
ASYMMETRIC: Final = MappingType.ASYMMETRIC


def _intx(bits: int, **options: Any) -> IntxWeightOnlyConfig:
    return IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{bits}"), **options)


def _dynamic(**options: Any) -> Int8DynamicActivationIntxWeightConfig:
    return Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, **options)


WEIGHTS: Final[dict[str, Callable[[], Any]]] = {
    "int8": Int8WeightOnlyConfig,
    # of one bit all values are zero
    **{f"int{bits} groups": lambda bits=bits: _intx(bits, granularity=GROUPS) for bits in range(2, 9)},  # type: ignore[misc]
    **{
        f"int{bits} rows, zero points": lambda bits=bits: _intx(  # type: ignore[misc]
            bits, granularity=ROWS, mapping_type=ASYMMETRIC
        )
        for bits in range(1, 9)
    },
    "float8": Float8WeightOnlyConfig,
}
ACTIVATIONS: Final[dict[str, Callable[[], Any]]] = {
    "int8, int8": Int8DynamicActivationInt8WeightConfig,
    "8da4w": lambda: _dynamic(weight_granularity=GROUPS),
    "8da4w rows": lambda: _dynamic(weight_granularity=ROWS),
    "8da4w zero points": lambda: _dynamic(weight_granularity=GROUPS, weight_mapping_type=ASYMMETRIC),
    "8da4w bfloat16 scales": lambda: _dynamic(weight_granularity=GROUPS, weight_scale_dtype=torch.bfloat16),
}
CONFIGS: Final = {**WEIGHTS, **ACTIVATIONS}


class Layers(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.narrow = nn.Linear(64, 96), nn.Linear(96, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.narrow(torch.relu(self.wide(x)))
        return result


class Words(nn.Module):
    """An embedding and a head, which may be the same weight."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = nn.Embedding(48, 64), nn.Linear(64, 48, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.head(self.words(tokens))
        return result


X: Final = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(1))
TOKENS: Final = torch.tensor([[3, 47, 0, 3]])


def _quantized(module: nn.Module, config: Any, embeddings: bool = False) -> nn.Module:
    kinds = (nn.Linear, nn.Embedding) if embeddings else nn.Linear
    quantize_(module.eval(), config, lambda layer, name: isinstance(layer, kinds))
    return module


@pytest.mark.parametrize("name", CONFIGS)
def test_linear_layers(name: str, tmp_path: Path) -> None:
    """Found: 3e-7; and where activations are quantized, equal but for the order of sums."""
    module = _quantized(Layers(), CONFIGS[name]())
    check(module, (X,), tmp_path, {"portable": 2e-6, "mlx": 1e-5, "mps": 1e-5, "vulkan": 1e-5})


@pytest.mark.parametrize("name", ["int8", "int4 groups", "8da4w", "int8, int8"])
def test_dynamic_shapes(name: str, tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", min=1, max=16)
    others = tuple((torch.randn(2, rows, 64),) for rows in (3, 16))
    module = _quantized(Layers(), CONFIGS[name]())
    check(module, (X,), tmp_path, {"portable": 2e-6}, others, dynamic_shapes=({1: rows},))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "name", ["int8", "int3 rows, zero points", "int4 groups", "float8", "8da4w", "int8, int8"]
)
def test_half_precision(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Found: equal in the runtime. MPS lacks bfloat16, and rounds float16 at other points."""
    module = _quantized(Layers().to(dtype), CONFIGS[name]())
    tolerance = {"portable": 1e-2}
    if dtype is torch.float16:
        tolerance["mps"] = 2e-2 if name in ACTIVATIONS else 5e-3
    check(module, (X.to(dtype),), tmp_path, tolerance)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", ["int8", "int2 rows, zero points", "int4 groups", "int8 groups", "float8"])
def test_embeddings(name: str, tied: bool, tmp_path: Path) -> None:
    module = _quantized(Words(tied), CONFIGS[name](), embeddings=True)
    if tied:
        module.head.weight = module.words.weight
    sizes = check(module, (TOKENS,), tmp_path, {"portable": 2e-6, "mlx": 1e-5, "mps": 1e-5, "vulkan": 1e-5})
    if tied and name.startswith("int") and name != "int8":
        assert sizes["portable"] < 48 * 64 + 48 * 8 + 6000


@pytest.mark.parametrize("bits", range(1, 8))
def test_weights_take_their_bits(bits: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = _quantized(nn.Linear(512, 256), CONFIGS[f"int{bits} rows, zero points"]())
    sizes = check(module, (torch.randn(3, 512),), tmp_path, {"portable": 5e-6})
    stored = 8 if bits == 7 else bits
    assert 0 < sizes["portable"] - 256 * 512 * stored / 8 < 16000


@pytest.mark.parametrize("name", ["int4 groups", "8da4w", "8da4w rows", "8da4w bfloat16 scales"])
def test_mps_packs_four_bits(name: str, tmp_path: Path) -> None:
    """Scales are float16. An activation takes 6 kB of operations, for a layer of any size."""
    torch.manual_seed(0)
    module = _quantized(nn.Linear(512, 256), CONFIGS[name]())
    x = (torch.randn(3, 512),)
    sizes = check(module, x, tmp_path, {"mps": 2e-2 if name in ACTIVATIONS else 2e-3}, int4="packed")
    assert 0 < sizes["mps"] - 256 * 512 // 2 < (20000 if name in ACTIVATIONS else 12000)


def test_large_float8_weights_are_float16(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = _quantized(nn.Linear(256, 160), Float8WeightOnlyConfig())
    sizes = check(module, (torch.randn(2, 256),), tmp_path, {"portable": 5e-6, "mlx": 1e-5, "mps": 1e-5})
    assert max(sizes.values()) < 256 * 160 * 2 + 4000


def test_an_embedding_dequantizes_the_rows_that_it_reads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = _quantized(nn.Embedding(4096, 64), CONFIGS["int4 groups"](), embeddings=True)
    check(module, (TOKENS,), tmp_path, {"portable": 2e-6, "mlx": 1e-5, "mps": 1e-5, "vulkan": 1e-5})
    assert sum(read_program(tmp_path / "portable.pte").method("forward").arena_bytes) < 8192


def test_methods_share_packed_weights(tmp_path: Path) -> None:
    class Twice(nn.Linear):
        def other(self, x: Tensor) -> Tensor:
            return super().forward(x).relu()

    torch.manual_seed(0)
    x = (torch.randn(2, 512),)
    module = Twice(512, 256).eval()
    quantize_(module, CONFIGS["int4 groups"]())
    archive.save(export(Model(module, x, methods={"other": Method("other", x)})), str(tmp_path / "model.pt2"))
    loaded = archive.load(str(tmp_path / "model.pt2"))
    with (tmp_path / "model.pte").open("wb") as file:
        write_program(lower(loaded.methods).emitted, file, [loaded.file])
    assert (tmp_path / "model.pte").stat().st_size < 512 * 256 // 2 + 32000
    for method, function in (("forward", module), ("other", module.other)):
        (result,) = run(tmp_path / "model.pte", x, method)
        torch.testing.assert_close(result, function(*x), rtol=0, atol=1e-5)


def test_weights_keep_their_names() -> None:
    module = _quantized(Layers(), CONFIGS["8da4w"]())
    (program,) = export(Model(module, (X,))).values()
    parts = [
        f"{layer}.weight.{part}" for layer in ("wide", "narrow") for part in ("qdata", "scale", "zero_point")
    ]
    assert sorted(program.state_dict) == sorted([*parts, "wide.bias"])


def test_a_program_does_not_need_torchao(tmp_path: Path) -> None:
    """It is lowered where torchao is not installed."""
    for name in ("8da4w", "int8, int8", "int4 groups", "float8"):
        module = _quantized(Words().requires_grad_(False), CONFIGS[name](), embeddings=name == "int4 groups")
        (program,) = export(Model(module, (TOKENS,))).values()
        called = {
            node.target.namespace for node in program.graph.nodes if isinstance(node.target, OpOverload)
        }
        assert called <= {"aten", "quantized_decomposed", "delegatec"}


def test_the_program_is_that_of_any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchao computes int8 products from uint8 on some CPUs."""
    texts = []
    for is_supported in (False, True):
        monkeypatch.setattr(intmm, "_cpu_is_amx_tile_supported", lambda: False)
        monkeypatch.setattr(intmm, "_cpu_is_vnni_supported", lambda: is_supported)  # noqa: B023
        (program,) = export(Model(_quantized(Layers(), CONFIGS["int8, int8"]()), (X,))).values()
        texts.append([line.partition("  #")[0] for line in print_program(to_edge(program)).splitlines()])
    assert not any("u8" in line for line in texts[0])
    assert texts[0] == texts[1]
