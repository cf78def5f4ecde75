# SPDX-License-Identifier: Apache-2.0
"""The kinds of files that the compiler reads: a good file of each, and the commands that read it."""

from __future__ import annotations

import os
import shutil
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy
import torch
from safetensors.torch import save_file

import delegatec.profile
from delegatec.backends import builtin_backends
from delegatec.cli.main import run_verb
from delegatec.delegation import Backend, plugins
from delegatec.frontend import archive
from delegatec.frontend.export import export, export_with_samples
from delegatec.frontend.model import Model
from delegatec.frontend.samples_file import save_samples
from delegatec.language.speech.recording import read_recording
from delegatec.language.vision.images import ImageFormat
from delegatec.language.vision.ppm import read_image
from delegatec.lowering import lower
from delegatec.program.reader import read_program
from delegatec.quantize.samples import samples_of_files
from delegatec.verify.verification import verify_program
from tests.damage.mutations import (
    Mutation,
    mutated_archive,
    mutated_bytes,
    mutated_document,
    mutated_npy,
    mutated_safetensors,
)

# Instead of the damaged file, in a command.
FILE: Final = "FILE"
Reader = Callable[[str], object]
X: Final = torch.linspace(-1, 2, 32).reshape(1, 2, 4, 4)


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: the name.
        file: a good file.
        mutation: how it is damaged.
        readers: command lines, separated by spaces, and functions of a path.
    """

    name: str
    file: str
    mutation: Mutation
    readers: tuple[str | Reader, ...]


class Net(torch.nn.Module):
    """Layers that every backend delegates."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3)
        self.linear = torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.linear(self.conv(x).relu().flatten(1))


class Stateful(torch.nn.Module):
    """State, control flow, dynamic sizes, and several results."""

    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor, *, scale: float) -> dict[str, Any]:
        self.steps.add_(1)
        a, b = self.linear(x).split(2, dim=1)[:2]
        c = torch.cond(self.steps.sum() > 2, torch.relu, torch.neg, (a,))
        return {"c": c.softmax(-1) * scale, "d": [b.transpose(1, 2).reshape(-1, 2).mean(0), self.steps + 0]}


def prepared(folder: Path) -> list[Kind]:
    """Writes a good file of each kind to a folder, which becomes the working directory."""
    os.chdir(folder)
    torch.manual_seed(0)
    exported = export_with_samples(Model(Net(), (X,)))
    archive.save(exported.programs, "net.pt2")
    save_samples(exported.samples, "net.samples.safetensors")
    dims = {"x": {0: torch.export.Dim("rows", min=2, max=8)}, "scale": None}
    stateful = Model(Stateful(), (torch.ones(3, 6, 6),), {"scale": 0.5}, dims)
    archive.save(export(stateful), "stateful.pt2", {"size": (1, 2.0, torch.ones(2))})
    save_file({"x": X.repeat(2, 1, 1, 1, 1)}, "samples.safetensors")
    numpy.save("samples.npy", X.repeat(2, 1, 1, 1, 1).numpy())
    names = ("portable", "xnnpack", "vulkan", "mlx", "mps", "tosa", "ethos_u", "vgf")
    _run("quantize --label=net --program=net.pt2 --calibration=samples.npy --pt2=int8.pt2")
    lowered = [name for name in names if _lowered(name)]
    _run("lower --label=net --program=net.pt2 --pte=shared.pte --external-weights")
    _run("weights --label=net --program=net.pt2 --ptd=net.ptd")
    kinds = [*_models(), *_programs(lowered), *_documents(lowered), *_samples(), _recorded_run(), *_inputs()]
    return [kind for kind in kinds if Path(kind.file).exists()]


def _run(command: str) -> bool:
    return run_verb(command.split()) == 0


def _lowered(name: str) -> bool:
    """Lowers a model for a backend; False if its tools are not available."""
    program = "int8.pt2" if name == "ethos_u" else "net.pt2"
    flags = f"--pte={name}.pte --manifest={name}.json --debug={name}.debug.json --ir={name}.txt"
    return _run(f"lower --label=net --program={program} --backend={name} {flags}")


def _models() -> list[Kind]:
    def lowered(*backends: str) -> Reader:
        def read(path: str) -> None:
            model = archive.load(path)
            lower(model.methods, list(backends), constant_methods=model.constant_methods)

        return read

    readers = (
        f"inspect {FILE} --format=json",
        lowered(),
        lowered("xnnpack"),
        lowered("vulkan"),
        lowered("mlx"),
        lowered("mps", "tosa"),
    )
    return [
        Kind(f"{name} .pt2", f"{name}.pt2", mutated_archive, readers) for name in ("net", "stateful", "int8")
    ]


def _programs(lowered: list[str]) -> list[Kind]:
    def verified(path: str) -> None:
        verify_program(path, archive.load("net.pt2").methods, builtin_backends(), seeds=0)

    found = []
    for name in lowered:
        blob = f"{name}.blob"
        readers = (
            f"inspect {FILE}",
            f"inspect {FILE} --blobs --format=json",
            f"operators --program={FILE} --json=o.json",
        )
        extracted = f"extract --pte={FILE} --debug={name}.debug.json --blobs=o.zip"
        compared = f"diff {name}.pte {FILE}"
        report = f"report --manifest={name}.json --debug={name}.debug.json --pte={FILE} --report=o.html"
        found.append(
            Kind(
                f"{name} .pte",
                f"{name}.pte",
                mutated_bytes,
                (*readers, extracted, compared, report, verified),
            )
        )
        delegates = [each for method in read_program(f"{name}.pte").methods for each in method.delegates]
        for delegate in delegates[:1]:
            Path(blob).write_bytes(delegate.blob)
            found.append(
                Kind(f"{name} blob", blob, mutated_bytes, (f"inspect {FILE}", _blob_reader(delegate, name)))
            )
    return [
        *found,
        Kind(
            ".ptd",
            "net.ptd",
            mutated_bytes,
            (
                f"inspect {FILE}",
                f"inspect {FILE} --format=json",
                "verify --label=net --program=net.pt2 --sources=net.sources.json --pte=shared.pte --seeds=0"
                f" --ptd={FILE}",
            ),
        ),
    ]


def _blob_reader(delegate: Any, name: str) -> Reader:
    """Returns a reader that runs a blob in the reference executor of its backend."""
    program = read_program(f"{name}.pte")

    def read(path: str) -> None:
        backend = next(each for each in builtin_backends() if each.id == delegate.id)
        blob = memoryview(Path(path).read_bytes())
        plugins.call(Backend.graph, backend, blob)
        executor = plugins.executor(backend, blob, delegate.compile_specs, program.named_bytes())
        executor([X])

    return read


def _documents(lowered: list[str]) -> list[Kind]:
    found = [Kind("sources.json", "net.sources.json", mutated_document, (_located("xnnpack", sources=FILE),))]
    links = " ".join(f"--link={each}" for each in ("kernels", *(each.id for each in builtin_backends())))
    for name in lowered:
        debug, manifest = f"{name}.debug.json", f"{name}.json"
        report = f"report --pte={name}.pte --report=o.html"
        found += [
            Kind(
                f"{name} debug map",
                debug,
                mutated_document,
                (
                    f"{report} --manifest={manifest} --debug={FILE}",
                    f"inspect {name}.pte --lines --debug-map={FILE} --color=always",
                    f"inspect {name}.pte --blobs --debug-map={FILE}",
                    f"inspect {name}.pte --blobs --format=json --debug-map={FILE}",
                    f"extract --pte={name}.pte --debug={FILE} --blobs=o.zip",
                    _located(name, debug=FILE),
                ),
            ),
            Kind(
                f"{name} manifest",
                manifest,
                mutated_document,
                (
                    f"{report} --manifest={FILE} --debug={debug}",
                    _located(name, manifest=FILE),
                    f"index --manifest={FILE} --page=o.html --json=o.json",
                    f"explain {FILE}",
                    f"budget --manifest={FILE} --limit=file_bytes=1000000",
                    f"golden --label=net --manifest={FILE} --update=o.golden",
                    f"header --pte={name}.pte --manifest={FILE} {links} --header=o.h",
                    f"golden --label=net --manifest={FILE} --golden={manifest}.golden",
                    f"diff {name}.pte {name}.pte --before-manifest={manifest} --after-manifest={FILE}",
                    f"bundle --manifest={FILE} --program={name}.pte --name=a.pte --uses= --zip=o.zip",
                ),
            ),
        ]
        _run(f"golden --label=net --manifest={manifest} --update={manifest}.golden")
    name = lowered[0]
    golden = f"golden --label=net --manifest={name}.json --golden={FILE}"
    found.append(Kind("record", f"{name}.json.golden", mutated_document, (golden,)))
    Path("arenas.json").write_text('{"forward": {"method": 592, "planned": [304], "temporary": 0}}')
    header = f"header --pte={name}.pte --manifest={name}.json {links} --memory={FILE} --header=o.h"
    found.append(Kind("sizes of arenas", "arenas.json", mutated_document, (header,)))
    found.append(Kind("listing", f"{name}.txt", mutated_bytes, (_located(name, ir=FILE),)))
    return found


def _located(name: str, sources: str = "", debug: str = "", manifest: str = "", ir: str = "") -> str:
    debug, manifest, ir = debug or f"{name}.debug.json", manifest or f"{name}.json", ir or f"{name}.txt"
    inputs = f"--debug={debug} --manifest={manifest} --ir={ir}"
    outputs = "--located-debug=o1.json --located-manifest=o2.json --located-ir=o3.txt --reasons=o4.txt"
    return f"locate --sources={sources or 'net.sources.json'} {inputs} {outputs}"


def _samples() -> list[Kind]:
    methods = archive.load("net.pt2").methods

    def read(path: str) -> None:
        samples_of_files([path], methods)

    inputs = "--label=net --program=net.pt2 --sources=net.sources.json"
    return [
        Kind(
            "recorded samples",
            "net.samples.safetensors",
            mutated_safetensors,
            (f"verify {inputs} --pte=portable.pte --seeds=0 --samples-file={FILE}",),
        ),
        Kind("samples .safetensors", "samples.safetensors", mutated_safetensors, (read,)),
        Kind("samples .npy", "samples.npy", mutated_npy, (read,)),
    ]


def _recorded_run() -> Kind:
    """What a runtime recorded, with its program."""
    folder = Path(delegatec.profile.__file__).parent / "testdata"
    for suffix in ("pte", "debug.json", "etdump"):
        shutil.copy(folder / f"digits.{suffix}", ".")
    shown = f"profile --pte=digits.pte --debug=digits.debug.json {FILE}"
    return Kind("ETDump", "digits.etdump", mutated_bytes, (shown, f"{shown} --format=json --html=o.html"))


def _inputs() -> list[Kind]:
    """Sounds and images for language models."""
    with wave.open("sound.wav", "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(X.mul(1000).short().numpy().tobytes())
    Path("image.ppm").write_bytes(b"P6\n4 2\n255\n" + bytes(range(24)))
    format = ImageFormat(2, 4, (1.0,) * 3, (0.0,) * 3)
    return [
        Kind("sound", "sound.wav", mutated_bytes, (lambda path: read_recording(path, 16_000),)),
        Kind("image", "image.ppm", mutated_bytes, (lambda path: read_image(path, format),)),
    ]
