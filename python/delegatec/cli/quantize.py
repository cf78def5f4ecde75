# SPDX-License-Identifier: Apache-2.0
"""`delegatec quantize`: quantizes the program of a `.pt2` by samples of its inputs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.colors import escaped
from delegatec.cli.environment import check_environment
from delegatec.cli.integers import count
from delegatec.cli.kernel_arguments import add_module_argument, import_operators
from delegatec.cli.loss_search import add_search_arguments, check_search, searched
from delegatec.cli.progress import Announce, stages
from delegatec.cli.samples import add_function_arguments, check_function, read_samples
from delegatec.cli.sources import add_sources_argument, add_unused_argument, find_sources, sources_unused
from delegatec.cli.trusted import add_trusted_argument
from delegatec.diagnostics import DelegatecError
from delegatec.files import sources_path

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from delegatec.quantize.flow import QuantizedModel
    from delegatec.quantize.samples import Samples
    from delegatec.quantize.settings import Settings
    from delegatec.samples.accuracy import OutputAccuracy
    from delegatec.samples.search import Search

INPUTS = ("program", "calibration", "source", "data", "dataset", "sources", "samples_file")
OUTPUTS = ("pt2", "signature", "pt2_sources", "unused_inputs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--program", required=True, metavar="IN.pt2", help="the model in float")
    add_trusted_argument(parser)
    parser.add_argument("--pt2", required=True, metavar="OUT.pt2", help="the quantized model")
    parser.add_argument("--signature", default="", metavar="OUT.json")
    add_sources_argument(parser)
    parser.add_argument(
        "--pt2-sources",
        default="",
        metavar="OUT.json",
        help="lines of the quantized model (default: NAME.sources.json next to it; with --unused-inputs "
        "none, as they are those of --sources)",
    )
    add_unused_argument(parser)
    samples = parser.add_argument_group("calibration")
    samples.add_argument(
        "--calibration",
        action="append",
        default=[],
        metavar="FILE",
        help=".safetensors with a tensor per input, or .npy for one input; a first dimension stacks samples",
    )
    add_module_argument(parser)
    add_function_arguments(samples)
    error = parser.add_argument_group("error against the model in float")
    error.add_argument(
        "--samples-file",
        default="",
        metavar="IN.safetensors",
        help="calls of the module that `export` has recorded; without them, the model in float runs on the "
        "first calibration samples, or on its example inputs",
    )
    error.add_argument(
        "--minimum-snr-db",
        type=count,
        default=0,
        metavar="N",
        help="least signal to noise ratio of each output in dB; less is an error (default: 0, none)",
    )
    add_search_arguments(parser)
    settings = parser.add_argument_group("settings")
    for flag, help in _SETTINGS.items():
        settings.add_argument(f"--{flag}", default=None, metavar="NAME", help=help)
    settings.add_argument(
        "--group-size",
        type=int,
        default=0,
        metavar="N",
        help="inputs of a linear layer with one scale, for int4 without samples (default: 0, all)",
    )
    settings.add_argument(
        "--quantize-io", action="store_true", help="inputs and outputs are quantized values"
    )
    for flag, help in _IN_FLOAT.items():
        settings.add_argument(f"--{flag}", action="append", default=[], metavar="NAME", help=help)


def complete(arguments: argparse.Namespace) -> None:
    """Sets the defaults of `--sources` and `--pt2-sources`."""
    find_sources(arguments)
    if not arguments.unused_inputs:
        arguments.pt2_sources = arguments.pt2_sources or sources_path(arguments.pt2)


_SETTINGS = {
    "activation": "int8 (default), or int16 with int8 weights; without samples dynamic_int8, at run time, or "
    "float",
    "weight": "int8 (default), or int4; float16 with --activation float",
    "weight-scales": "channel (default): a scale per output channel; tensor: one per weight",
    "ranges": "affine (default), or symmetric: the zero points of activations are 0",
    "observer": "histogram (default): the range with the least squared error; minmax: all observed values",
    "inner": "same (default), or int16 for values inside softmax, attention and norms",
}
_IN_FLOAT = {
    "float-module": "a module that stays in float, with all modules inside it",
    "float-operator": "an operator that stays in float, such as aten.softmax",
}


def run(arguments: argparse.Namespace) -> int:
    """Quantizes the program."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    check_function(arguments)
    check_environment()
    with sources_unused(arguments), stages() as announce:
        announce("importing torch")
        pin_torch()
        search = _quantize(arguments, announce)
    # A build prints no lines of the model: its outputs do not depend on them.
    if search is not None and not arguments.unused_inputs:
        _print(search, arguments.sources)
    return 0


def _print(search: Search, sources: str) -> None:
    from delegatec.frontend.search_json import located
    from delegatec.frontend.sources import read_sources
    from delegatec.samples.search import search_text

    lines = search_text(located(search, read_sources(sources)) if sources else search)
    print(escaped("\n".join(lines)))


def _quantize(arguments: argparse.Namespace, announce: Announce) -> Search | None:
    """Quantizes the program; its nodes go on to refer to the lines of the model."""
    from delegatec.files import replacing
    from delegatec.frontend import archive
    from delegatec.frontend.signature import signature_json
    from delegatec.frontend.sources import read_sources
    from delegatec.quantize.checks import check_float, check_no_external
    from delegatec.quantize.equal_sizes import equal_sizes
    from delegatec.quantize.requirement import require_torchao
    from delegatec.quantize.samples import check_samples

    settings = _settings(arguments)
    check_search(arguments, settings.is_static)
    paths = [path for path in map(os.path.abspath, arguments.import_path) if path not in sys.path]
    sys.path += paths
    import_operators(arguments)
    announce(f"reading {os.path.basename(arguments.program)}")
    model = archive.load(arguments.program, trusted=arguments.trusted, sources="")
    check_float(model.methods)
    check_no_external(model.external_weights)
    samples: Samples = {}
    if settings.is_static:
        announce("reading samples")
        samples = read_samples(arguments, arguments.calibration, model.methods)
        check_samples(samples, model.methods)
    announce("importing torchao")
    require_torchao()
    from delegatec.quantize.flow import quantize_model
    from delegatec.quantize.signature import add_quantization

    search: Search | None = None
    if arguments.maximum_loss is None:
        quantized = quantize_model(model.methods, samples, settings, announce)
    else:
        quantized, search = searched(arguments, model.methods, samples, settings, announce)
    announce("comparing with the model in float")
    found = _accuracies(arguments, model.methods, samples, quantized)
    announce("writing")
    archive.save(
        quantized.methods,
        arguments.pt2,
        model.constant_methods,
        sources=arguments.pt2_sources,
        table=read_sources(arguments.sources) if arguments.sources and arguments.pt2_sources else None,
        accuracy=found,
        notes=equal_sizes(model.methods, samples),
        search=search,
    )
    if arguments.signature:
        with replacing(arguments.signature) as file:
            file.write(add_quantization(signature_json(quantized.methods), quantized).encode())
    return search


def _accuracies(
    arguments: argparse.Namespace,
    methods: Mapping[str, ExportedProgram],
    samples: Samples,
    quantized: QuantizedModel,
) -> list[OutputAccuracy]:
    """Returns the error of each output.

    Raises:
        DelegatecError: DC131, DC132, an unreadable file of samples, or one of another model; DC137, an output
            with an error beyond the limit.
    """
    from delegatec.frontend.samples_file import read_samples as read_recorded
    from delegatec.quantize.accuracy import accuracies, calls_of, limit_problems, recorded_problems

    if arguments.samples_file:
        recorded = read_recorded(arguments.samples_file)
        problems = list(recorded_problems(recorded, methods, os.path.basename(arguments.samples_file)))
        if problems:
            raise DelegatecError(problems)
        found = accuracies(quantized, recorded, "module")
    else:
        found = accuracies(quantized, calls_of(methods, samples))
    if problems := list(limit_problems(found, arguments.minimum_snr_db)) if arguments.minimum_snr_db else []:
        raise DelegatecError(problems)
    return found


def _settings(arguments: argparse.Namespace) -> Settings:
    """Returns the settings.

    Raises:
        DelegatecError: DC130, DC136, all invalid ones, and samples that are not needed.
    """
    from delegatec.quantize.settings import CHOICES, Settings, problems_of

    values: dict[str, Any] = {
        name: getattr(arguments, name) or default for name, (default, *_) in CHOICES.items()
    }
    values |= {"group_size": arguments.group_size, "quantize_io": arguments.quantize_io}
    samples = {"calibration": bool(arguments.calibration), "calibration_entry": bool(arguments.entry)}
    problems = problems_of(values | samples)
    if problems:
        raise DelegatecError(problems)
    return Settings(
        **values,
        float_modules=tuple(arguments.float_module),
        float_operators=tuple(arguments.float_operator),
    )
