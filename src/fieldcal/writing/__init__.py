"""What is written is all old or all new, whatever happens in between.

Unfinished work is in scratch folders beside its place, each locked by its maker; a rename makes it count. What a maker
that was killed left behind is finished or removed by the next who writes to the same place.
"""

from fieldcal.writing.files import atomic_path, writable, write_atomically
from fieldcal.writing.folders import atomic_folder, check_own, nearest, write_together
from fieldcal.writing.scratch import Scratch

__all__ = [
    "Scratch",
    "atomic_folder",
    "atomic_path",
    "check_own",
    "nearest",
    "writable",
    "write_atomically",
    "write_together",
]
