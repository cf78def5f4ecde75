# SPDX-License-Identifier: Apache-2.0
"""How a program is laid out in its file, as attributes.

`delegatec.program.options` is the authority; what can be known is checked before anything is built.
"""

_LARGEST = 1 << 30

LAYOUT_ATTRS = {
    "constant_alignment": attr.int(
        default = 16,
        doc = "Bytes that each constant is aligned to in its segment: a power of two, 16 or more.",
    ),
    "external_weights": attr.bool(
        default = False,
        doc = """\
Whether the runtime's kernels find the model's weights in the `.ptd` of the `exported_program`, which is then built
with the program, and which programs of other backends share. A delegate has what it consumed in its blob.
""",
    ),
    "plan_inputs": attr.bool(
        default = True,
        doc = "Whether inputs are copied into planned memory. Without, the program reads them where the caller has them.",
    ),
    "plan_outputs": attr.bool(
        default = True,
        doc = "Whether outputs are in planned memory. Without, the caller gives memory for each.",
    ),
    "segment_alignment": attr.int(
        default = 128,
        doc = "Bytes that each segment of the file is aligned to: a power of two, such as the size of a page.",
    ),
}

DELEGATE_LAYOUT_ATTRS = {
    "delegate_alignment": attr.int(
        default = 16,
        doc = "Bytes that the blob of each delegate is aligned to: a power of two.",
    ),
    "inline_delegates": attr.bool(
        default = False,
        doc = "Whether blobs of delegates lie inside the FlatBuffer, and not in segments of their own.",
    ),
}

_ALIGNMENTS = {"constant_alignment": 16, "delegate_alignment": 1, "segment_alignment": 1}

def check_alignment(label, name, value, least = 1):
    """Fails unless a value is a power of two that alignments can have.

    Args:
        label: the target, for the message.
        name: the attribute.
        value: an int.
        least: the smallest value.
    """
    if value < least or value > _LARGEST or value & (value - 1):
        fail("\n".join([
            "",
            "%s: error DC310: %s cannot be %d" % (label, name, value),
            "  expected: a power of two from %d to %d" % (least, _LARGEST),
            "",
        ]))

def add_layout_arguments(ctx, args):
    """Adds what the attributes of a rule with LAYOUT_ATTRS say to the arguments of `delegatec lower`.

    Args:
        ctx: the rule's context.
        args: Args.
    """
    for name, least in _ALIGNMENTS.items():
        value = getattr(ctx.attr, name, None)
        if value != None:
            check_alignment(ctx.label, name, value, least)
            args.add(value, format = "--" + name.replace("_", "-") + "=%s")
    for name in ["plan_inputs", "plan_outputs"]:
        if not getattr(ctx.attr, name):
            args.add("--no-" + name.replace("_", "-"))
    for name in ["external_weights", "inline_delegates"]:
        if getattr(ctx.attr, name, False):
            args.add("--" + name.replace("_", "-"))
