"""A static check of workflow bodies, by their syntax alone: no module of the user's is ever executed.

    sources      files, parsed; how modules of a project find each other
    bindings     where names get their meaning
    meanings     what a name or an expression stands for: `dt.now` is "datetime.datetime.now"
    bodies       which functions are bodies, and which helpers they call
    choices      what may be called by way of a table, a loop or a choice
    fields       fields of classes: what they hold, and what makes them
    loaded       what a module made when it was loaded
    hazards      what a body must not call, with its code and the fix
    unordered    iteration in an order that is another one in another process
    ties         sorting a set by a key that several of it may share
    awaits       durable calls that nobody awaits
    findings     what was found, and comments that allow it

A body is deterministic: replayed from its journal it must ask for the same things in the same order. What is found here
would break that, or would do real work outside a step. It is a check by syntax, so it knows what can be seen in the
text of a module: a hazard behind a function of another module is the test kit's to find.
"""

from .bodies import check
from .findings import CODES, Finding
from .sources import Project, files_of

__all__ = ["CODES", "Finding", "Project", "check", "files_of"]
