# SPDX-License-Identifier: Apache-2.0
"""Options of `ethos_u` that must fit each other, checked before anything is built.

The tables repeat `accelerator.py` and `flags.py` of `python/delegatec/backends/arm/ethos_u`;
//tests/rules:backends_test compares them.
"""

load(":options.bzl", "did_you_mean", "fail_with")

SYSTEMS = {
    "u55": ["Ethos_U55_Deep_Embedded", "Ethos_U55_High_End_Embedded"],
    "u65": ["Ethos_U65_Embedded", "Ethos_U65_Mid_End", "Ethos_U65_High_End", "Ethos_U65_Client_Server"],
    "u85": [
        "Ethos_U85_SYS_Flash_Low",
        "Ethos_U85_SYS_Flash_High",
        "Ethos_U85_SYS_DRAM_Low",
        "Ethos_U85_SYS_DRAM_Mid",
        "Ethos_U85_SYS_DRAM_High",
    ],
}

MEMORY_MODES = [
    "Sram_Only",
    "Shared_Sram",
    "Dedicated_Sram",
    "Dedicated_Sram_256KB",
    "Dedicated_Sram_384KB",
    "Dedicated_Sram_512KB",
]

# Their second memory is flash.
SYSTEMS_WITHOUT_DRAM = [
    "Ethos_U55_Deep_Embedded",
    "Ethos_U55_High_End_Embedded",
    "Ethos_U65_Embedded",
    "Ethos_U85_SYS_Flash_Low",
    "Ethos_U85_SYS_Flash_High",
]

# Mark of a family -> the default system and memory mode.
DEFAULTS = {
    "u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "u85": ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}

# Flag of Vela -> its values; none for a switch.
FLAGS = {
    "--arena-cache-size": ["INTEGER"],
    "--cpu-tensor-alignment": ["16", "32", "64", "128", "256", "512", "1024", "2048", "4096"],
    "--disable-buffering": [],
    "--disable-cascading": [],
    "--disable-chaining": [],
    "--disable-fwd": [],
    "--disable-ifm-reuse": [],
    "--experimental-softmax-int16-neg-exp-range": ["NUMBER"],
    "--force-symmetric-int-weights": [],
    "--hillclimb-max-iterations": ["INTEGER"],
    "--max-block-dependency": ["0", "1", "2", "3"],
    "--optimise": ["Size", "Performance"],
    "--recursion-limit": ["INTEGER"],
    "--tensor-allocator": ["LinearAlloc", "Greedy", "HillClimb"],
}

# Flag -> what determines it.
FLAGS_OF_THE_RULE = {
    "--accelerator-config": "the option accelerator",
    "--config": "the option config",
    "--cop-format": "the runtime, which reads COP1",
    "--memory-mode": "the option memory_mode",
    "--output-dir": "the build",
    "--output-format": "the runtime, which reads the raw format",
    "--separate-io-regions": "the runtime, which reads COP1",
    "--system-config": "the option system_config",
}

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
        ("system_config", SYSTEMS[accelerator.split("-")[1]]),
        ("memory_mode", MEMORY_MODES),
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
    system, mode = DEFAULTS[accelerator.split("-")[1]]
    system = options.get("system_config") or system
    chosen = options.get("memory_mode") or mode
    if system in SYSTEMS_WITHOUT_DRAM and chosen.startswith("Dedicated_Sram"):
        fail_with(
            label,
            "DC402",
            "memory mode \"%s\"%s needs DRAM, which system \"%s\" lacks" % (
                chosen,
                "" if options.get("memory_mode") else ", the default,",
                system,
            ),
            expected = " or ".join([each for each in MEMORY_MODES if not each.startswith("Dedicated_Sram")]),
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
                help = did_you_mean(flag, FLAGS.keys()) if flag not in FLAGS else "",
            )

def _flag_problem(flag, equals, value):
    """Returns what is wrong with a flag, if anything, and what is valid."""
    if flag in FLAGS_OF_THE_RULE:
        return "%s is determined by %s" % (flag, FLAGS_OF_THE_RULE[flag]), "flags that the rule does not set"
    if flag not in FLAGS:
        return "unknown flag \"%s\"" % flag, ", ".join(FLAGS)
    values = FLAGS[flag]
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
