"""The schema of problems: the body of every error response."""

from ninja import Schema
from pydantic import ConfigDict


class ProblemOut(Schema):
    """An RFC 9457 problem with Tenfour's extension members."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    retryable: bool
    hint: str
    request_id: str

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
