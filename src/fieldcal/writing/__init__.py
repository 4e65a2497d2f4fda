"""What is written is all old or all new, whatever happens in between."""

from fieldcal.writing.files import atomic_path, check_replaceable, write_atomically

__all__ = ["atomic_path", "check_replaceable", "write_atomically"]
