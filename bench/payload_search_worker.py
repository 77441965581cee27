"""Search and write the tasks of the suite `payload_search`: `ROUNDS TASKS`."""

import sys
import time

import django

BLOCK = 50


def main(rounds: str, count: str) -> None:
    django.setup()

    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.cache import cache
    from django.db import connection
    from django.test import Client, override_settings

    from bench.payload_search import KEYS, SEARCHES
    from ledger import agents, tasks
    from ledger.database.time_limit import session_without_limit
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent, Project, Task
    from retries.journal_readers import new_words, stored_values

    stamp = Stamp(SYSTEM)
    total = int(count)

    def make_agent(name: str) -> Agent:
        project = Project.objects.get_or_create(name=name)[0]
        return agents.register("coder", project=project, stamp=stamp)

    full, empty, plain = map(make_agent, ("full", "empty", "plain"))
    first = tasks.enqueue(full, "code", {"order": 0})
    names = [f.column for f in Task._meta.concrete_fields if f.column not in ("id", "payload")]
    columns = ", ".join(f'"{name}"' for name in names)
    with session_without_limit(connection), connection.cursor() as cursor:
        cursor.execute(
            f"insert into ledger_task (payload, {columns}) select jsonb_build_object('order', n, "
            f"'customer', n %% {max(1, total // 200)}, 'region', n %% 3), {columns} "
            "from ledger_task, generate_series(1, %s) n where id = %s",
            [total, first],
        )
        cursor.execute("update ledger_task set state = 'done', completed_at = now()")
    new_words.write_words(now=Task.objects.latest("id").created_at)
    stored_values.declare(empty.project, KEYS)
    stored_values.declare(full.project, KEYS)
    start = time.perf_counter()
    while stored_values.fill():
        pass
    print(time.perf_counter() - start)
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze ledger_task")
        cursor.execute("vacuum analyze ledger_taskvalue")

    # no files were collected for this process
    plain_files = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    override_settings(STORAGES={**settings.STORAGES, "staticfiles": plain_files}).enable()
    browser = Client(headers={"host": "localhost"})
    browser.force_login(User.objects.create_superuser("mara"))

    def time_search(key: str, project: str, value: int) -> float:
        cache.clear()  # of counts that were slow
        query = {"project": project, "q": f"payload.{key}:{value}"}
        start = time.perf_counter()
        response = browser.get("/tasks/", query)
        took = (time.perf_counter() - start) * 1000
        assert response.status_code == 200, response.status_code
        return took

    def time_writes(agent: Agent) -> float:
        start = time.perf_counter()
        for n in range(BLOCK):
            tasks.enqueue(agent, "code", {"order": n, "customer": "acme", "region": "eu"})
        return (time.perf_counter() - start) * 1000 / BLOCK

    for key in SEARCHES:
        times: dict[str, list[float]] = {"empty": [], "full": []}
        for n in range(3 + int(rounds)):
            value = n % 3 if key == "region" else n
            for name in times if n % 2 else reversed(times):
                times[name].append(time_search(key, name, value))
        for each in times.values():
            print(*each[3:])
    writes: dict[Agent, list[float]] = {plain: [], full: []}
    for n in range(2 + int(rounds)):
        for agent in writes if n % 2 else reversed(writes):
            writes[agent].append(time_writes(agent))
    for each in writes.values():
        print(*each[2:])


if __name__ == "__main__":
    main(*sys.argv[1:])
