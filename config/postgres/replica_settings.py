"""The settings of a replica for pages; there are none without TENFOUR_REPLICA_URL."""

from typing import Any

import environ

READ_ONLY = "-c default_transaction_read_only=on"


def build_settings(databases: dict[str, Any], middleware: list[str], url: str) -> dict[str, Any]:
    primary, replica = databases["default"], environ.Env.db_url_config(url)
    options = replica.get("OPTIONS", {}) | primary["OPTIONS"]
    options["options"] = f"{options.get('options', '')} {READ_ONLY}".strip()
    databases["replica"] = (
        primary
        | replica
        | {"ENGINE": primary["ENGINE"], "OPTIONS": options, "TEST": {"MIRROR": "default"}}
    )
    middleware.append("dashboard.frame.replica.OwnActs")
    return {"DATABASE_ROUTERS": ["ledger.database.databases.Router"]}
