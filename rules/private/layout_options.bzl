# SPDX-License-Identifier: Apache-2.0
"""Attributes that control the layout of a program file.

`delegatec.program.options` is the authority; the checks here run before anything is built.
"""

load(":options.bzl", "fail_with")

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
the program and shared by programs of all backends. Weights consumed by a delegate stay in its blob.
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
    "delegate_alignment": attr.int(
        default = 16,
        doc = "Alignment of each delegate's blob, in bytes: a power of two.",
    ),
    "inline_delegates": attr.bool(
        default = False,
        doc = "Whether the delegates' blobs are stored inside the FlatBuffer instead of in segments.",
    ),
}

_ALIGNMENTS = {"constant_alignment": 16, "delegate_alignment": 1, "segment_alignment": 1}

def check_alignment(label, name, value, least = 1):
    """Fails unless a value is a valid alignment.

    Args:
        label: the target, for the message.
        name: the attribute.
        value: an int.
        least: the smallest value.
    """
    if value < least or value > _LARGEST or value & (value - 1):
        fail_with(
            label,
            "DC310",
            "%s cannot be %d" % (name, value),
            expected = "a power of two from %d to %d" % (least, _LARGEST),
        )

def add_layout_arguments(ctx, args):
    """Adds the flags of LAYOUT_ATTRS to the arguments of `delegatec lower`.

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
    for name in ["channels_last_inputs", "channels_last_outputs", "external_weights", "inline_delegates"]:
        if getattr(ctx.attr, name, False):
            args.add("--" + name.replace("_", "-"))
