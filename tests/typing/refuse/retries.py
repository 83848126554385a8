"""Retry policies that must not type-check."""

from holdfast.model import Retry

Retry(attempts="3")  # refused: Argument "attempts" to "Retry" has incompatible type "str"
Retry(kind="quadratic")  # refused: Argument "kind" to "Retry" has incompatible type
Retry(on=(int,))  # refused: Argument "on" to "Retry" has incompatible type
Retry(tries=3)  # refused: Unexpected keyword argument "tries" for "Retry"
Retry().attempts = 4  # refused: Property "attempts" defined in "Retry" is read-only
