# SPDX-License-Identifier: Apache-2.0
"""`traced_actions`: actions of targets as data, for a test that runs them by itself."""

_ActionsInfo = provider(
    doc = "Actions of one target.",
    fields = {"actions": "list of Action."},
)

def _actions_impl(target, _ctx):
    return [_ActionsInfo(actions = target.actions)]

_actions = aspect(
    implementation = _actions_impl,
    doc = "Returns the actions of a target.",
)

def _is_file_of_its_own(file):
    # Bazel 4.2.3 adds a file to the inputs that stands for the runfiles of a tool, and that does not exist.
    return "/_middlemen/" not in file.path

def _traced_actions_impl(ctx):
    described = []
    files = []
    for target, mnemonic in ctx.attr.targets.items():
        found = [action for action in target[_ActionsInfo].actions if action.mnemonic == mnemonic]
        if len(found) != 1:
            fail("%s has %d actions with mnemonic %s, and 1 was expected" % (target.label, len(found), mnemonic))
        inputs = [file for file in found[0].inputs.to_list() if _is_file_of_its_own(file)]
        files.append(depset(inputs))
        described.append(struct(
            arguments = found[0].argv,
            environment = found[0].env,
            inputs = {file.path: file.short_path for file in inputs},
            outputs = [file.path for file in found[0].outputs.to_list()],
            target = target.label.name,
        ))
    description = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(description, json.encode(described))
    return [DefaultInfo(
        files = depset([description]),
        runfiles = ctx.runfiles([description], transitive_files = depset(transitive = files)),
    )]

traced_actions = rule(
    implementation = _traced_actions_impl,
    doc = "Writes `NAME.json`, a list of actions: arguments, environment, outputs, and inputs, which are runfiles.",
    attrs = {
        "targets": attr.label_keyed_string_dict(
            aspects = [_actions],
            doc = "Targets -> the mnemonic of one of their actions.",
            mandatory = True,
        ),
    },
)
