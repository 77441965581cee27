"""Define the Celery application and its job; a Celery worker requires an importable module.

Jobs wait in Redis. Results are rows in PostgreSQL, as the other queues keep theirs.
"""

import os

from celery import Celery

RESULTS = os.environ["DATABASE_URL"].replace("postgres://", "postgresql+psycopg://", 1)
app = Celery("bench", broker=os.environ["REDIS_URL"], backend=f"db+{RESULTS}")
app.conf.update(task_default_queue="bench", broker_connection_retry_on_startup=True)


@app.task(name="do_nothing")
def do_nothing(n: int) -> None:
    """Return at once."""
