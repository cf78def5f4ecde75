# SPDX-License-Identifier: Apache-2.0
"""Files by where their bytes lie in memory. Imports nothing of ours."""

from delegatec.files.mapped_file import MappedFile as MappedFile
