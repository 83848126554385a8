"""What Holdfast offers over HTTP, as plain ASGI: no web framework is needed, and any that speaks ASGI can mount it.

execute     POST …/{run_id}/execute drives a run: for hosts that run code only while a request is open
"""

from .execute import execute_app

__all__ = ["execute_app"]
