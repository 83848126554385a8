"""The test kit. The store contract as tests is `holdfast.testing.contract`, imported for itself: it needs pytest."""

__all__ = []
