# SPDX-License-Identifier: Apache-2.0
"""Mapped files, and replacement of files. Imports no other package."""

from delegatec.files.companions import samples_path as samples_path
from delegatec.files.companions import sources_path as sources_path
from delegatec.files.kinds import HEAD_BYTES as HEAD_BYTES
from delegatec.files.kinds import kind_of_file as kind_of_file
from delegatec.files.mapped_file import MappedFile as MappedFile
from delegatec.files.replacing import check_regular as check_regular
from delegatec.files.replacing import replaceable as replaceable
from delegatec.files.replacing import replacing as replacing
from delegatec.files.replacing import temporary_beside as temporary_beside
