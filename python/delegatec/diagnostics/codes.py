# SPDX-License-Identifier: Apache-2.0
"""The codes of all diagnostics. A code keeps its meaning for ever; a retired one is not used again.

Blocks: DC0xx environment and command line, DC1xx frontend, DC2xx edge program, DC3xx .pte program,
DC4xx delegation and backends, DC5xx verification.
"""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, str]] = {
    "DC001": "The command line is wrong.",
    "DC002": "A file of the command line cannot be read or written.",
    "DC003": "The compiler runs with another torch than it was written for.",
    "DC101": "The model's source file is missing.",
    "DC102": "A source file has a syntax error.",
    "DC103": "A module that is imported is not among the dependencies.",
    "DC104": "A source file raises while it is imported.",
    "DC105": "The entry is missing in the source file, or is not a function.",
    "DC106": "The entry raises.",
    "DC107": "The entry returns something else than a delegatec.Model.",
    "DC108": "An argument of delegatec.Model has the wrong form.",
    "DC109": "An example input has a type, dtype or device that a program cannot take.",
    "DC110": "The module does not run with its example inputs.",
    "DC111": "The module has a construct that torch.export cannot trace.",
    "DC112": "The module's control flow depends on values of its inputs.",
    "DC113": "dynamic_shapes do not fit the module or its example inputs.",
    "DC114": "A dimension of an input is dynamic without an upper bound.",
    "DC115": "A data file is not declared, or is missing.",
    "DC116": "A checkpoint cannot be read.",
    "DC117": "A checkpoint does not fit the module.",
    "DC118": "An operator runs in training mode.",
    "DC119": "The module holds something that an exported program cannot store.",
    "DC120": "A .pt2 archive cannot be read.",
    "DC121": "A program calls an operator that is not registered.",
    "DC201": "An operator has no kernel in the runtime, and no decomposition to operators that have one.",
    "DC202": "A kernel of the runtime does not take a value of this dtype.",
    "DC203": "A dimension is dynamic without an upper bound.",
    "DC205": "The program has a construct that cannot be lowered yet.",
    "DC301": "A value has a type that a .pte program cannot hold.",
    "DC302": "An argument of an operator has a form that its kernel does not take.",
    "DC350": "The file is not a .pte program.",
    "DC351": "A .pte file is cut off.",
    "DC352": "A .pte file is damaged.",
    "DC353": "Indices inside of a .pte file contradict each other.",
    "DC354": "A .pte file was made for another version of the format.",
    "DC401": "No backend has this name or id.",
    "DC402": "A backend has no such option, or the option cannot have this value.",
    "DC403": "A backend plug-in is missing, or what it names is not a backend.",
    "DC404": "A partitioner edited the program, or made groups that cannot become delegates.",
    "DC405": "A program was to be lowered whole, and has a node that the backend does not take.",
    "DC406": "A weight is beyond the range of the dtype that it is to be converted to.",
    "DC407": "A delegate's blob is damaged or not of the format.",
    "DC408": "A delegate's blob asks for what its runtime cannot do.",
    "DC501": "A program needs a kernel or a backend that this host cannot run.",
    "DC502": "An output of the program differs from eager by more than the tolerance.",
    "DC503": "An output of the program has another shape or dtype than in eager.",
    "DC504": "Inputs do not fit the method.",
    "DC505": "An instruction of the program failed.",
    "DC506": "The memory plan lets an instruction overwrite what it still reads.",
    "DC507": "The program and the model it was made of have different methods, inputs or outputs.",
    "DC508": "The tolerance is so large that a program which returns zeros would pass.",
}
