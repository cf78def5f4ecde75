# SPDX-License-Identifier: Apache-2.0
"""Reader of untrusted FlatBuffers."""

from delegatec.flatbuffer.guard import Table as Table
from delegatec.flatbuffer.guard import fail as fail
from delegatec.flatbuffer.guard import unpack as unpack
