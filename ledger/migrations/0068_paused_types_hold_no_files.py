"""Let a task of a paused type keep no file from others."""

from importlib import import_module

from django.db.migrations import Migration as BaseMigration
from django.db.migrations import RunSQL

BEFORE = import_module("ledger.migrations.0057_project_exclusive_files")
IS_PAUSED = """coalesce((select x.paused_types ? {row}.type from ledger_project x
                where x.id = project), false)"""
HOLDER = BEFORE.HOLDER
# the subselects of waiting tasks, which lack the type, and the first of the agent's queue
for old, new in {
    "select d.id, d.project_id,": "select d.id, d.type, d.project_id,",
    "select f.id, f.agent_id,": "select f.id, f.type, f.agent_id,",
    "and f.exclusive and f.state = 'queued'\n": "and f.exclusive and f.state = 'queued'\n"
    f"                and not {IS_PAUSED.format(row='f')}\n",
}.items():
    assert HOLDER.count(old) == 1, old
    HOLDER = HOLDER.replace(old, new)
RUNS = f"{BEFORE.RUNS} and not {IS_PAUSED.format(row='q')}"
FUNCTIONS = "".join(HOLDER.format(scope=scope, runs=RUNS) for scope in ("plan", "project"))
RESTORE = "".join(BEFORE.HOLDERS)


class Migration(BaseMigration):
    dependencies = [("ledger", "0067_kept_for_other_member")]

    operations = [RunSQL(FUNCTIONS, RESTORE)]
