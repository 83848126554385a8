"""Finding workflows: modules are loaded by name, by file or by folder, and what stands in them is collected.

Loading a module executes it, so this happens in the process that is going to work with it, and in no other. A module
has one name, however it was named: a file that was loaded already is not loaded a second time. Whatever is wrong is
an error that says in which file and line.
"""

from .finding import Found, discover, find_codec, survey

__all__ = ["Found", "discover", "find_codec", "survey"]
