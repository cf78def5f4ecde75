# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of the Python functions."""

from __future__ import annotations

from typing import Any, Final

from mistake import Mistake, python

_SAVE: Final = "torch.save({}, 'a.pt')\ndelegatec.load_checkpoint(NET, 'a.pt')"


def checkpoint(does: str, content: str, code: str, *words: str, **more: Any) -> Mistake:
    """A file `a.pt` that is not a checkpoint of the module."""
    files = {"a.pt": content}
    return python(does, code, *words, script="delegatec.load_checkpoint(NET, 'a.pt')", files=files, **more)


CHECKPOINTS: Final[tuple[Mistake, ...]] = (
    checkpoint("loads an empty file", "", "DC116", "it is empty"),
    checkpoint("loads a web page", "<html>404</html>", "DC116", "a web page"),
    checkpoint("loads a Git LFS pointer", "version https://git-lfs", "DC116", "git lfs pull"),
    checkpoint("loads a text", "hello", "DC116", "unknown format"),
    checkpoint("loads a truncated file", "PK\x03\x04...", "DC116", "truncated"),
    python(
        "loads a state dict inside of another dict",
        "DC116",
        "under the key 'model'",
        script=_SAVE.format("{'model': NET.state_dict(), 'epoch': 3}"),
    ),
    python(
        "loads arrays of numpy",
        "DC116",
        "a pickle of numpy",
        script=_SAVE.format("{'weight': NET.weight.detach().numpy()}"),
    ),
    python(
        "loads a TorchScript file",
        "DC116",
        "a TorchScript file",
        script="torch.jit.save(torch.jit.script(NET), 'a.pt')\ndelegatec.load_checkpoint(NET, 'a.pt')",
    ),
    python(
        "loads a checkpoint of DataParallel",
        "DC117",
        'the prefix "module."',
        script=_SAVE.format("{f'module.{k}': v for k, v in NET.state_dict().items()}"),
    ),
    python(
        "loads a checkpoint into a wrapper",
        "DC117",
        "into the submodule 0",
        script="torch.save(NET.state_dict(), 'a.pt')\ndelegatec.load_checkpoint(nn.Sequential(NET), 'a.pt')",
    ),
    python(
        "loads a checkpoint in float16",
        "DC117",
        "module.to(torch.float16)",
        script=_SAVE.format("{k: v.half() for k, v in NET.state_dict().items()}"),
        lines=8,
    ),
)

CALLS: Final[tuple[Mistake, ...]] = (
    python(
        "exports a module",
        "DC415",
        "model of delegatec.export",
        "delegatec.Model(",
        script="delegatec.export(NET)",
    ),
    python(
        "exports a module with its inputs",
        "DC415",
        "model of delegatec.export",
        "delegatec.Model(",
        script="delegatec.export(NET, X)",
    ),
    python(
        "exports to a directory",
        "DC415",
        "workspace",
        script="delegatec.export(delegatec.Model(NET, X), 'out')",
    ),
    python(
        "loads no checkpoint",
        "DC415",
        "the path of a data file",
        script="delegatec.load_checkpoint(NET, None)",
    ),
    python(
        "loads a checkpoint into a class",
        "DC415",
        "a torch.nn.Module",
        script="delegatec.load_checkpoint(nn.Linear, 'a')",
    ),
    python(
        "loads a missing checkpoint",
        "DC115",
        'no file "a.pt"',
        script="delegatec.load_checkpoint(NET, 'a.pt')",
    ),
    python("loads a directory", "DC116", "it is a directory", script="delegatec.load_checkpoint(NET, 'pkg')"),
    python(
        "loads a pickled module",
        "DC116",
        "which reading would run",
        script="torch.save(NET, 'a.pt')\ndelegatec.load_checkpoint(NET, 'a.pt')",
    ),
    python(
        "loads a truncated .safetensors",
        "DC116",
        "a.safetensors",
        script="open('a.safetensors', 'wb').write(bytes(9))\ndelegatec.load_checkpoint(NET, 'a.safetensors')",
    ),
    python(
        "loads a checkpoint with an optimizer",
        "DC116",
        "not a dict of tensors",
        script="torch.save({'model': {}, 'epoch': 3}, 'a.pt')\ndelegatec.load_checkpoint(NET, 'a.pt')",
    ),
    python(
        "loads an empty checkpoint",
        "DC117",
        'lacks tensor "weight"',
        script="torch.save({}, 'a.pt')\ndelegatec.load_checkpoint(NET, 'a.pt')",
        lines=8,
    ),
    python("passes a number as a path", "DC415", "the path of a data file", script="delegatec.data_path(3)"),
    python(
        "lowers an exported program",
        "DC415",
        '{"forward": exported}',
        script="delegatec.lower(exported()['forward'])",
    ),
    python("lowers a module", "DC415", "export it first", script="delegatec.lower(NET)"),
    python("lowers nothing", "DC415", "is empty", script="delegatec.lower({})"),
    python("lowers modules by name", "DC415", "a method", script="delegatec.lower({'forward': NET})"),
    python(
        "names a method by a number", "DC415", "name", script="delegatec.lower({1: exported()['forward']})"
    ),
    python(
        "lowers a program twice",
        "DC415",
        "export it again",
        script="e = exported()\ndelegatec.lower(e)\ndelegatec.lower(e)",
    ),
    python(
        "passes a backend object", "DC415", "module:attribute", script="delegatec.lower(exported(), object())"
    ),
    python(
        "passes options as a list",
        "DC415",
        "a dict of options",
        script="delegatec.lower(exported(), 'mps', ['fp16'])",
    ),
    python(
        "names an option by a number",
        "DC415",
        "the name of an option",
        script="delegatec.lower(exported(), 'mps', {1: 'fp16'})",
    ),
    python(
        "passes True as an option",
        "DC402",
        "one string, not True",
        script="delegatec.lower(exported(), 'mps', {'precision': True})",
    ),
    python(
        "passes rules as a dict",
        "DC415",
        "PartitionRules",
        script="delegatec.lower(exported(), 'mps', rules={'minimum_nodes': 2})",
    ),
    python(
        "passes program options as a dict",
        "DC415",
        "ProgramOptions",
        script="delegatec.lower(exported(), program_options={})",
    ),
    python(
        "passes a word for a flag",
        "DC415",
        "True, False, or a list of names",
        script="delegatec.lower(exported(), external_weights='yes')",
    ),
    python(
        "passes a registry as a list",
        "DC415",
        "a BackendRegistry",
        script="delegatec.lower(exported(), registry=[])",
    ),
    python(
        "passes a path for a file",
        "DC415",
        'open(path, "wb")',
        script="write_program(delegatec.lower(exported()).emitted, 'net.pte')",
    ),
    python(
        "writes the result of lower",
        "DC415",
        "delegatec.lower(...).emitted",
        script="write_program(delegatec.lower(exported()), io.BytesIO())",
    ),
    python(
        "writes weights to a path",
        "DC415",
        'open(path, "wb")',
        script="write_flat_tensors(weights_of(exported()), 'net.ptd')",
    ),
    python(
        "writes a state dict of arrays",
        "DC415",
        "an item of tensors",
        script="write_flat_tensors({'a': [1.0]}, io.BytesIO())",
    ),
    python("takes the weights of a module", "DC415", "a dict of exported programs", script="weights_of(NET)"),
    python("aligns to a string", "DC310", "segment_alignment has type str", script="ProgramOptions('16')"),
    python("plans inputs by a word", "DC310", "the type bool", script="ProgramOptions(plan_inputs='yes')"),
    python(
        "blocks one operator by a string",
        "DC412",
        "block_operators",
        script="PartitionRules(block_operators='aten.add')",
    ),
    python(
        "requires nodes by a string", "DC412", "minimum_nodes", script="PartitionRules(minimum_nodes='2')"
    ),
    python(
        "delegates all by a word", "DC412", "all_or_nothing", script="PartitionRules(all_or_nothing='yes')"
    ),
    python("converts a module", "DC415", "export it first", script="delegatec.to_edge(NET)"),
    python(
        "preserves operators by name",
        "DC415",
        "an item of preserve",
        script="delegatec.to_edge(exported()['forward'], preserve=['aten.silu'])",
    ),
    python(
        "delegates an exported program",
        "DC415",
        "delegatec.to_edge",
        script="delegatec.to_backend('MPSBackend', exported()['forward'])",
    ),
    python(
        "delegates to an unknown id",
        "DC401",
        "'MPS'",
        script="delegatec.to_backend('MPS', delegatec.to_edge(exported()['forward']))",
    ),
    python(
        "partitions by a name",
        "DC415",
        "a partitioner",
        script="delegatec.to_backend(delegatec.to_edge(exported()['forward']), 'mps')",
    ),
    python(
        "passes specs as a dict",
        "DC415",
        "compile_specs",
        script="delegatec.to_backend('MPSBackend', delegatec.to_edge(exported()['forward']), {})",
    ),
    python("registers a class", "DC415", "has type type", script="BackendRegistry([dict])"),
    python(
        "registers one backend without a list",
        "DC415",
        "a list of backends",
        script="BackendRegistry(object())",
    ),
    python(
        "forgets super().__init__()",
        "DC108",
        "super().__init__()",
        script="class Net(nn.Module):\n    def __init__(self):\n        pass\ndelegatec.Model(Net(), X)",
    ),
    python(
        "opens the file as text",
        "DC415",
        "has type TextIOWrapper",
        script="write_program(delegatec.lower(exported()).emitted, open('a.pte', 'w'))",
    ),
    python(
        "opens the file for reading",
        "DC415",
        "has type BufferedReader",
        script="write_program(delegatec.lower(exported()).emitted, open('good.pte', 'rb'))",
    ),
    python("asks a registry for None", "DC401", "None", script="BackendRegistry().resolve(None)"),
    python(
        "asks strictly by a word", "DC108", "True or False", script="delegatec.Model(NET, X, strict='yes')"
    ),
)

TABLE: Final = {"In Python": CALLS, "In checkpoints": CHECKPOINTS}
