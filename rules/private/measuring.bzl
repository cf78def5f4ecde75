# SPDX-License-Identifier: Apache-2.0
"""What `program_profile` and `program_benchmark` have in common: commands that run a program and measure it."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":app_kernels.bzl", "module_flags")
load(":backends.bzl", "is_plugin")
load(":labels.bzl", "label_text")
load(":launcher.bzl", "delegatec_launcher", "quoted", "runfiles_path")

MEASURED_ATTRS = {
    "program": attr.label(
        mandatory = True,
        doc = "The program.",
        providers = [DelegateProgramInfo],
    ),
}

def measuring_launcher(ctx, tools = {}, baseline = None, words = []):
    """Declares an executable that runs `delegatec profile`.

    Args:
        ctx: the context of a rule with MEASURED_ATTRS and the delegatec toolchain.
        tools: dict of a flag to the target of an executable; with "runner", the program can run.
        baseline: the target of a program that runs, too, or None.
        words: further arguments, quoted.

    Returns:
        A list of providers.
    """
    info = ctx.attr.program[DelegateProgramInfo]
    kernels = info.exported.kernels
    infos = [info]
    files = {"debug": info.debug, "pte": info.program}
    if "runner" in tools:
        files["program"] = info.exported.program
        if info.exported.samples:
            files["samples-file"] = info.exported.samples
        if info.weights:
            files["ptd"] = info.weights
        words = words + module_flags(kernels)
    if baseline:
        other = baseline[DelegateProgramInfo]
        infos.append(other)
        files.update({"baseline": other.program, "baseline-debug": other.debug})
        if other.weights:
            files["baseline-ptd"] = other.weights
    for flag, target in tools.items():
        files[flag] = target[DefaultInfo].files_to_run.executable
    plugins = [quoted("--backend=" + backend) for each in infos for backend in each.backends if is_plugin(backend)]
    return [delegatec_launcher(
        ctx,
        arguments = [quoted("--label=" + label_text(ctx.attr.program.label))] +
                    ["--%s=%s" % (flag, runfiles_path(ctx, file)) for flag, file in files.items()] +
                    depset(plugins).to_list() + words,
        files = files.values(),
        imports = depset(transitive = [each.plugin_imports for each in infos] + [kernels.imports]),
        plugin_files = depset(transitive = [each.plugin_files for each in infos] + [kernels.files] + [
            target[DefaultInfo].default_runfiles.files
            for target in tools.values()
        ]),
        verb = "profile",
    )]

def executables(targets):
    """Returns those targets that have an executable: `//runtime:no_runner` has none.

    Args:
        targets: dict of a name to a target or None.
    """
    return {
        name: target
        for name, target in targets.items()
        if target and target[DefaultInfo].files_to_run and target[DefaultInfo].files_to_run.executable
    }
