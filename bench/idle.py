"""Measure what an installation takes of a processor while nothing happens, and with idle agents."""

import asyncio
import json
import random
import time

from bench.chaos_faults import Instance, read_parent
from bench.costs import processor_time
from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox

# words of each part's command
PARTS = {
    "web server": ("config.web_server",),
    "worker": ("celery_processes", "worker"),
    "clock": ("celery_processes", "beat"),
    "PostgreSQL": ("bin/postgres",),
    "Valkey": ("valkey-server",),
}
MOST = 2.5
AGENTS, MOST_AGENTS = 500, 5.0  # a quarter of 2,000 agents and of 0.2 processors
# Every entry of the clock runs at its start.
SETTLE_S, ROUND_S, ROUNDS = 60, 60, 3


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Start what `make up` starts, with an empty ledger, and send it nothing."""
    instance = Instance(sandbox.folder / "idle" / "data")
    instance.data.parent.mkdir()
    instance.data.parent.chmod(0o711)  # the embedded servers run without root's rights
    instance.start()
    try:
        time.sleep(SETTLE_S)
        pids = {part: find_main(instance, words) for part, words in PARTS.items()}
        count = 1 if scale.quick else ROUNDS
        rounds = [measure(pids, ROUND_S) for _ in range(count)]
        secrets = make_agents(sandbox, instance)
        polled = asyncio.run(poll(instance.port, secrets, pids, count))
    finally:
        instance.end()
    for each in [*rounds, *polled]:
        say(", ".join(f"{part} {share:.2f} %" for part, share in each.items()))
    name = "an idle installation: share of one processor"
    parts = [Figure(f"{name}, {part}", [each[part] for each in rounds], "%") for part in PARTS]
    more = [sum(b.values()) - sum(a.values()) for a, b in zip(rounds, polled, strict=True)]
    return [
        Figure(name, [sum(each.values()) for each in rounds], "%", at_most(MOST)),
        *parts,
        Figure(f"{AGENTS} idle agents: share of one processor", more, "%", at_most(MOST_AGENTS)),
    ]


def find_main(instance: Instance, words: tuple[str, ...]) -> int:
    """Return the process of a part that the supervisor started."""
    assert instance.process
    found = instance.find_processes(*words)
    return next(pid for pid in found if read_parent(pid) == instance.process.pid)


def measure(pids: dict[str, int], seconds: float) -> dict[str, float]:
    """Return the percentage of one processor that each part's processes take."""
    began = time.monotonic()
    before = {part: processor_time(pid) for part, pid in pids.items()}
    time.sleep(seconds)
    after = {part: processor_time(pid) for part, pid in pids.items()}
    passed = time.monotonic() - began
    return {part: 100 * (after[part] - before[part]) / passed for part in pids}


# ---- idle agents


def make_agents(sandbox: Sandbox, instance: Instance) -> list[str]:
    """Register agents that have had no work for an hour; return their tokens."""
    (secrets,) = sandbox.seed(instance.database_url, ("idle_tokens", {"count": AGENTS}))
    instance.query("update ledger_token set created_at = now() - interval '1 hour'")
    return list(secrets)


async def poll(
    port: int, secrets: list[str], pids: dict[str, int], rounds: int
) -> list[dict[str, float]]:
    """Let each agent ask for work as often as it is told; return the shares meanwhile."""
    agents = [asyncio.create_task(keep_asking(port, secret)) for secret in secrets]
    await asyncio.sleep(SETTLE_S)  # each has a connection and has been told its wait
    shares = [await asyncio.to_thread(measure, pids, ROUND_S) for _ in range(rounds)]
    failed = [agent.exception() for agent in agents if agent.done()]
    assert not failed, failed
    for agent in agents:
        agent.cancel()
    await asyncio.gather(*agents, return_exceptions=True)
    return shares


async def keep_asking(port: int, secret: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = (
        f"POST /v1/claims HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {secret}\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    wait = random.uniform(0, 30)
    while True:
        await asyncio.sleep(wait)
        writer.write(request.encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert " 200 " in head.partition("\r\n")[0], head
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        wait = body["retry_after_s"] * random.uniform(0.9, 1.1)
