# SPDX-License-Identifier: Apache-2.0
"""Options of `ethos_u` that must fit each other, checked before anything is built.

`delegatec.backends.arm.ethos_u` is the authority.
"""

load(
    ":compiler_tables.bzl",
    "ETHOS_U_DEFAULTS",
    "ETHOS_U_MEMORY_MODES",
    "ETHOS_U_SYSTEMS",
    "ETHOS_U_SYSTEMS_WITHOUT_DRAM",
    "VELA_FLAGS",
    "VELA_FLAGS_OF_THE_RULE",
)
load(":options.bzl", "did_you_mean", "fail_with")

def check_ethos_u_options(label, options, defaults):
    """Fails unless Vela has the flags, and the system and the memory mode exist for the accelerator.

    Args:
        label: the target, for the message.
        options: dict of option to its value, those that the target sets.
        defaults: dict of option to `option`.
    """
    _check_flags(label, options.get("extra_flags") or "")
    if options.get("config"):
        for name in ["system_config", "memory_mode"]:
            if not options.get(name):
                fail_with(
                    label,
                    "DC402",
                    "option \"%s\" is not set, and option \"config\" replaces its default" % name,
                    expected = "a name in the configuration file",
                )
        return
    accelerator = options.get("accelerator") or defaults["accelerator"].default
    for name, valid in [
        ("system_config", ETHOS_U_SYSTEMS[accelerator.split("-")[1]]),
        ("memory_mode", ETHOS_U_MEMORY_MODES),
    ]:
        value = options.get(name)
        if value and value not in valid:
            fail_with(
                label,
                "DC402",
                "option \"%s\" cannot be \"%s\" for %s" % (name, value, accelerator),
                expected = " or ".join(valid),
                help = did_you_mean(value, valid) or "a board's own names are those of its option \"config\"",
            )
    system, mode = ETHOS_U_DEFAULTS[accelerator.split("-")[1]]
    system = options.get("system_config") or system
    chosen = options.get("memory_mode") or mode
    if system in ETHOS_U_SYSTEMS_WITHOUT_DRAM and chosen.startswith("Dedicated_Sram"):
        fail_with(
            label,
            "DC402",
            "memory mode \"%s\"%s needs DRAM, which system \"%s\" lacks" % (
                chosen,
                "" if options.get("memory_mode") else ", the default,",
                system,
            ),
            expected = " or ".join([each for each in ETHOS_U_MEMORY_MODES if not each.startswith("Dedicated_Sram")]),
        )

def _check_flags(label, text):
    """Fails unless Vela has each flag, with such a value. The compiler checks texts with quotes."""
    if "'" in text or "\"" in text or "\\" in text:
        return
    words = []
    for word in [each for each in text.replace("\t", " ").replace("\n", " ").split(" ") if each]:
        if words and not word.startswith("--") and "=" not in words[-1]:
            words[-1] += "=" + word
        else:
            words.append(word)
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        problem, expected = _flag_problem(flag, equals, value)
        if not problem and flag in [each.partition("=")[0] for each in words[:index]]:
            problem, expected = "%s is set twice" % flag, "it once"
        if problem:
            fail_with(
                label,
                "DC402",
                "option \"extra_flags\" cannot be \"%s\": %s" % (text, problem),
                expected = expected,
                help = did_you_mean(flag, VELA_FLAGS.keys()) if flag not in VELA_FLAGS else "",
            )

def _flag_problem(flag, equals, value):
    """Returns what is wrong with a flag, if anything, and what is valid."""
    if flag in VELA_FLAGS_OF_THE_RULE:
        return "%s is determined by %s" % (flag, VELA_FLAGS_OF_THE_RULE[flag]), "flags that the rule does not set"
    if flag not in VELA_FLAGS:
        return "unknown flag \"%s\"" % flag, ", ".join(VELA_FLAGS)
    values = VELA_FLAGS[flag]
    if not values:
        return ("%s has no value" % flag if equals else ""), flag
    if values == ["INTEGER"]:
        fits = value.isdigit()
    elif values == ["NUMBER"]:
        digits = value.split(".")
        fits = len(digits) < 3 and not [each for each in digits if not each.isdigit()]
    else:
        fits = value in values
    return ("" if fits else "%s cannot be \"%s\"" % (flag, value)), " or ".join(values)
