"""Insert a model's row with one prepared statement."""

from functools import cache
from typing import Any, TypeVar

from django.db import connections, models
from django.db.models.expressions import DatabaseDefault

from ledger.database import sql
from ledger.database.databases import source

M = TypeVar("M", bound=models.Model)


def create(model: type[M], **values: Any) -> M:
    """Insert a new row and return it with the values that the database gave it; send no signal.

    The model must have no generated column and no field that sets itself, such as `auto_now`.
    """
    # A manager's `create` takes longer to write its SQL than PostgreSQL takes to run it.
    row = model(**values)
    db = connections[source.get()]
    fields = [
        field
        for field in model._meta.concrete_fields
        if not isinstance(getattr(row, field.attname), DatabaseDefault)
    ]
    params = {
        field.name: field.get_db_prep_save(getattr(row, field.attname), connection=db)
        for field in fields
    }
    (given,) = sql.run(insert_statement(model, tuple(params)), **params) or ({},)
    for name, value in given.items():
        setattr(row, name, value)
    row._state.adding, row._state.db = False, db.alias
    return row


@cache
def insert_statement(model: type[models.Model], names: tuple[str, ...]) -> str:
    columns = {field.name: str(field.column) for field in model._meta.concrete_fields}
    others = [f"{column} as {name}" for name, column in columns.items() if name not in names]
    return f"""insert into {model._meta.db_table} ({", ".join(columns[name] for name in names)})
    values ({", ".join(f"%({name})s" for name in names)})
    {f"returning {', '.join(others)}" if others else ""}"""
