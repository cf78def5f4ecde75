# SPDX-License-Identifier: Apache-2.0
"""Programs in C++ apps: a header with a class for a program, and the check of what its app links."""

from delegatec.app.arenas import arenas_from_json as arenas_from_json
from delegatec.app.assembly import assembly as assembly
from delegatec.app.header import Location as Location
from delegatec.app.header import header as header
from delegatec.app.identifiers import identifier as identifier
from delegatec.app.links import link_problems as link_problems
from delegatec.app.shapes import shapes_from_json as shapes_from_json
