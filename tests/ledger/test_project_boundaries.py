"""Tables, keys and sequences that cross projects: what `docs/scaling.md` says about them.

A distributed PostgreSQL would keep each project's rows on one server, by `project_id`. A unique or
foreign key works there only if it includes that column.
"""

import re
from collections import Counter
from typing import Any

import pytest

from config.local.places import PROJECT
from ledger.database import sql
from retries.retention.projects.tables import TABLES

pytestmark = pytest.mark.django_db

PUBLIC = "relnamespace = 'public'::regnamespace and not relispartition"
COLUMNS = f"""select relname::text as table, attname::text as column, attnotnull as is_required
from pg_attribute join pg_class c on c.oid = attrelid
where {PUBLIC} and relkind in ('r', 'p') and attnum > 0"""
UNIQUE_KEYS = f"""select relname::text as table, x.indexrelid::regclass::text as name,
    array(select attname::text from pg_attribute
        where attrelid = c.oid and attnum = any(x.indkey[:x.indnkeyatts - 1])) as columns
from pg_index x join pg_class c on c.oid = x.indrelid where x.indisunique and {PUBLIC}"""
FOREIGN_KEYS = f"""select relname::text as table, confrelid::regclass::text as target,
    array(select attname::text from pg_attribute
        where attrelid = c.oid and attnum = any(conkey)) as columns
from pg_constraint join pg_class c on c.oid = conrelid where contype = 'f' and {PUBLIC}"""
SEQUENCES = f"""select relname::text as name, (select refobjid::regclass::text from pg_depend d
    where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.refobjsubid > 0) as table
from pg_class c where relkind = 'S' and {PUBLIC}"""

# tables of no project: of people, of sign-in, of Django, or of the instance
OF_PEOPLE = re.compile(
    r"(account|auth|django|socialaccount)_\w+"
    r"|ledger_(preference|signin|signinrecord)|retries_quiethours"
)
OF_INSTANCE = {"ledger_clockrun", "retries_streamcursor"}
# exception -> its reason
SOME_ROWS_OF_NO_PROJECT = {
    "retries_channel": "a person's own channels",
    "retries_notificationrule": "the rules of a person's own channels",
    "retries_delivery": "messages to a person's own channels",
    "retries_deliverytry": "tries of those messages",
    "retries_deliverytally": "counts of those messages",
    "retries_operation": "an operation can span projects",
    "retries_operationitem": "items of such an operation",
    "retries_tasktarget": "an earlier version names an agent's project by the agent alone",
}
UNIQUE_IN_ALL_PROJECTS = {
    "ledger_project_name_key": "a project is addressed by its name",
    "ledger_token_digest_key": "a token is looked up before its project is known",
    "ledger_invitation_digest_key": "an invitation is looked up before its project is known",
    "idempotency_key_of_form_unique": "a form's random key is looked up before its project is known",
}
# columns without a foreign key that name a row of one project
REFER_WITHOUT_KEY = {
    ("ledger_session", "agent_id"),
    ("retries_activitycount", "agent_id"),
    ("retries_ongoingcondition", "subject_id"),
}
TO_PEOPLE = {
    ("ledger_membership", "user_id"): "a member's role",
    ("ledger_invitation", "accepted_by_id"): "the person who accepted",
    ("retries_escalation", "assignee_id"): "the person it is assigned to",
    ("retries_failurepattern", "assignee_id"): "the person it is assigned to",
    ("retries_channel", "person_id"): "the channel's owner",
}
SHARED_SEQUENCES = {
    "ledger_instruction_position": "orders an agent's instructions",
    "ledger_idempotencykey_id_seq": "an ID",
    "retries_deliverytally_id_seq": "an ID",
    "retries_deliverytry_id_seq": "an ID",
    "retries_metrictotal_id_seq": "an ID",
    "retries_ongoingcondition_id_seq": "an ID",
}


def parent_column(table: str) -> str:
    """Return the column by which a table's rows of a project are found."""
    found = re.match(r"\(?(\w+)", TABLES[table])
    assert found
    return found[1]


def list_in_projects(query: str) -> list[dict[str, Any]]:
    return [row for row in sql.run(query) if row["table"] in TABLES]


def referring_columns() -> set[tuple[str, str]]:
    """Return the columns that name a row of a project."""
    keys = list_in_projects(FOREIGN_KEYS)
    by_key = {(key["table"], key["columns"][0]) for key in keys if key["target"] in TABLES}
    by_parent = {(table, parent_column(table)) for table in TABLES.keys() - {"ledger_project"}}
    return by_key | by_parent | REFER_WITHOUT_KEY


def assert_documented(row: str) -> None:
    assert f"| {row} |" in (PROJECT / "docs" / "scaling.md").read_text(), row


def test_tables() -> None:
    rows = sql.run(COLUMNS)
    of_none = {row["table"] for row in rows} - TABLES.keys()
    assert {table for table in of_none if not OF_PEOPLE.fullmatch(table)} == OF_INSTANCE
    own = {row["table"]: row["is_required"] for row in rows if row["column"] == "project_id"}
    assert not own.keys() - TABLES.keys()
    some = {table for table in TABLES if not is_always_of_a_project(table, own)}
    assert some == SOME_ROWS_OF_NO_PROJECT.keys()
    direct = own.keys() - some
    by_parent = TABLES.keys() - direct - some - {"ledger_project"}
    assert_documented(
        f"Tables of a project | {len(direct)} have a `project_id` in each row, {len(by_parent)} "
        f"refer to a row that has one, and in {len(some)} a row can belong to no or several projects"
    )


def is_always_of_a_project(table: str, own: dict[str, bool]) -> bool:
    """Return whether each row of a table has a project, or refers to a row that has one."""
    if table in own or table == "ledger_project":
        return own.get(table, True)
    parent = re.search(r" from (\w+)", TABLES[table])
    return bool(parent) and is_always_of_a_project(parent[1], own)


def test_unique_keys() -> None:
    refers, kinds, crossing = referring_columns(), Counter[str](), set()
    for key in list_in_projects(UNIQUE_KEYS):
        if "project_id" in key["columns"]:
            kinds["project"] += 1
        elif any((key["table"], column) in refers for column in key["columns"]):
            kinds["row"] += 1
        elif key["columns"] == ["id"]:
            kinds["number" if f"{key['table']}_id_seq" in SHARED_SEQUENCES else "id"] += 1
        else:
            crossing.add(key["name"])
    assert crossing == UNIQUE_IN_ALL_PROJECTS.keys()
    assert_documented(
        f"Unique keys | {kinds['project']} include `project_id`, {kinds['row']} include the ID of "
        f"a row of one project, {kinds['id']} are a random ID, {kinds['number']} a sequence's number"
    )


def test_foreign_keys() -> None:
    keys = list_in_projects(FOREIGN_KEYS)
    outside = {(key["table"], key["columns"][0]) for key in keys if key["target"] not in TABLES}
    assert outside == TO_PEOPLE.keys()
    within = [key for key in keys if key["target"] in TABLES.keys() - {"ledger_project"}]
    assert not [key for key in within if "project_id" in key["columns"]]
    assert_documented(
        f"Foreign keys | {len(within)} between rows of a project, none with `project_id`"
    )


def test_sequences() -> None:
    rows = sql.run(SEQUENCES)
    shared = {row["name"] for row in rows if not OF_PEOPLE.fullmatch(row["table"] or "")}
    assert shared == SHARED_SEQUENCES.keys()
    assert_documented(f"Sequences | {len(shared)} number the rows of all projects")
