"""Schemas of imports of transcripts."""

from typing import Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from ledger.schemas.sessions.session import TRACKER, SessionOut
from ledger.schemas.shapes import Part, Shape, field
from ledger.sessions.storing import EXTERNAL_ID_LENGTH


class SessionImportQuery(Schema):
    agent: str | None = Field(
        None, description="the agent's name; an agent's own token may leave it out"
    )
    external_id: str | None = Field(
        None,
        max_length=EXTERNAL_ID_LENGTH,
        description="the session's id; without one, it is the id in the transcript",
    )
    tracker: Literal["todo", "llm", "none"] = Field("todo", description=TRACKER)
    attempt: UUID | None = Field(
        None, description="the attempt that the messages belong to, if it is one of the agent's"
    )
    format: Literal["claude", "codex"] | None = Field(
        None, description="the program that wrote the lines; without it, they tell by themselves"
    )
    first_line: int = Field(
        1,
        ge=1,
        le=10**9,
        description="number of the first line, for a part of a file; errors count from it",
    )


class SkippedLineOut(Part):
    line: int = field("the line's number in the file", 7)
    detail: str = field("why it can't be read", "it is not UTF-8 at byte 1.")


class SessionImportedOut(Shape):
    session: SessionOut = field("the session", given=True)
    created: bool = field("true if this import created the session", True, source="is_new")
    format: Literal["claude", "codex"] = field(
        "the program that wrote the lines", "claude", source="transcript.format"
    )
    lines: int = field(
        "number of lines that were read, without blank ones", 20, source="transcript.lines"
    )
    messages: int = field(
        "number of messages in these lines", 14, source=lambda row: len(row.transcript.messages)
    )
    added: int = field("number of messages that the session did not have", 14)
    cut_line: int | None = field(
        "number of the last line if it is incomplete and was left out, or null",
        source="transcript.cut_line",
    )
    skipped: int = field(
        "number of other lines that can't be read and were left out", 1, source="transcript.skipped"
    )
    skipped_lines: list[SkippedLineOut] = field(
        "these lines, the first 100 of them", source="transcript.bad_lines"
    )
