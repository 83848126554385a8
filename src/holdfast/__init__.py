"""Holdfast: durable execution for Python. Write a long-running process as a plain function; it survives crashes."""
