# SPDX-License-Identifier: Apache-2.0
"""Files by where their bytes lie in memory, and how they are replaced. Imports no other package of ours."""

from delegatec.files.mapped_file import MappedFile as MappedFile
from delegatec.files.replacing import replaceable as replaceable
from delegatec.files.replacing import replacing as replacing
from delegatec.files.replacing import temporary_beside as temporary_beside
