# SPDX-License-Identifier: Apache-2.0
"""Runs the compiler in an action, in a persistent worker if possible."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":delegatec_toolchain.bzl", "INTERPRETER_FLAGS")
load(":labels.bzl", "label_text")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_STARTUP = INTERPRETER_FLAGS + ["-m", "delegatec"]

_REQUIREMENTS = {"block-network": "1"}

_WORKER_REQUIREMENTS = dict(_REQUIREMENTS, **{
    "requires-worker-protocol": "proto",
    "supports-workers": "1",
    # Export and lowering share one pool of workers, so that torch is loaded once.
    "worker-key-mnemonic": "Delegatec",
})

# What a rule needs for `delegatec_action`, besides the toolchain. Not the toolchain's: flags have their defaults there.
ACTION_ATTRS = {
    "_workers": attr.label(
        default = "//config:workers",
        providers = [BuildSettingInfo],
    ),
}

def delegatec_arguments(ctx, verb):
    """Returns arguments of the compiler for `delegatec_action`, to be completed by a rule.

    They reach the compiler in a parameter file, one per line. Add arbitrary text as one argument with its flag
    (`format = "--entry=%s"`): in a worker's request Bazel replaces each argument that starts with `@`, such as a
    label in another repository, with the contents of a file of that name.

    Args:
        ctx: the rule's context.
        verb: the compiler's verb, such as "lower".

    Returns:
        Args with the verb and the target's label.
    """
    args = ctx.actions.args()
    args.set_param_file_format("multiline")
    args.use_param_file("@%s", use_always = True)
    args.add_all([verb, "--label=" + label_text(ctx.label)])
    return args

def action_requirements(ctx):
    """Returns the execution requirements of an action that runs the compiler.

    Args:
        ctx: the context of a rule with ACTION_ATTRS.

    Returns:
        A dict of strings.
    """
    return _WORKER_REQUIREMENTS if ctx.attr._workers[BuildSettingInfo].value else _REQUIREMENTS

def delegatec_action(ctx, mnemonic, args, inputs, outputs, progress_message, sources = None, backends = []):
    """Declares an action that runs the compiler.

    Args:
        ctx: the context of a rule with ACTION_ATTRS that has the delegatec toolchain.
        mnemonic: the action's mnemonic.
        args: Args from `delegatec_arguments`.
        inputs: depset of File that the verb reads.
        outputs: list of File that it writes.
        progress_message: what Bazel shows while the action runs.
        sources: File of the program's lines, for messages of errors only: if it alone changes, Bazel does not
            run the action again.
        backends: list of packages of the built-in backends that the verb uses.
    """
    unused = None
    if sources:
        unused = ctx.actions.declare_file("_unused/%s.%s" % (ctx.label.name, mnemonic))
        args.add(sources, format = "--sources=%s")
        args.add(unused, format = "--unused-inputs=%s")
        inputs = depset([sources], transitive = [inputs])
        outputs = outputs + [unused]
    compiler = ctx.toolchains[DELEGATEC_TOOLCHAIN_TYPE].delegatec
    args.add(",".join(backends), format = "--builtin-backends=%s")
    ctx.actions.run(
        arguments = _STARTUP + [args],
        env = compiler.environment,
        executable = compiler.tool,
        execution_requirements = action_requirements(ctx),
        inputs = depset(transitive = [compiler.inputs, inputs] + [compiler.backends[each] for each in backends if each in compiler.backends]),
        mnemonic = mnemonic,
        outputs = outputs,
        progress_message = progress_message,
        # Without this, Bazel 4.2.3 looks for executables among the inputs of each action.
        tools = [],
        unused_inputs_list = unused,
    )
