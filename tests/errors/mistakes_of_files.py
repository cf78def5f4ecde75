# SPDX-License-Identifier: Apache-2.0
"""Wrong, damaged and foreign files; programs that cannot be lowered or verified."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from mistake import HEAD, Mistake, net, run
from safetensors.torch import save

_LOWER: Final = "lower --label=//pkg:net --program=a.pt2 --pte=net.pte"
_MODELS: Final = Path(__file__).parent / "models"


def _cut(source: str, size: int, target: str) -> Callable[[], object]:
    return lambda: Path(target).write_bytes(Path(source).read_bytes()[:size])


def _damaged(source: str, position: int, target: str) -> Callable[[], object]:
    def write() -> None:
        content = bytearray(Path(source).read_bytes())
        content[position : position + 2] = b"\xff\xff"
        Path(target).write_bytes(content)

    return write


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/b", "c")
    return file.getvalue()


def foreign(does: str, *words: str, **more: object) -> Mistake:
    """A file that is not a `.pt2`."""
    return run(does, "DC120", "a.pt2", *words, command=_LOWER, **more)


FILES: Final[tuple[Mistake, ...]] = (
    foreign("passes an empty file", "it is empty", files={"a.pt2": ""}),
    foreign("passes a web page", "it is a web page", files={"a.pt2": "<html>404 Not Found</html>"}),
    foreign(
        "passes a Git LFS pointer",
        "git lfs pull",
        files={"a.pt2": "version https://git-lfs.github.com/spec/v1\n"},
    ),
    foreign("passes the source", "unknown format", files={"a.pt2": HEAD}),
    foreign("passes another zip file", "archive_format is missing", files={"a.pt2": _zip()}),
    foreign("passes a truncated .pt2", "not a zip file", before=_cut("good.pt2", 900, "a.pt2")),
    foreign("passes a checkpoint", "a checkpoint", before=lambda: torch.save({"a": torch.ones(2)}, "a.pt2")),
    foreign(
        "passes a TorchScript file",
        "a TorchScript file",
        before=lambda: torch.jit.save(torch.jit.script(torch.nn.ReLU()), "a.pt2"),
    ),
    foreign("passes a damaged .pt2", "wrong checksum", before=_damaged("good.pt2", 900, "a.pt2")),
    run(
        "passes a .pte as the .pt2",
        "DC120",
        "it is a .pte program",
        command="lower --program=good.pte --pte=net.pte",
    ),
    run(
        "passes a .ptd as the .pt2",
        "DC120",
        "it is a .ptd data file",
        command="lower --program=good.ptd --pte=net.pte",
    ),
    run(
        "swaps two files", "DC120", "it is a .pte program", command="verify --program=good.pte --pte=good.pt2"
    ),
    run(
        "passes a .pt2 as the .pte",
        "DC350",
        "such as a .pt2",
        command="verify --program=good.pt2 --pte=good.pt2",
    ),
    run(
        "passes a .ptd as the .pte",
        "DC350",
        "a .ptd data file",
        command="verify --program=good.pt2 --pte=good.ptd",
    ),
    run(
        "passes a .pte as the .ptd",
        "DC350",
        "a .pte program",
        command="verify --program=good.pt2 --pte=external.pte --ptd=good.pte",
    ),
    run(
        "passes an empty .pte",
        "DC350",
        "it is empty",
        command="verify --program=good.pt2 --pte=a",
        files={"a": ""},
    ),
    run("inspects any file", "DC350", "unknown file format", command="inspect good.py"),
    run(
        "passes a truncated .pte",
        "DC351",
        "has 700 bytes",
        command="inspect a.pte",
        before=_cut("mps.pte", 700, "a.pte"),
    ),
    run(
        "passes a .pte of 20 bytes",
        "DC351",
        "ends at byte 20",
        command="inspect a.pte",
        before=_cut("mps.pte", 20, "a.pte"),
    ),
    run(
        "passes a truncated .ptd",
        "DC351",
        "has 100 bytes",
        command="inspect a.ptd",
        before=_cut("good.ptd", 100, "a.ptd"),
    ),
    run(
        "passes a damaged .pte",
        "DC352",
        "points out of bounds",
        command="inspect a.pte",
        before=_damaged("mps.pte", 0, "a.pte"),
        recorded=False,
    ),
    run(
        "passes a damaged blob",
        "DC407",
        "MPS",
        command="inspect a.pte --blobs",
        before=_damaged("mps.pte", 1030, "a.pte"),
        recorded=False,
    ),
    run(
        "forgets the .ptd", "DC360", "--ptd=FILE.ptd", command="verify --program=good.pt2 --pte=external.pte"
    ),
)


def program(name: str, does: str, code: str, *words: str, flags: str = "", **more: object) -> Mistake:
    """A model of `models` that exports, and cannot be lowered."""
    export = ("export", f"--entry={name}:build", f"--source=pkg/{name}.py", "--program=a.pt2")
    return run(does, code, *words, command=f"{_LOWER} {flags}", first=export, **more)


def source(forward: str, does: str, code: str, *words: str, flags: str = "", **more: object) -> Mistake:
    """A `forward` that exports, and cannot be lowered."""
    files = {"pkg/net.py": net(forward)}
    return program("net", does, code, *words, flags=flags, files=files, **more)


PROGRAMS: Final[tuple[Mistake, ...]] = (
    program(
        "unsupported_operator",
        "calls operators without a kernel",
        "DC201",
        "linalg_qr",
        "torch.frexp(x).mantissa",
        lines=12,
    ),
    program("complex_values", "decomposes complex matrices", "DC202", "linalg_svdvals", "complex"),
    program(
        "half_overflow",
        "stores weights that float16 cannot",
        "DC406",
        "large",
        "1e+09",
        flags="--backend=mps --option=precision=fp16",
        lines=12,
    ),
    program(
        "window_attention",
        "lets the runtime own a cache with a window",
        "DC426",
        "the mask of its attention is not known to allow all rows up to each token",
        flags="--backend=mlx --option=kv_cache=runtime",
    ),
    source(
        "return x.long() * 3_000_000_000",
        "multiplies by an integer that int32 cannot store",
        "DC406",
        "3000000000",
        "block_operators",
        flags="--backend=vulkan",
    ),
    program(
        "partly_delegated",
        "requires what the backend cannot",
        "DC405",
        "rand",
        flags="--backend=mps --require-full-delegation",
    ),
    source(
        "return x + 1, x",
        "requires that an input is returned by a delegate",
        "DC417",
        "aten::clone.out",
        flags="--backend=mps --require-full-delegation",
    ),
    source("return torch.unique(x)", "finds unique values", "DC201", "sort and a comparison"),
    source(
        "return torch.linalg.svd(x)", "computes a singular value decomposition", "DC201", "a factorization"
    ),
    source("return torch.bincount(x.long().reshape(-1))", "counts values", "DC201", "one_hot", lines=12),
    source(
        "return torch.view_as_complex(x[:, :2].contiguous())",
        "returns complex numbers",
        "DC202",
        "view_as_real",
    ),
    source("return x.to(torch.float8_e4m3fn).float()", "computes in float8", "DC202", "float8_e4m3fn"),
    source(
        "n = x.long().sum().item()\nreturn torch.zeros(n)",
        "makes a tensor of unbounded size",
        "DC203",
        "torch._check",
    ),
    source("return (x + torch.zeros([1] * 20)).sum()", "uses 20 dimensions", "DC215", "at most 16", lines=12),
    run(
        "verifies with the seed of another export",
        "DC502",
        "elements are wrong",
        command="verify --program=a.pt2 --pte=good.pte",
        first=("export", "--entry=good:build", "--source=good.py", "--seed=1", "--program=a.pt2"),
        lines=16,
        recorded=False,
    ),
    run(
        "verifies with the samples of another export",
        "DC502",
        "the module itself returned",
        "from one export",
        command="verify --program=good.pt2 --pte=good.pte --samples-file=a.samples.safetensors",
        first=("export", "--entry=good:build", "--source=good.py", "--seed=1", "--program=a.pt2"),
        lines=16,
        recorded=False,
    ),
    run(
        "passes weights as samples of the model",
        "DC131",
        "it has no calls",
        command="verify --program=good.pt2 --pte=good.pte --samples-file=weights.safetensors",
        files={"weights.safetensors": save({"a": torch.ones(1)})},
    ),
    run(
        "tolerates everything",
        "DC508",
        "zeros would pass",
        command="verify --program=good.pt2 --pte=good.pte --atol=100",
    ),
)

TABLE: Final = {"In files": FILES, "In programs": PROGRAMS}
