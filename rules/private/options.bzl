# SPDX-License-Identifier: Apache-2.0
"""Options of backends: their declaration, attribute, check and command-line arguments."""

load(":labels.bzl", "label_text")

def option(doc, default = "", values = [], file = [], host = "", needs = [], setting = False):
    """Declares an option of a built-in backend, like `delegatec.delegation.OptionSpec`.

    Args:
        doc: one sentence for the user.
        default: the value if the option is not set: a string, or a list for a list of strings.
        values: the allowed strings; any if empty. Of a file, names that macros replace by labels.
        file: the extensions of files, such as ".ini", if the value is the path of a file: the attribute is its label.
        host: the value for a program that runs on this host, if others do not.
        needs: another option and its value without which only the default has an effect.
        setting: whether a flag, `//config:BACKEND_OPTION`, sets the value of programs that do not.

    Returns:
        A struct of these.
    """
    return struct(default = default, doc = doc, file = file, host = host, needs = needs, setting = setting, values = values)

def option_attribute(spec, flag = ""):
    """Returns the attribute of a rule that sets an option.

    Args:
        spec: an `option`.
        flag: the flag that sets the value of programs that do not, for the documentation.

    Returns:
        A `string` or `string_list` attribute.
    """
    values = ["`%s`" % value for value in spec.values]
    doc = ": ".join(([" or ".join(values)] if values else []) + [spec.doc])
    if spec.file:
        return attr.label(allow_single_file = spec.file, doc = doc)
    make = attr.string if type(spec.default) == "string" else attr.string_list
    if spec.setting:
        return make(doc = "%s; by default as the flag `%s`, or `%s`" % (doc, flag, spec.default))
    return make(default = spec.default, doc = doc)

def option_problems(backend, known, name, value):
    """Returns why a backend does not accept an option with this value, for `fail_with_all`.

    Args:
        backend: the backend's name.
        known: dict of its options; None for a plug-in, which checks its options while it lowers.
        name: the option's name.
        value: a string, a list of strings, or a File.

    Returns:
        A list of `problem`; empty if it does.
    """
    values = [value] if type(value) == "string" else [] if type(value) == "File" else value
    problems = [
        problem(
            "DC402",
            "option \"%s\" of backend \"%s\" has a line break: \"%s\"" % (name, backend, string.replace("\n", "\\n")),
            expected = "one line",
        )
        for string in values
        if "\n" in string
    ]
    if problems or known == None:
        return problems
    if name not in known:
        return [problem(
            "DC402",
            "backend \"%s\" has no option \"%s\"" % (backend, name),
            expected = ", ".join(sorted(known)) or "no options",
            help = did_you_mean(name, known),
        )]
    spec = known[name]
    if type(value) == "File":
        return []
    if spec.file and value in spec.values:
        return []
    if spec.file:
        return [problem(
            "DC402",
            "option \"%s\" of backend \"%s\" is a file" % (name, backend),
            expected = " or ".join(spec.values + ["attribute \"%s\" of %s_program" % (name, backend)]),
            help = did_you_mean(value, spec.values) if type(value) == "string" else "",
        )]
    if type(value) != "string" and type(spec.default) == "string":
        return [problem(
            "DC402",
            "option \"%s\" of backend \"%s\" must be one string, not %s" % (name, backend, value),
            expected = " or ".join(spec.values) or "one string",
            help = spec.doc,
        )]
    return [
        problem(
            "DC402",
            "option \"%s\" of backend \"%s\" cannot be \"%s\"" % (name, backend, string),
            expected = " or ".join(spec.values),
            help = " ".join([text for text in [did_you_mean(string, spec.values), spec.doc] if text]),
        )
        for string in values
        if spec.values and string not in spec.values
    ]

def option_arguments(options):
    """Returns the values of the compiler's flag `--option`.

    Args:
        options: dict of option to a string or a list of strings.

    Returns:
        A list of `NAME=VALUE`, sorted by name: one per element of a list, and `NAME=` for an empty list.
    """
    return [
        "%s=%s" % (name, value)
        for name in sorted(options)
        for value in ([options[name]] if type(options[name]) == "string" else options[name] or [""])
    ]

def fail_with(label, code, message, expected, help = ""):
    """Fails with a diagnostic in the compiler's format.

    Args:
        label: the target: a Label, or its text in a macro.
        code: the diagnostic's code.
        message: what is wrong.
        expected: a description of valid values.
        help: what to do.
    """
    fail_with_all(label, [problem(code, message, expected, help)])

def problem(code, message, expected, help = ""):
    """Returns a diagnostic for `fail_with_all`.

    Args:
        code: the diagnostic's code.
        message: what is wrong.
        expected: a description of valid values.
        help: what to do.
    """
    return struct(code = code, expected = expected, help = help, message = message)

def fail_with_all(label, problems):
    """Fails with all diagnostics of a target, if there are any.

    Args:
        label: the target: a Label, or its text in a macro.
        problems: a list of `problem`.
    """
    target = label if type(label) == "string" else label_text(label)
    lines = []
    for each in problems:
        lines.append("%s: error %s: %s" % (target, each.code, each.message))
        lines.append("  expected: " + each.expected)
        if each.help:
            lines.append("  help: " + each.help)
    if lines:
        fail("\n".join([""] + lines + [""]))

def did_you_mean(word, known):
    """Suggests the known word closest to a misspelled one.

    Args:
        word: the user's word.
        known: the valid words.

    Returns:
        "did you mean ...?", or an empty string if no word is close.
    """
    near = sorted([(_distance(word, other), other) for other in known])
    if not near or 2 * near[0][0] > len(word):
        return ""
    return "did you mean \"%s\"?" % near[0][1]

def _distance(left, right):
    """Returns the Levenshtein distance of two words."""
    row = range(len(right) + 1)
    for i in range(len(left)):
        above, row = row, [i + 1]
        for j in range(len(right)):
            replaced = above[j] + (0 if left[i] == right[j] else 1)
            row.append(min(above[j + 1] + 1, row[j] + 1, replaced))
    return row[len(right)]
