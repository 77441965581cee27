"""The files for Docker, systemd and Kubernetes agree with their schemas and with each other."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection

from config.environment import KNOWN
from config.settings import DATABASES
from config.settings import TENFOUR as SETTINGS
from tests.docs.pages import blocks
from tests.programs import require_program
from tests.serving import ROOT
from tests.waiting import PATIENCE_S

BIN = Path(sys.executable).parent
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
# Their images' own programs give folders to another user and then become that user.
ADDED_CAPABILITIES = {
    "nginx": ["CHOWN", "SETGID", "SETUID"],
    "postgres": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"],
}
COMMANDS = {
    "web": "python -m config.web_server",
    "worker": "celery -A config worker -n worker@%h -P threads -c 4 -l INFO --without-gossip --without-mingle",
    "beat": "celery -A config beat -l INFO --scheduler celery.beat:Scheduler --pidfile ''",
    "migrate": "python manage.py migrate",
}

# A relative program stays in the folder of its release when another one is linked.
SYSTEMD = {
    "web": f"exec env TENFOUR_PORT=%i .venv/bin/{COMMANDS['web']}",
    # systemd has names with one sign, and each instance has a name of its own
    "worker": f"exec .venv/bin/{COMMANDS['worker'].replace('worker@%h', 'worker%i@%%h')}",
    "beat": f"exec .venv/bin/{COMMANDS['beat']}".replace("''", '""'),
    # A machine with an older version may start again when another has migrated.
    "migrate": f".venv/bin/{COMMANDS['migrate']} --check --skip-checks"
    f" || exec .venv/bin/{COMMANDS['migrate']}",
}


def read_unit(part: str) -> str:
    """Return a part's unit; web processes and workers have instances."""
    [path] = [each for each in UNITS if each.stem.rstrip("@") == f"tenfour-{part}"]
    return path.read_text()


def check(*argv: str | Path) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return content


def manifests() -> list[dict[str, Any]]:
    path = ROOT / "deploy" / "kubernetes" / "tenfour.yaml"
    items: list[dict[str, Any]] = yaml.safe_load(path.read_text())["items"]
    return items


def pod_of(part: str) -> dict[str, Any]:
    [found] = [each for each in manifests() if each["metadata"]["name"] == f"tenfour-{part}"
               and each["kind"] in ("Deployment", "Job")]  # fmt: skip
    return dict(found["spec"]["template"]["spec"])


def container_of(part: str) -> dict[str, Any]:
    [container] = pod_of(part)["containers"]
    return dict(container)


@pytest.mark.parametrize("name", ["Dockerfile", "deploy/pgbouncer/Dockerfile"])
def test_hadolint_accepts_the_dockerfiles(name: str) -> None:
    check(BIN / "hadolint", "--failure-threshold", "info", name)


def test_the_compose_file_fits_its_schema() -> None:
    check(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml")


def test_the_manifests_fit_the_schemas_of_kubernetes(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.yaml" for number, _ in enumerate(manifests())]
    for path, item in zip(paths, manifests(), strict=True):
        path.write_text(yaml.safe_dump(item))
    check(BIN / "kubernetes-validate", "--strict", *paths)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    for each in UNITS:
        (tmp_path / each.name).write_text(each.read_text())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / unit.name.replace("@", "@8000")],
        capture_output=True, text=True, timeout=PATIENCE_S, env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )  # fmt: skip
    # It also loads units of the machine; only what it says of ours counts.
    assert not [line for line in done.stderr.splitlines() if "tenfour" in line], done.stderr


def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    nginx = require_program("nginx")
    text = (ROOT / "deploy" / "nginx" / "tenfour.conf").read_text().replace("web:", "127.0.0.1:")
    (tmp_path / "tenfour.conf").write_text(text)
    main = f'pid "{tmp_path}/pid"; error_log stderr; events {{}}\n'
    main += f'http {{ access_log off; include "{tmp_path}/tenfour.conf"; }}\n'
    (tmp_path / "nginx.conf").write_text(main)
    check(nginx, "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf")


def test_all_of_them_run_the_same_commands() -> None:
    services = compose()["services"]
    assert "command" not in services["web"]  # the image's own
    found = re.search(r'^CMD \["(.+)"\]$', (ROOT / "Dockerfile").read_text(), re.M)
    assert found and found[1].split('", "') == COMMANDS["web"].split()
    docs = (ROOT / "docs" / "deployment.md").read_text()
    for part, command in COMMANDS.items():
        if part != "web":
            assert services[part]["command"] == command
            words = [word.strip("'") for word in command.split(" ")]
            assert container_of(part)["command"] == words
        assert f"ExecStart=/bin/sh -c '{SYSTEMD[part]}'\n" in read_unit(part)
        assert f"`{command}`" in docs


def test_a_worker_or_a_clock_that_stalls_is_noticed_everywhere() -> None:
    command = ["python", "-m", "config.heartbeat"]
    assert "TENFOUR_HEARTBEAT_FILE=/tmp/" in (ROOT / "Dockerfile").read_text()
    for part in ("worker", "beat"):
        assert compose()["services"][part]["healthcheck"]["test"] == ["CMD", *command]
        assert container_of(part)["livenessProbe"]["exec"]["command"] == command


def test_an_update_waits_for_web_processes_that_reach_the_database() -> None:
    test = compose()["services"]["web"]["healthcheck"]["test"]
    assert test == ["CMD", "python", "-m", "config.monitoring.probe", "/readyz"]
    assert container_of("web")["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_no_worker_and_no_clock_starts_before_the_tables_are_there() -> None:
    services, command = compose()["services"], "python manage.py migrate --check --skip-checks"
    for part in ("worker", "beat"):
        condition = services[part]["depends_on"]["migrate"]["condition"]
        assert condition == "service_completed_successfully"
        [waiting] = pod_of(part)["initContainers"]
        assert waiting["command"] == ["sh", "-c", f"until {command}; do sleep 5; done"]
        assert (waiting["image"], waiting["envFrom"]) == (
            container_of(part)["image"],
            container_of(part)["envFrom"],
        )


def test_every_setting_in_them_exists() -> None:
    """A variable with a typo would only be reported at the start."""
    files = [ROOT / "Dockerfile", ROOT / "compose.yaml", *(ROOT / "deploy").rglob("*")]
    named = {
        name: path.name
        for path in files
        if path.is_file()
        for name in re.findall(r"\bTENFOUR_[A-Z_]+", path.read_text())
    }
    named.pop("TENFOUR_PUBLISH")  # compose.yaml's own
    assert len(named) >= 6 and SETTINGS
    assert {name: where for name, where in named.items() if name not in KNOWN} == {}


def test_kubernetes_adds_no_variables_that_look_like_settings() -> None:
    """For a service "tenfour" it would set TENFOUR_PORT=tcp://…, and no process would start."""
    specs = [each.get("spec", {}) for each in manifests()]
    pods = [spec["template"]["spec"] for spec in specs if "template" in spec]
    assert len(pods) == len(COMMANDS)
    assert [pod["enableServiceLinks"] for pod in pods] == [False] * len(pods)


def test_all_containers_of_the_image_share_a_folder_for_archives() -> None:
    """`manage.py tick` deletes rows in any of them; a container's own files go with it."""
    text = (ROOT / "Dockerfile").read_text()
    data = re.search(r"TENFOUR_DATA=(\S+)", text)
    assert data and f"--owner=tenfour --mode=750 {data[1]}/archive\n" in text
    own = {
        part: each.get("volumes")
        for part, each in compose()["services"].items()
        if each.get("image") == "tenfour"
    }
    assert own == {part: [f"archive:{data[1]}/archive"] for part in COMMANDS}
    assert "archive" in compose()["volumes"]


def test_no_pod_archives_into_its_own_files() -> None:
    """It deletes nothing until `TENFOUR_ARCHIVE` names a volume that is mounted in it."""
    for part in COMMANDS:
        pod, container = pod_of(part), container_of(part)
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert [each["mountPath"] for each in container["volumeMounts"]] == ["/tmp"]
        assert pod["volumes"] == [{"name": "temporary", "emptyDir": {}}]
    [settings] = [each["data"] for each in manifests() if each["kind"] == "ConfigMap"]
    assert "TENFOUR_ARCHIVE" not in settings and "TENFOUR_DATA" not in settings


@pytest.mark.django_db
def test_a_pooler_takes_no_limits_away() -> None:
    """PgBouncer drops the options of a session, so the server or the role has them."""
    options = DATABASES["default"]["OPTIONS"]["options"]
    limits = set(re.findall(r"-c (\S+)", options))
    assert len(limits) == 5
    assert limits <= set(compose()["services"]["postgres"]["command"].split())
    [block] = [each for each in blocks(ROOT / "docs" / "deployment.md") if each.language == "sql"]
    with connection.cursor() as cursor:
        cursor.execute(block.text)  # rolled back with the test
        cursor.execute("select unnest(setconfig) from pg_db_role_setting where setdatabase = 0")
        assert {setting for (setting,) in cursor.fetchall()} == limits


def test_no_process_runs_with_more_rights_than_it_needs() -> None:
    assert re.findall(r"^USER (.+)$", (ROOT / "Dockerfile").read_text(), re.M) == ["10001"]
    for name, service in compose()["services"].items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"] and "/tmp" in service["tmpfs"]
        assert service.get("cap_add", []) == ADDED_CAPABILITIES.get(name, [])
    for part in COMMANDS:
        pod = pod_of(part)
        assert pod["automountServiceAccountToken"] is False
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
            assert security["capabilities"] == {"drop": ["ALL"]}
        unit = read_unit(part)
        assert {"User=tenfour", "NoNewPrivileges=true", "ProtectSystem=strict"} <= set(
            unit.splitlines()
        )


def test_no_password_is_an_argument() -> None:
    """SEC-15: every user of a machine can read the arguments of its processes."""
    for name, service in compose()["services"].items():
        assert not re.search(r"(?<!\$)\$\{?\w", str(service.get("command", ""))), name
        assert not re.search(r"(?<!\$)\$\{?\w", str(service.get("healthcheck", ""))), name


def test_only_the_web_pods_accept_connections() -> None:
    policies = {
        each["metadata"]["name"]: each["spec"]
        for each in manifests()
        if each["kind"] == "NetworkPolicy"
    }
    for spec in policies.values():
        assert spec["policyTypes"] == ["Ingress"]
    assert policies["tenfour"]["podSelector"] == {"matchLabels": {"app": "tenfour"}}
    assert "ingress" not in policies["tenfour"]
    assert policies["tenfour-web"]["podSelector"]["matchLabels"]["part"] == "web"
    assert policies["tenfour-web"]["ingress"] == [{"ports": [{"port": "http"}]}]
    assert [each["name"] for each in container_of("web")["ports"]] == ["http"]
