# SPDX-License-Identifier: Apache-2.0
"""Attributes that control the layout of a program file.

`delegatec.program.options` is the authority; the checks here run before anything is built.
"""

load(":options.bzl", "fail_with_all", "problem")

_LARGEST = 1 << 30

LAYOUT_ATTRS = {
    "channels_last_inputs": attr.bool(
        default = False,
        doc = """\
Whether all inputs with four dimensions are passed channels-last, not only those with a channels-last example.
""",
    ),
    "channels_last_outputs": attr.bool(
        default = False,
        doc = """\
Whether all outputs with four dimensions are returned channels-last. By default outputs are if the model returns them so,
and has a channels-last input.
""",
    ),
    "constant_alignment": attr.int(
        default = 16,
        doc = "Alignment of each constant within its segment, in bytes: a power of two, at least 16.",
    ),
    "external_weights": attr.bool(
        default = False,
        doc = """\
Whether the runtime's kernels load the model's weights from the `.ptd` of the `exported_program`, which is built with
the program and shared by programs of all backends. Delegates of MLX and XNNPACK read unchanged weights of layers from it as
well; those of other backends contain theirs.
""",
    ),
    "memories": attr.string_dict(
        doc = """\
Memories of the device for planned values, the fastest first: name -> what the program may use of it in bytes, such as
`{"sram": "512k", "dram": "32m"}`, with powers of 1024. They get memory ids from 1; state that methods share follows. By
default there is one, without a limit.
""",
    ),
    "plan_inputs": attr.bool(
        default = True,
        doc = "Whether inputs are copied into planned memory. If not, the program reads the caller's memory.",
    ),
    "plan_outputs": attr.bool(
        default = True,
        doc = "Whether outputs are stored in planned memory. If not, the caller provides memory for each.",
    ),
    "segment_alignment": attr.int(
        default = 128,
        doc = "Alignment of each segment of the file, in bytes: a power of two, such as the page size.",
    ),
}

DELEGATE_LAYOUT_ATTRS = {
    "delegate_alignment": attr.int(
        default = 16,
        doc = "Alignment of each delegate's blob, in bytes: a power of two.",
    ),
    "inline_delegates": attr.bool(
        default = False,
        doc = "Whether the delegates' blobs are stored inside the FlatBuffer instead of in segments.",
    ),
}

# The least value.
_ALIGNMENTS = {"constant_alignment": 16, "delegate_alignment": 1, "segment_alignment": 1}

# Attribute and flag: of an alignment with its value, else only if the attribute differs from its default.
_FLAGS = [
    ("constant_alignment", "--constant-alignment="),
    ("segment_alignment", "--segment-alignment="),
    ("plan_inputs", "--no-plan-inputs"),
    ("plan_outputs", "--no-plan-outputs"),
    ("channels_last_inputs", "--channels-last-inputs"),
    ("channels_last_outputs", "--channels-last-outputs"),
    ("external_weights", "--external-weights"),
]

_DELEGATE_FLAGS = [
    ("delegate_alignment", "--delegate-alignment="),
    ("inline_delegates", "--inline-delegates"),
]

def alignment_problems(name, value, least = 1):
    """Returns why a value is not a valid alignment, for `fail_with_all`.

    Args:
        name: the attribute.
        value: an int.
        least: the smallest value.

    Returns:
        A list of `problem`; empty if it is.
    """
    if value >= least and value <= _LARGEST and not value & (value - 1):
        return []
    return [problem(
        "DC310",
        "%s cannot be %d" % (name, value),
        expected = "a power of two from %d to %d" % (least, _LARGEST),
    )]

def _is_memory(name, size):
    """Whether a name and a size describe a memory, as `delegatec.program.options.memory_of` reads them."""
    count = size[:-1] if size[-1:].lower() in ["g", "k", "m"] else size
    return name.replace("_", "").isalnum() and name[0].isalpha() and count.isdigit() and int(count) > 0

def _memory_problems(memories):
    """Returns why memories are not valid, for `fail_with_all`."""
    return [problem(
        "DC310",
        "memories has \"%s\": \"%s\"" % (name, size),
        expected = "a name and bytes, such as \"sram\": \"512k\"",
    ) for name, size in memories.items() if not _is_memory(name, size)]

def layout_flags(ctx, has_adapters = False):
    """Returns the flags of `delegatec lower` for LAYOUT_ATTRS, and for DELEGATE_LAYOUT_ATTRS if the rule has them.

    Args:
        ctx: the rule's context.
        has_adapters: whether the program loads the weights of adapters.

    Returns:
        A list of strings.
    """
    values = ctx.attr
    names = _FLAGS + _DELEGATE_FLAGS if hasattr(values, "inline_delegates") else _FLAGS
    flags = []
    problems = []
    for name, flag in names:
        value = getattr(values, name)
        if name in _ALIGNMENTS:
            problems.extend(alignment_problems(name, value, _ALIGNMENTS[name]))
            flags.append(flag + str(value))
        elif value != name.startswith("plan_") or (has_adapters and name == "external_weights"):
            flags.append(flag)
    problems.extend(_memory_problems(values.memories))

    # In the order of preference.
    flags.extend(["--memory=%s=%s" % item for item in values.memories.items()])
    fail_with_all(ctx.label, problems)
    return flags
