"""Rows selected in a list."""

from uuid import UUID

from django.http import QueryDict

from dashboard.lists.query_box import as_id

MOST = 500  # the most selected rows in one form
# a question's parameters, which a list's links must not repeat
QUESTION_PARAMS = ("ask", "id")


def read_selection(data: QueryDict) -> list[UUID]:
    # Anything that is not an id is ignored.
    ids = [id for id in map(as_id, data.getlist("id")) if id]
    return list(dict.fromkeys(ids))[:MOST]


def list_url(target: str) -> str:
    path, _, query = target.partition("?")
    params = QueryDict(query, mutable=True)
    for name in QUESTION_PARAMS:
        params.pop(name, None)
    return f"{path}?{params.urlencode()}" if params else path
