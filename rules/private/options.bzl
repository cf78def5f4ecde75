# SPDX-License-Identifier: Apache-2.0
"""Options of backends: what the table of backends says of one, its attribute, its check, its arguments."""

def option(doc, default = "", values = []):
    """An option of a built-in backend, as `delegatec.delegation.OptionSpec` has it.

    Args:
        doc: one sentence for the user.
        default: its value if it is not set: a string, or a list, which makes the option a list of strings.
        values: the strings that are allowed; any if there are none.

    Returns:
        A struct of these.
    """
    return struct(default = default, doc = doc, values = values)

def option_attribute(spec):
    """The attribute of a rule that sets an option.

    Args:
        spec: an `option`.

    Returns:
        An attribute of a string, or of a list of strings.
    """
    make = attr.string if type(spec.default) == "string" else attr.string_list
    values = ["`%s`" % value for value in spec.values]
    return make(default = spec.default, doc = ": ".join(([" or ".join(values)] if values else []) + [spec.doc]))

def check_option(label, backend, known, name, value):
    """Fails unless a backend takes an option with this value.

    Args:
        label: the target, for the message.
        backend: the backend's name.
        known: dict of its options; None for a plug-in's, which the plug-in checks while it lowers.
        name: the option.
        value: a string or a list of strings.
    """
    values = [value] if type(value) == "string" else value
    for string in values:
        if "\n" in string:
            refuse(
                label,
                "DC402",
                "option \"%s\" of backend \"%s\" has a line break: \"%s\"" % (name, backend, string.replace("\n", "\\n")),
                expected = "one line",
            )
    if known == None:
        return
    if name not in known:
        refuse(
            label,
            "DC402",
            "backend \"%s\" has no option \"%s\"" % (backend, name),
            expected = ", ".join(sorted(known)) or "no options",
            help = did_you_mean(name, known),
        )
    spec = known[name]
    if type(value) != "string" and type(spec.default) == "string":
        refuse(
            label,
            "DC402",
            "option \"%s\" of backend \"%s\" must be one string, not %s" % (name, backend, value),
            expected = " or ".join(spec.values) or "one string",
            help = spec.doc,
        )
    for string in values:
        if spec.values and string not in spec.values:
            refuse(
                label,
                "DC402",
                "option \"%s\" of backend \"%s\" cannot be \"%s\"" % (name, backend, string),
                expected = " or ".join(spec.values),
                help = " ".join([text for text in [did_you_mean(string, spec.values), spec.doc] if text]),
            )

def option_arguments(options):
    """What the compiler's flag `--option` is given.

    Args:
        options: dict of option to a string or a list of strings.

    Returns:
        A list of `NAME=VALUE`, by name: one for each element of a list, and `NAME=` for an empty one.
    """
    return [
        "%s=%s" % (name, value)
        for name in sorted(options)
        for value in ([options[name]] if type(options[name]) == "string" else options[name] or [""])
    ]

def refuse(label, code, message, expected, help = ""):
    """Fails with a diagnostic as the compiler writes it.

    Args:
        label: the target.
        code: the diagnostic's code.
        message: what is wrong.
        expected: what would be right.
        help: what to do.
    """
    lines = ["", "%s: error %s: %s" % (label, code, message), "  expected: " + expected]
    fail("\n".join(lines + (["  help: " + help] if help else []) + [""]))

def did_you_mean(word, known):
    """A question for the nearest of some words.

    Args:
        word: what somebody wrote.
        known: what there is.

    Returns:
        "did you mean ...?", or nothing where no word is near.
    """
    near = sorted([(_distance(word, other), other) for other in known])
    if not near or 2 * near[0][0] > len(word):
        return ""
    return "did you mean \"%s\"?" % near[0][1]

def _distance(left, right):
    """How many letters are to be added, removed or replaced to make one word of the other."""
    row = range(len(right) + 1)
    for i in range(len(left)):
        above, row = row, [i + 1]
        for j in range(len(right)):
            replaced = above[j] + (0 if left[i] == right[j] else 1)
            row.append(min(above[j + 1] + 1, row[j] + 1, replaced))
    return row[len(right)]
