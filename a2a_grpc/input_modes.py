"""The media types that an agent reads, by its card."""

from .errors import ContentTypeNotSupportedError, quote
from .generated.a2a_pb2 import AgentCard, Message


class InputModes:
    """Those of the card and of its skills, compared without parameters."""

    def __init__(self, card: AgentCard) -> None:
        modes = [*card.default_input_modes, *(mode for skill in card.skills for mode in skill.input_modes)]
        self._modes = frozenset(_bare(mode) for mode in modes)

    def check(self, message: Message) -> None:
        """Raises ContentTypeNotSupportedError for the first part of another type. Parts without a type pass."""
        for index, part in enumerate(message.parts):
            if part.media_type and not self._accepts(_bare(part.media_type)):
                accepted = ", ".join(sorted(self._modes))
                what = f"message.parts[{index}]: media type {quote(part.media_type)}"
                raise ContentTypeNotSupportedError(f"{what} is not supported; accepted: {accepted}")

    def _accepts(self, media_type: str) -> bool:
        return not self._modes.isdisjoint((media_type, media_type.partition("/")[0] + "/*", "*/*"))


def _bare(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
