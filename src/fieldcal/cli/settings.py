"""What the options that every command has say."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field


@dataclass
class Settings:
    """Filled while the arguments are parsed; every command has it as ``ctx.obj``."""

    json: bool = False
    quiet: bool = False
    debug: bool = False
    memory_limit: str | None = None
    threads: int | None = None
    warnings: list[str] = field(default_factory=list)  # those shown so far, for --json


#: The options that may stand before or after the command.
EVERYWHERE = tuple(f.name for f in dataclasses.fields(Settings) if f.name != "warnings")
