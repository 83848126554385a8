"""A static check of workflow bodies. It reads only their syntax: no module of the user's is ever executed.

    sources      files, parsed; how modules of a project find each other
    bindings     where names get their meaning
    meanings     what a name or an expression stands for: `dt.now` is "datetime.datetime.now"
    bodies       which functions are bodies, and which helpers they call
    choices      what may be called through a table, a loop or a conditional
    fields       fields of classes: their types, and their factories
    loaded       values that a module made when it was loaded
    hazards      what a body must not call, with its code and the fix
    unordered    iteration whose order differs between processes
    ties         sorting a set by a key that its members may share
    awaits       durable calls that nobody awaits
    findings     what was found, and comments that allow it

A body is deterministic: replayed from its journal, it must ask for the same things in the same order. A finding would
break that, or do real work outside a step. The check sees only the text of a module; a hazard inside a function of
another module is for the test kit to find.
"""

from .bodies import check
from .findings import CODES, Finding
from .sources import Project, files_of

__all__ = ["CODES", "Finding", "Project", "check", "files_of"]
