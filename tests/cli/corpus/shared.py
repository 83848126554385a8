"""A step that others import."""

from holdfast import step


@step
async def remote(card: str) -> str:
    return card
