"""The schema of problems: the body of every error response."""

from ninja import Schema
from pydantic import ConfigDict, Field


class ProblemOut(Schema):
    """An RFC 9457 problem with Tenfour's extension members."""

    type: str = Field(description="the address of a page about this code")
    title: str = Field(description="the kind of problem")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="what is wrong with this request")
    instance: str = Field(description="the request's path")
    code: str = Field(description="the error code that programs match")
    retryable: bool = Field(description="true if the same request may succeed later")
    hint: str = Field(description="what to do about it")
    request_id: str = Field(description="the request's id, which is also in the log")
    errors: list[dict[str, str]] | None = Field(
        None, description="the invalid values: the 'pointer' of each, and what is wrong"
    )
    retry_after_s: int | None = Field(
        None, description="seconds to wait before the next try, as in Retry-After"
    )
    current: str | int | None = Field(
        None, description="the state or version now, with 409 and 412"
    )
    allowed: list[str] | None = Field(None, description="the states that are possible from there")

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "example": {
                "type": "https://tenfour.example.org/problems/unknown_agent",
                "title": "Unknown agent",
                "status": 422,
                "detail": "No agent is called 'codr' in project 'default'. Nearest: coder.",
                "instance": "/v1/instructions",
                "code": "unknown_agent",
                "retryable": False,
                "hint": "Use one of the nearest names, or send 'register': true.",
                "request_id": "2f1c0b0f5b8f4b0fa0d7c9d1f2e3a4b5",
                "nearest": ["coder"],
            }
        },
    )
