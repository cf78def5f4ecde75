# SPDX-License-Identifier: Apache-2.0
"""Export of models to exported programs, and of source files to canonical `.pt2` archives."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.arguments import check_types, wrong_argument
from delegatec.edge.adoption.weights import adopt_quantized_weights
from delegatec.files import replacing
from delegatec.frontend import archive
from delegatec.frontend import session as sessions
from delegatec.frontend.block_scaled import adopt_block_scaled
from delegatec.frontend.body_constants import lift_body_constants
from delegatec.frontend.eager.calls import Subject
from delegatec.frontend.eager.chance import clocks
from delegatec.frontend.eager.entropy import unstable_weights, watched
from delegatec.frontend.eager.process import pristine
from delegatec.frontend.eager.record import record
from delegatec.frontend.eager.state import tensors_of
from delegatec.frontend.load import choose_source, load_model
from delegatec.frontend.model import Method, Model
from delegatec.frontend.module_checks import deep_recursion, module_problems
from delegatec.frontend.plain_names import adopt_plain_names
from delegatec.frontend.plain_trees import plain_example, plain_spec
from delegatec.frontend.program_checks import program_problems
from delegatec.frontend.refusals import refusal
from delegatec.frontend.samples_file import save_samples, stored_samples
from delegatec.frontend.shared_memory import shared_memory_problems
from delegatec.frontend.signature import signature_json
from delegatec.frontend.state import adopt_state
from delegatec.frontend.tracing import trace
from delegatec.frontend.workspace import Workspace
from delegatec.samples.defaults import DEFAULT_CALLS
from delegatec.samples.guards import guard_problems
from delegatec.samples.recorded import RecordedSamples

# The node metadata that is kept: the rest refers to objects of this process, or is never read.
_KEPT_METADATA = frozenset({"val", "stack_trace", "nn_module_stack", "custom", "unbacked_bindings"})


@dataclass(frozen=True)
class ExportRequest:
    """One run of `delegatec export`.

    Attributes:
        entry: "module:function"; the module is the stem or dotted path of one of the sources.
        sources: the target's own source files.
        import_paths: directories that the user's modules are imported from.
        data: the declared data files.
        seed: seed of torch, numpy and random.
        program: path of the `.pt2` to write.
        signature: path of the JSON to write; "" for none.
        lines: path of the lines to write; by default NAME.sources.json next to NAME.pt2.
        samples: calls of each method to compare with, as in `export`.
        samples_file: path of the `.samples.safetensors` to write; "" for none.
    """

    entry: str
    sources: tuple[str, ...]
    import_paths: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    seed: int = 0
    program: str = ""
    signature: str = ""
    lines: str | None = None
    samples: int = DEFAULT_CALLS
    samples_file: str = ""


def export_model(request: ExportRequest, announce: Callable[[str], None] = lambda stage: None) -> None:
    """Runs a user's entry function and writes its program; writes nothing on errors.

    Args:
        request: what to run, and where to write.
        announce: receives the stage that begins, such as "tracing forward".

    Raises:
        DelegatecError: DC1xx, all problems of the model that can be found at once.
    """
    module, _, function = request.entry.rpartition(":")
    source = choose_source(request.sources, module)
    workspace = Workspace.at(os.getcwd(), request.import_paths)
    session = sessions.Session(workspace, source, request.data)
    sys.path[:0] = [path for path in workspace.import_roots if path not in sys.path]
    announce(f"running {request.entry}")
    with sessions.running(session), pristine() as before:
        with watched(workspace) as lines:
            model = load_model(session, function, request.seed)
        if lines and request.samples:
            announce(f"running {request.entry} again")
            if problem := unstable_weights(before, model, session, function, request.seed, lines[0]):
                raise DelegatecError([problem])
        exported = export_with_samples(model, workspace, announce, request.samples)
    announce("writing")
    methods = exported.programs
    archive.save(
        methods,
        request.program,
        model.constant_methods,
        sources=request.lines,
        external_weights=model.external_weights,
    )
    samples = stored_samples(exported.samples)
    digest = save_samples(samples, request.samples_file) if request.samples_file else ""
    if request.signature:
        with replacing(request.signature) as file:
            file.write(signature_json(methods, samples, digest).encode())


@dataclass(frozen=True)
class ExportedModel:
    """The programs of a model, and the reference that they were compared with.

    Attributes:
        programs: method -> its program. Stack traces are relative to the workspace, pytrees are plain, and
            example inputs are copies.
        samples: the results of the module itself.
    """

    programs: dict[str, ExportedProgram]
    samples: RecordedSamples


def export(
    model: Model,
    workspace: Workspace | None = None,
    announce: Callable[[str], None] = lambda stage: None,
    samples: int = DEFAULT_CALLS,
) -> dict[str, ExportedProgram]:
    """Traces every method of a model, and compares the programs with the module.

    Args:
        model: its module is put into eval mode, and its parameters are frozen.
        workspace: resolves names of source files; the working directory by default.
        announce: receives the stage that begins.
        samples: calls of each method in eager mode, in a copy of this process, that the program must agree
            with; more, if dynamic dimensions need more sizes; 0 for none.

    Returns:
        Method name -> program. Stack traces are relative to the workspace, pytrees are plain, and example
        inputs are copies.

    Raises:
        DelegatecError: DC415 if it is not a model; DC110 to DC114, DC118, DC119, DC123 to DC125, DC128,
            DC129, of all methods together.
    """
    return export_with_samples(model, workspace, announce, samples).programs


def export_with_samples(
    model: Model,
    workspace: Workspace | None = None,
    announce: Callable[[str], None] = lambda stage: None,
    samples: int = DEFAULT_CALLS,
) -> ExportedModel:
    """Does what `export` does, and returns the calls that the programs agree with, too."""
    if not isinstance(model, Model):
        help = "write delegatec.Model(module, example_inputs)" if isinstance(model, torch.nn.Module) else ""
        raise wrong_argument("delegatec.export", "model", model, "a delegatec.Model", help)
    check_types("delegatec.export", {"workspace": (workspace, Workspace | None, "a Workspace")})
    workspace = workspace or Workspace.at(os.getcwd())
    if problems := module_problems(model):
        raise DelegatecError(problems)
    _prepare(model.module)
    methods = {name: method.with_own_inputs() for name, method in model.all_methods().items()}
    if not samples:
        return ExportedModel(_traced(model, methods, workspace, announce), RecordedSamples())
    held = tensors_of(model.module)
    with pristine(Subject(model.module, methods, clocks())) as eager:
        programs = _traced(model, methods, workspace, announce)
        announce("comparing with eager mode")
        recorded, problems = record(eager, model, programs, samples, held)
    if problems:
        raise DelegatecError(problems)
    return ExportedModel(programs, recorded)


def _traced(
    model: Model, methods: Mapping[str, Method], workspace: Workspace, announce: Callable[[str], None]
) -> dict[str, ExportedProgram]:
    problems: list[Diagnostic] = []
    programs: dict[str, ExportedProgram] = {}
    for name, method in methods.items():
        announce(f"tracing {name}")
        try:
            with deep_recursion():
                program = trace(model.module, method, model.strict, workspace)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - user code ran in it
            problems.append(refusal(error, model.module, method, model.location, workspace, model.strict))
            continue
        adopt_block_scaled(program)
        adopt_quantized_weights(program)
        lift_body_constants(program)
        _canonicalize(program, method, workspace)
        adopt_plain_names(program)
        adopt_state(program)
        problems += program_problems(program, model)
        problems += guard_problems(program, model.module, method.function, model.location)
        programs[name] = program
    problems += shared_memory_problems(programs, model)
    if problems:
        raise DelegatecError(problems)
    return programs


def _prepare(module: torch.nn.Module) -> None:
    """Puts a module into eval mode without gradients."""
    with contextlib.suppress(NotImplementedError):  # of torch.export: its graph has one mode
        module.eval()
    module.requires_grad_(False)


def _canonicalize(program: ExportedProgram, method: Method, workspace: Workspace) -> None:
    for graph_module in program.graph_module.modules():
        if isinstance(graph_module, torch.fx.GraphModule):
            for node in reversed(graph_module.graph.nodes):
                if _failed(node):
                    graph_module.graph.erase_node(node)
                    continue
                node.meta = _canonical_metadata(node.meta, workspace)
    (root, *_) = program.module_call_graph
    assert root.fqn == "" and root.signature is not None
    root.signature.in_spec = plain_spec(root.signature.in_spec)
    root.signature.out_spec = plain_spec(root.signature.out_spec)
    # torch.export lists the call graph of modules with preserved signatures; there are none.
    program._module_call_graph = [root]
    program._example_inputs = plain_example(method.example_inputs, dict(method.example_kwargs or {}))


def _failed(node: torch.fx.Node) -> bool:
    """Whether a call raised an exception that the model caught: it is in the graph, without a value."""
    returns = isinstance(node.target, OpOverload) and bool(node.target._schema.returns)
    return returns and not node.users and node.meta.get("val") is None


def _canonical_metadata(metadata: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key in _KEPT_METADATA}
    trace = workspace.stack_trace(kept.pop("stack_trace", None) or "")
    if trace:
        kept["stack_trace"] = trace
    return kept
