# SPDX-License-Identifier: Apache-2.0
"""`delegatec lower`: lowers a `.pt2` to a `.pte` program."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.delegation_arguments import (
    add_delegation_arguments,
    backends_of,
    method_backends_of,
    options_of,
    rules_of,
    selectors,
)
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.kernel_arguments import add_kernel_arguments, import_operators
from delegatec.cli.layout import add_layout_arguments, layout_options
from delegatec.cli.lowering_flags import recorded_flags
from delegatec.cli.notes import print_notes, with_notes_of_model
from delegatec.cli.print_after import printing_after, verifying_passes
from delegatec.cli.progress import Announce, announced_passes, stages
from delegatec.cli.sources import add_sources_argument, add_unused_argument, find_sources, sources_unused
from delegatec.cli.trusted import add_trusted_argument
from delegatec.version import VERSION

if TYPE_CHECKING:
    from delegatec.delegation import BackendRegistry
    from delegatec.frontend.archive import LoadedModel
    from delegatec.lowering import Program
    from delegatec.report.methods import QuantizedValue
    from delegatec.report.provenance import InputDigests

INPUTS = ("program", "sources")
_PRODUCTS: Final = ("pte", "manifest", "report", "debug", "ir", "etrecord", "reasons", "selected_operators")
OUTPUTS = (*_PRODUCTS, "unused_inputs")

_DESCRIPTIONS: Final = ("manifest", "report", "reasons", "selected_operators")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--program", required=True, metavar="IN.pt2")
    add_trusted_argument(parser)
    add_sources_argument(parser)
    add_unused_argument(parser)
    add_delegation_arguments(parser)
    add_kernel_arguments(parser)
    parser.add_argument(
        "--external-weights",
        action="store_true",
        help="load the model's weights, or those in `Model.external_weights`, from the .ptd written by "
        "`delegatec weights`",
    )
    add_layout_arguments(parser)
    parser.add_argument("--pte", default="", metavar="OUT.pte")
    parser.add_argument("--manifest", default="", metavar="OUT.json")
    parser.add_argument("--report", default="", metavar="OUT.html")
    parser.add_argument("--debug", default="", metavar="OUT.json")
    parser.add_argument("--ir", default="", metavar="OUT.txt")
    parser.add_argument(
        "--etrecord",
        default="",
        metavar="OUT.etrecord",
        help="ETRecord for ExecuTorch's developer tools; includes the weights",
    )
    parser.add_argument("--reasons", default="", metavar="OUT.txt", help="why operators were not delegated")
    parser.add_argument(
        "--selected-operators",
        default="",
        metavar="OUT.yaml",
        help="what the program calls outside of delegates, for a selective build of ExecuTorch's kernels",
    )
    parser.add_argument(
        "--print-after",
        action="append",
        default=[],
        metavar="PASS",
        help="print each program on stderr after this pass, or after all; may be repeated",
    )
    parser.add_argument(
        "--verify-passes",
        action="store_true",
        help="verify each program after each pass: a check of the compiler",
    )


complete = find_sources


def run(arguments: argparse.Namespace) -> int:
    """Lowers the program."""
    _check_outputs(arguments)
    check_environment()
    with sources_unused(arguments):
        with stages(is_quiet=bool(arguments.print_after)) as announce:
            announce("importing torch")
            lowered = _lower(arguments, announce)
        if arguments.pte:
            print_notes(lowered.notes, arguments)
    return 0


def _lower(arguments: argparse.Namespace, announce: Announce) -> Program:
    from delegatec.backends import builtin_backends
    from delegatec.frontend import archive
    from delegatec.lowering import lower
    from delegatec.report.provenance import InputDigests
    from delegatec.report.quantization import quantized_values

    pin_torch()  # Folded constants must not depend on the machine.
    sys.path[:0] = arguments.import_path
    import_operators(arguments)
    backends, method_backends = backends_of(arguments), method_backends_of(arguments)
    options, rules = options_of(arguments), rules_of(arguments)
    registry = None
    if requested := selectors(backends, method_backends):
        # First, since a plug-in may register operators that the program calls.
        registry = builtin_backends()
        for selector in requested:
            registry.resolve(selector)
    digests = InputDigests(_input_files(arguments, registry)) if arguments.manifest else None
    sources = "" if arguments.unused_inputs else arguments.sources
    announce(f"reading {os.path.basename(arguments.program)}")
    model = archive.load(arguments.program, trusted=arguments.trusted, postpone=True, sources=sources)
    with model.checked():
        quantized = {name: quantized_values(method) for name, method in model.methods.items()}
        with (
            printing_after(arguments.print_after),
            announced_passes(announce),
            verifying_passes(arguments.verify_passes),
        ):
            lowered = lower(
                model.methods,
                backends,
                options,
                method_backends=method_backends,
                rules=rules,
                require_full_delegation=arguments.require_full_delegation,
                keep_text=bool(arguments.ir),
                keep_record=bool(arguments.etrecord),
                registry=registry,
                external_weights=_external_weights(arguments, model),
                program_options=layout_options(arguments),
                constant_methods=model.constant_methods,
                kernels=arguments.kernel,
                silenced_notes=arguments.silence_note,
            )
        lowered = replace(lowered, notes=with_notes_of_model(lowered.notes, model, arguments.silence_note))
        announce("writing")
        _write_outputs(arguments, lowered, model, registry or builtin_backends(), digests, quantized)
    return lowered


def _external_weights(arguments: argparse.Namespace, model: LoadedModel) -> bool | tuple[str, ...]:
    from delegatec.diagnostics import DelegatecError, Diagnostic

    if model.external_weights and not arguments.external_weights:
        name = model.external_weights[0]
        text = f'Model.external_weights has no effect: the program would contain "{name}"'
        expected = "external_weights = True in a program rule, or --external-weights"
        raise DelegatecError([Diagnostic("DC423", text, expected=expected)])
    return model.external_weights or bool(arguments.external_weights)


def _input_files(arguments: argparse.Namespace, registry: BackendRegistry | None) -> dict[str, str]:
    """Returns the files that the program is built from: "program", or the option that names one -> path."""
    requested = selectors(backends_of(arguments), method_backends_of(arguments))
    options = options_of(arguments)
    files = {"program": arguments.program}
    for selector in requested:
        assert registry is not None
        for name, option in registry.resolve(selector).options.items():
            role = f"{selector}.{name}" if len(requested) > 1 else name
            value = options.get(role)
            if option.is_file and isinstance(value, str) and value and value not in option.values:
                files[role] = value
    return files


def _write_outputs(
    arguments: argparse.Namespace,
    lowered: Program,
    model: LoadedModel,
    backends: BackendRegistry,
    digests: InputDigests | None,
    quantized: dict[str, tuple[QuantizedValue, ...]],
) -> None:
    from delegatec.files import replacing
    from delegatec.program import write_program
    from delegatec.report.debug_map import debug_map_json
    from delegatec.report.etrecord import write_etrecord

    checksums = {}
    if arguments.pte:
        with replacing(arguments.pte) as file:
            checksums = write_program(lowered.emitted, file, [model.file])
            model.check()
    if arguments.ir:
        _write(arguments.ir, _ir(lowered))
    if arguments.etrecord:
        with replacing(arguments.etrecord) as file:
            write_etrecord(lowered.records, lowered.emitted, file)
    if arguments.debug:
        _write(arguments.debug, debug_map_json(lowered.sources, lowered.emitted))
    if any(getattr(arguments, output) for output in _DESCRIPTIONS):
        _describe(arguments, lowered, model, checksums, backends, digests, quantized)


def _check_outputs(arguments: argparse.Namespace) -> None:
    if not any(getattr(arguments, output) for output in (*_PRODUCTS, "print_after")):
        raise CommandLineError("no output requested: expected --pte, or another of " + _flags(_PRODUCTS[1:]))
    if any(getattr(arguments, output) for output in _DESCRIPTIONS) and not arguments.pte:
        raise CommandLineError(f"{_flags(_DESCRIPTIONS)} describe a .pte: expected --pte as well")


def _flags(outputs: Iterable[str]) -> str:
    return ", ".join(f"--{output.replace('_', '-')}" for output in outputs)


def _ir(lowered: Program) -> str:
    """Returns each method as an edge program and, if it has delegates, as the program that calls them."""
    from delegatec.edge import print_program

    parts = []
    for name, text in lowered.texts.items():
        parts.append(text)
        if name in lowered.reports and lowered.reports[name].delegates:
            parts.append("# with delegates\n" + print_program(lowered.programs[name]))
    return "\n".join(parts)


def _describe(
    arguments: argparse.Namespace,
    lowered: Program,
    model: LoadedModel,
    checksums: dict[tuple[int, int], int],
    backends: BackendRegistry,
    digests: InputDigests | None,
    quantized: dict[str, tuple[QuantizedValue, ...]],
) -> None:
    from delegatec.report.blob_graphs import blob_graphs
    from delegatec.report.build import build_manifest
    from delegatec.report.debug_map import debug_map
    from delegatec.report.html import render_html
    from delegatec.report.manifest import to_json
    from delegatec.report.provenance import wheels_on
    from delegatec.report.reasons import format_reasons
    from delegatec.report.selected_operators import selected_operators

    manifest = build_manifest(
        lowered,
        arguments.pte,
        compiler=f"delegatec {VERSION}",
        label=arguments.label,
        checksums=checksums,
        flags=recorded_flags(arguments),
        quantized=quantized,
        backends=backends,
    )
    files = tuple(digests.files()) if digests else ()
    manifest = replace(
        manifest,
        inputs=files,
        wheels=tuple(wheels_on(sys.path)),
        accuracy=model.accuracy,
        search=model.search,
    )
    if arguments.reasons:
        _write(arguments.reasons, format_reasons(manifest))
    if arguments.manifest:
        _write(arguments.manifest, to_json(manifest))
    if arguments.selected_operators:
        name = arguments.label or os.path.basename(arguments.program)
        _write(arguments.selected_operators, selected_operators({name: manifest.runtime}))
    if arguments.report:
        document = debug_map(lowered.sources, lowered.emitted)
        graphs = blob_graphs(arguments.pte, document, backends)
        _write(arguments.report, render_html(manifest, document, graphs))


def _write(path: str, text: str) -> None:
    from delegatec.files import replacing

    with replacing(path) as file:
        file.write(text.encode())
