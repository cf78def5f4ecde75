# SPDX-License-Identifier: Apache-2.0
"""Mistakes on the command line, and in the environment of the compiler."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Final

from mistake import Mistake, lower, run, usage

_EXPORT: Final = "export --entry=good:build --source=good.py --program=net.pt2"
_LOWER: Final = "lower --program=good.pt2 --pte=net.pte"
_VERIFY: Final = "verify --program=good.pt2 --pte=good.pte"


def _limit(name: str, number: int) -> Callable[[], object]:
    return lambda: resource.setrlimit(getattr(resource, name), (number, number))


def _full(descriptor: int) -> Callable[[], object]:
    return lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), descriptor)


def _delete_directory() -> None:
    os.mkdir("a")
    os.chdir("a")
    os.rmdir("../a")


USAGE: Final[tuple[Mistake, ...]] = (
    usage("misspells the verb", "unknown verb 'explort': did you mean 'export'?", command="explort"),
    usage("writes a flag before the verb", "expected lower first", command="--program=good.pt2 lower"),
    usage("forgets a flag", "--entry", command="export --source=good.py --program=net.pt2"),
    usage("misspells a flag", "did you mean '--entry'?", command="export --entree=good:build"),
    usage("abbreviates a flag", "did you mean '--program'?", command="lower --prog=good.pt2"),
    usage("writes one dash", "did you mean '--program'?", command="lower -program=good.pt2"),
    usage("writes underscores", "did you mean '--minimum-nodes'?", command=f"{_LOWER} --minimum_nodes=2"),
    usage("passes a word for a number", "'two'", command=f"{_LOWER} --minimum-nodes=two"),
    usage("names two files", "unrecognized arguments: mps.pte", command="inspect good.pte mps.pte"),
    usage("asks for another format", "'yaml'", command="inspect good.pte --format=yaml"),
    usage("requests no output", "expected --pte", command="lower --program=good.pt2"),
    usage(
        "requests a manifest alone", "expected --pte", command="lower --program=good.pt2 --manifest=net.json"
    ),
    usage("writes an option without a value", "NAME=VALUE", command=f"{_LOWER} --option=fp16"),
    usage("names a backend for no method", "METHOD=BACKEND", command=f"{_LOWER} --method-backend=mps"),
    usage("passes a word as the seed", "'x'", command=f"{_EXPORT} --seed=x"),
    usage("passes a seed of 65 bits", "expected", command=f"{_EXPORT} --seed={2**64}"),
    usage("forgets the function", "MODULE:FUNCTION", command="export --entry=good --source=a --program=b"),
    usage("tolerates NaN", "expected a finite number", command=f"{_VERIFY} --atol=nan"),
    usage("tolerates a negative error", "at least 0", command=f"{_VERIFY} --rtol=-1"),
    usage("limits noise by NaN", "expected a number, or -inf", command=f"{_VERIFY} --minimum-snr-db=nan"),
    usage("compares -1 times", "--seeds: -1: expected an integer", command=f"{_VERIFY} --seeds=-1"),
    usage("names a missing parameter file", "missing.params", command="@missing.params"),
    usage("names a parameter file in Latin-1", "utf-8", command="lower @f", files={"f": b"--label=\xe9\n"}),
    usage("separates parameters by spaces", "one on each line", command="@f", files={"f": f"{_LOWER}\n"}),
    usage("writes a NUL character", "NUL", command="inspect a\0b"),
    usage("asks for lines without a map", "--debug-map", command="inspect mps.pte --lines"),
    usage(
        "writes an option of a backend as a flag",
        "an option of a backend is --option=precision=fp16",
        command="lower --program=good.pt2 --pte=net.pte --backend=mps --precision=fp16",
    ),
    usage(
        "writes an option with a colon",
        "expected NAME=VALUE",
        "delegatec lower --help",
        command="lower --program=good.pt2 --pte=net.pte --backend=mps --option=precision:fp16",
    ),
    usage(
        "writes the entry with a dot",
        "expected MODULE:FUNCTION",
        command="export --entry=good.build --source=good.py --program=net.pt2",
    ),
    usage(
        "names a backend for quantize",
        "unknown argument --backend=xnnpack",
        command="quantize --program=good.pt2 --pt2=net.pt2 --backend=xnnpack",
    ),
    usage(
        "writes a size in KiB",
        "16k",
        command="lower --program=good.pt2 --pte=net.pte --segment-alignment=16k",
    ),
    usage("asks for lines as JSON", "--format text", command="inspect mps.pte --lines --format=json"),
    usage("asks for blobs of a .pt2", "expected a .pte program", command="inspect good.pt2 --blobs"),
    usage(
        "passes the map of another program",
        "another program",
        command="inspect good.pte --lines --debug-map=mps.json",
    ),
    usage(
        "passes another file as the map",
        "good.pt2 was not written by this version",
        command="inspect mps.pte --lines --debug-map=good.pt2",
    ),
)

PATHS: Final[tuple[Mistake, ...]] = (
    run(
        "names a missing file",
        "DC002",
        "no.pt2: No such file",
        command="lower --program=no.pt2 --pte=net.pte",
    ),
    run("leaves a path empty", "DC002", '""', command=("inspect", "")),
    run("names a directory", "DC002", "pkg: Is a directory", command="inspect pkg"),
    run("names a device", "DC002", "Not a regular file", command="lower --program=/dev/zero --pte=net.pte"),
    run("names a URL", "DC002", "https://", command="inspect https://example.com/a.pte"),
    run("names a pattern", "DC002", "*.pte", command="inspect *.pte"),
    run("writes a name that is too long", "DC002", "shorten the path", command="inspect " + "n" * 300),
    run("writes a path with a line break", "DC002", r"a\nb", command=("inspect", "a\nb")),
    run("writes a path that is not UTF-8", "DC002", r"\udcff", command="inspect \udcff.pte"),
    run(
        "follows a loop of links",
        "DC002",
        "symbolic links",
        command="inspect a",
        before=lambda: os.symlink("a", "a"),
    ),
    run("forgets to create a directory", "DC004", "does not exist", command=f"{_LOWER} --ir=no/net.txt"),
    run("writes to a directory", "DC004", "Is a directory", command=f"{_LOWER} --ir=pkg"),
    run("writes to a device", "DC004", "Not a regular file", command=f"{_LOWER} --ir=/dev/null"),
    run("writes over an input", "DC004", "the same file as --program", command=f"{_LOWER} --ir=./good.pt2"),
    run(
        "writes over the source",
        "DC004",
        "the same file as --source",
        command=f"{_EXPORT} --signature=good.py",
    ),
    run(
        "writes two outputs to one file", "DC004", "the same file as --pte", command=f"{_LOWER} --ir=net.pte"
    ),
    run("writes an output whose name is too long", "DC004", "shorten", command=f"{_LOWER} --ir=" + "n" * 300),
)

SYSTEM: Final[tuple[Mistake, ...]] = (
    run("limits the size of files", "DC002", "ulimit -f", command=_EXPORT, before=_limit("RLIMIT_FSIZE", 99)),
    run(
        "limits the weights file",
        "DC002",
        "File too large",
        command="weights --program=good.pt2 --ptd=net.ptd",
        before=_limit("RLIMIT_FSIZE", 50),
    ),
    run(
        "limits the report",
        "DC002",
        "File too large",
        command=f"{_LOWER} --report=net.html",
        before=_limit("RLIMIT_FSIZE", 9999),
    ),
    run(
        "limits the number of open files",
        "DC002",
        "ulimit -n",
        command=_LOWER,
        before=_limit("RLIMIT_NOFILE", 5),
    ),
    run("prints to a full disk", "DC002", "No space left", command="inspect good.pt2", before=_full(1)),
    run(
        "closes standard output",
        "DC002",
        "Bad file descriptor",
        command="inspect good.pt2",
        before=lambda: os.close(1),
    ),
    run(
        "deletes the working directory", "DC002", "has been deleted", command=_LOWER, before=_delete_directory
    ),
    run(
        "limits CPU time",
        "DC007",
        "SIGXCPU",
        "ulimit -t",
        command="export --entry=slow:build --source=slow.py --program=net.pt2",
        files={"slow.py": "import time\nwhile True: pass\n"},
        before=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(sum(os.times()[:2])) + 1, 1000)),
        exit=70,
    ),
)

OPTIONS: Final[tuple[Mistake, ...]] = (
    run(
        "writes .py in the entry",
        "DC101",
        'without .py: "good"',
        command="export --entry=good.py:build --source=good.py --program=net.pt2",
    ),
    run(
        "writes a path in the entry",
        "DC101",
        "with dots",
        command="export --entry=./good:build --source=good.py --program=net.pt2",
    ),
    run(
        "names another source",
        "DC101",
        'no source is named "net"',
        command="export --entry=net:build --source=good.py --program=net.pt2",
    ),
    run(
        "has two sources of one name",
        "DC101",
        "several sources",
        command="export --entry=good:build --source=good.py --source=pkg/good.py --program=net.pt2",
    ),
    run(
        "calls the function in the entry",
        "DC105",
        "did you mean 'build'?",
        command="export --entry=good:build() --source=good.py --program=net.pt2",
    ),
    lower("misspells a backend", "DC401", "'msp'", "did you mean 'mps'?", flags=("--backend=msp",)),
    lower("writes a backend in capitals", "DC401", "did you mean 'mps'?", flags=("--backend=MPS",)),
    lower("lists backends in one flag", "DC401", "one backend each", flags=("--backend=mps,portable",)),
    lower(
        "lists portable with a backend",
        "DC401",
        "portable is listed",
        flags=("--backend=portable", "--backend=mps"),
    ),
    lower(
        "misspells an option",
        "DC402",
        "did you mean 'precision'?",
        flags=("--backend=mps", "--option=precison=fp16"),
    ),
    lower(
        "misspells a value",
        "DC402",
        "did you mean 'fp16'?",
        flags=("--backend=mps", "--option=precision=FP16"),
    ),
    lower(
        "sets an option twice",
        "DC402",
        "one string",
        flags=("--backend=mps", "--option=precision=fp16", "--option=precision=fp32"),
    ),
    lower(
        "clamps values beyond float16 without float16",
        "DC423",
        "option 'fp16_overflow' of backend mps has no effect with precision 'fp32'",
        flags=("--backend=mps", "--option=fp16_overflow=saturate"),
    ),
    lower(
        "names a runtime that has no MLX",
        "DC402",
        "option 'runtime' of backend mlx",
        "1.4.1 or 1.5.1",
        flags=("--backend=mlx", "--option=runtime=1.3"),
    ),
    lower(
        "lets a runtime own the cache that has none",
        "DC423",
        "option 'kv_cache' of backend mlx has no effect with runtime '1.4.1'",
        flags=("--backend=mlx", "--option=runtime=1.4.1", "--option=kv_cache=runtime"),
    ),
    lower("sets an option of no backend", "DC402", "portable", flags=("--option=precision=fp16",)),
    lower(
        "lowers a model in float for an NPU",
        "DC424",
        "ethos_u computes in integers",
        flags=("--backend=ethos_u",),
    ),
    lower("names a plug-in without its attribute", "DC403", "module:attribute", flags=("--backend=npu:",)),
    lower("names a plug-in by its file", "DC403", "module:attribute", flags=("--backend=./npu.py:BACKEND",)),
    lower(
        "forgets the import path of a plug-in",
        "DC403",
        "no module named 'npu'",
        flags=("--backend=npu:BACKEND",),
    ),
    lower(
        "names a function as a plug-in", "DC403", "which is not a backend", flags=("--backend=json:loads",)
    ),
    lower(
        "blocks an unknown operator",
        "DC412",
        "aten.linear",
        flags=("--backend=mps", "--block-operator=aten.linaer"),
    ),
    lower(
        "allows an operator without its namespace",
        "DC412",
        "did you mean 'aten.linear'?",
        flags=("--backend=mps", "--allow-operator=linear"),
    ),
    lower(
        "blocks an operator that the model lacks",
        "DC412",
        "the model has no such operator",
        flags=("--backend=xnnpack", "--block-operator=aten.conv2d"),
    ),
    lower(
        "keeps 0 delegates",
        "DC412",
        'choose the backend "portable"',
        flags=("--backend=mps", "--maximum-delegates=0"),
    ),
    lower(
        "silences notes that do not exist",
        "DC425",
        "did you mean 'transposed-input'?",
        flags=("--backend=mps", "--silence-note=transposed-inputs"),
    ),
    lower(
        "names a device that is unknown",
        "DC402",
        "expected adreno-840",
        flags=("--backend=vulkan", "--option=device=adreno-841"),
    ),
    lower(
        "has a device with wrong fields",
        "DC402",
        "faults[0].size is",
        files={
            "phone.json": '{"name": "phone", "faults": [{"size": "rows", "from": 0, "effect": "x"}]}',
        },
        flags=("--backend=vulkan", "--option=device=phone.json"),
    ),
    lower(
        "lists a backend twice",
        "DC423",
        "each backend once",
        flags=("--backend=mps", "--backend=vulkan", "--backend=mps"),
    ),
    lower(
        "lists a backend of a method twice",
        "DC423",
        "each backend once",
        flags=("--method-backend=forward=mps", "--method-backend=forward=mps"),
    ),
    lower(
        "blocks an operator of the portable kernels",
        "DC423",
        "a backend besides portable",
        flags=("--block-operator=aten.linear", "--minimum-nodes=2"),
    ),
    lower("allows an unknown module", "DC412", "encoder", flags=("--backend=mps", "--allow-module=encoder")),
    lower("requires 0 nodes", "DC412", "1 or more", flags=("--backend=mps", "--minimum-nodes=0")),
    lower(
        "names an unknown method",
        "DC413",
        "did you mean 'forward'?",
        flags=("--method-backend=forwards=portable",),
    ),
    lower(
        "sets an option without its backend",
        "DC414",
        "mps.precision",
        flags=("--backend=mps", "--backend=delegatec.backends.mps:BACKEND", "--option=precision=fp16"),
    ),
    lower(
        "prints after an unknown pass",
        "DC416",
        "did you mean 'fold_casts'?",
        flags=("--print-after=fold_cast",),
    ),
    lower(
        "requires full delegation to no backend",
        "DC405",
        "not a delegate",
        flags=("--require-full-delegation",),
    ),
    lower(
        "requires full delegation of a blocked operator",
        "DC405",
        "block_operators",
        flags=("--backend=mps", "--block-operator=aten.linear", "--require-full-delegation"),
    ),
    lower("aligns to 24 bytes", "DC310", "a power of two", flags=("--segment-alignment=24",)),
    lower("names a memory without its size", "DC310", "not a memory", flags=("--memory=sram",)),
    lower(
        "names a memory twice, and one of no bytes",
        "DC310",
        "2 memories are named",
        flags=("--memory=sram=1k", "--memory=sram=0"),
    ),
    lower(
        "has less memory than values that are alive at one time",
        "DC311",
        "fits into no memory",
        flags=("--memory=sram=40",),
    ),
    lower("aligns to -4 bytes", "DC310", "a power of two", flags=("--delegate-alignment=-4",)),
    run(
        "aligns weights to 3 bytes",
        "DC310",
        "a power of two",
        command="weights --program=good.pt2 --ptd=net.ptd --segment-alignment=3",
    ),
)

TABLE: Final = {
    "On the command line": USAGE,
    "In paths": PATHS,
    "On the system": SYSTEM,
    "In options": OPTIONS,
}
