# SPDX-License-Identifier: Apache-2.0
"""Attributes of a program that have no effect with the others, found before anything is built."""

load(":backends.bzl", "is_plugin")
load(":options.bzl", "problem")
load(":settings.bzl", "setting_name")

# Attributes about delegates -> their defaults.
_OF_DELEGATES = {
    "all_or_nothing": False,
    "allow_modules": [],
    "allow_operators": [],
    "block_modules": [],
    "block_operators": [],
    "delegate_alignment": 16,
    "inline_delegates": False,
    "maximum_delegates": -1,
    "minimum_nodes": 1,
}

def idle_problems(attributes, table, backends, options, plugin):
    """Returns what a program sets without any effect, for `fail_with_all`.

    Args:
        attributes: those of the rule.
        table: the built-in backends, from BackendTableInfo.
        backends: those of the program, of all methods.
        options: dict of option to its value, also those that flags set.
        plugin: targets that contain plug-ins.

    Returns:
        A list of `problem`.
    """
    problems = []
    for backend in backends:
        for name, spec in (table[backend].options.items() if backend in table else []):
            if not spec.needs:
                continue
            other, needed = spec.needs
            value = _value(backends, backend, options, name, spec.default)
            found = _value(backends, backend, options, other, table[backend].options[other].default)
            if value != spec.default and found != needed:
                help = spec.doc
                if table[backend].options[other].setting:
                    help = "if the flag //config:%s sets %s, choose %s by a select on the flag" % (setting_name(backend, other), other, name)
                problems.append(problem(
                    "DC423",
                    "option \"%s\" of backend \"%s\" has no effect with %s = \"%s\"" % (name, backend, other, found),
                    expected = "%s = \"%s\", or %s = \"%s\"" % (other, needed, name, spec.default),
                    help = help,
                ))
    if not backends:
        idle = [
            name
            for name, default in _OF_DELEGATES.items()
            if getattr(attributes, name, default) != default
        ]
        if idle:
            problems.append(problem(
                "DC423",
                "%s %s no effect without a backend that delegates" % (" and ".join(idle), "have" if len(idle) > 1 else "has"),
                expected = "a backend besides portable, or none of these attributes",
            ))
    if plugin and not [backend for backend in backends if is_plugin(backend)]:
        problems.append(problem(
            "DC423",
            "deps have no effect: no backend is a plug-in",
            expected = "module:attribute of a plug-in among the backends, or no deps",
        ))
    return problems

def _value(backends, backend, options, name, default):
    """Returns the value of an option, whose key need not name the only backend."""
    own = options.get(name, default) if len(backends) == 1 else default
    return options.get("%s.%s" % (backend, name), own)
