"""What other modules of the corpus import: a decorator under another name, and steps."""

from holdfast import step
from holdfast import workflow as flow

from . import shared
from .shared import remote

__all__ = ["flow", "remote", "shared", "step"]
