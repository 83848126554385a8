"""One run, one turn: `Execution.advance(inputs)` gives the turn to commit and the steps to begin. No I/O in here."""

from .commands import Advance, Command
from .divergence import describe, own_line
from .execution import Execution
from .runners import Runners
from .shapes import Shapes, shapes_of

__all__ = ["Advance", "Command", "Execution", "Runners", "Shapes", "describe", "own_line", "shapes_of"]
