# SPDX-License-Identifier: Apache-2.0
"""Executables that run the compiler from their runfiles."""

load(":delegatec_toolchain.bzl", "FIXED_ENVIRONMENT", "INTERPRETER_FLAGS")
load(":labels.bzl", "label_text")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

LAUNCHER_ATTRS = {
    "_launcher": attr.label(
        default = "//rules/private:launcher.sh.tpl",
        allow_single_file = True,
    ),
}

def runfiles_path(ctx, file):
    """Returns a file's path in the runfiles tree, quoted for the launcher's shell.

    Args:
        ctx: the rule's context.
        file: a File.

    Returns:
        A quoted string that starts with the variable of the tree's root.
    """
    path = file.short_path
    return "\"$runfiles/%s\"" % (path[len("../"):] if path.startswith("../") else ctx.workspace_name + "/" + path)

def delegatec_launcher(ctx, verb, arguments, files, imports = depset(), plugin_files = depset()):
    """Declares an executable that runs `delegatec VERB ARGUMENTS`, followed by its own arguments.

    Args:
        ctx: the context of a rule with LAUNCHER_ATTRS and the delegatec toolchain.
        verb: the compiler's verb, such as "inspect".
        arguments: list of words for the shell.
        files: list of File that the verb reads.
        imports: depset of import paths besides the compiler's.
        plugin_files: depset of File that these paths contain.

    Returns:
        DefaultInfo.
    """
    compiler = ctx.toolchains[DELEGATEC_TOOLCHAIN_TYPE].delegatec
    launcher = ctx.actions.declare_file(ctx.label.name)
    roots = depset(transitive = [compiler.imports, imports]).to_list()
    ctx.actions.expand_template(
        is_executable = True,
        output = launcher,
        substitutions = {
            "%{command}": " ".join(
                [runfiles_path(ctx, compiler.interpreter)] +
                INTERPRETER_FLAGS + ["-m", "delegatec", verb] + arguments,
            ),
            "%{environment}": "\n".join([
                "export %s=%s" % (name, value)
                for name, value in sorted(FIXED_ENVIRONMENT.items())
            ]),
            "%{label}": label_text(ctx.label),
            "%{python_path}": ":".join(["$runfiles/" + root for root in roots]),
        },
        template = ctx.file._launcher,
    )
    return DefaultInfo(
        executable = launcher,
        runfiles = ctx.runfiles(files, transitive_files = depset(transitive = [compiler.inputs, plugin_files])),
    )
