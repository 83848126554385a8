"""Finds workflows: loads modules by name, by file or by folder, and collects what they hold.

Loading a module executes it, so only the process that will use it loads it. A module is loaded once, under one name,
whether it is given by name or by file. Errors name the file and line.
"""

from .files import is_ignored, python_files
from .finding import Found, discover, find_codec, survey

__all__ = ["Found", "discover", "find_codec", "is_ignored", "python_files", "survey"]
