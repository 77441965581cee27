"""Schemas of imports of transcripts."""

from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.schemas.sessions.session import SESSION, TRACKER, SessionOut, session_out
from ledger.sessions.importing import Imported
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


class SkippedLineOut(Schema):
    line: int = Field(description="the line's number in the file")
    detail: str = Field(description="why it can't be read")


class SessionImportedOut(Schema):
    session: SessionOut = Field(description="the session")
    created: bool = Field(description="true if this import created the session")
    format: Literal["claude", "codex"] = Field(description="the program that wrote the lines")
    lines: int = Field(description="number of lines that were read, without blank ones")
    messages: int = Field(description="number of messages in these lines")
    added: int = Field(description="number of messages that the session did not have")
    cut_line: int | None = Field(
        description="number of the last line if it is incomplete and was left out, or null"
    )
    skipped: int = Field(description="number of other lines that can't be read and were left out")
    skipped_lines: list[SkippedLineOut] = Field(description="these lines, the first 100 of them")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "session": SESSION,
                "created": True,
                "format": "claude",
                "lines": 20,
                "messages": 14,
                "added": 14,
                "cut_line": None,
                "skipped": 1,
                "skipped_lines": [{"line": 7, "detail": "it is not UTF-8 at byte 1."}],
            }
        }
    )


def imported_out(imported: Imported, **more: Any) -> dict[str, Any]:
    transcript = imported.transcript
    return {
        "session": session_out(imported.session, **more),
        "created": imported.is_new,
        "format": transcript.format,
        "lines": transcript.lines,
        "messages": len(transcript.messages),
        "added": imported.added,
        "cut_line": transcript.cut_line,
        "skipped": transcript.skipped,
        "skipped_lines": [
            {"line": each.line, "detail": each.detail} for each in transcript.bad_lines
        ],
    }
