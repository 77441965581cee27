"""The table of known errors, each tried with messages that programs print (S1.14, S1.16)."""

import pytest

from retries.failures.known_errors import BY_NAME, EXIT_CODES, KNOWN_ERRORS, find

MESSAGES = {
    "merge_conflict": ["CONFLICT (content): Merge conflict in src/app.py"],
    "repository_locked": ["fatal: Unable to create '/w/.git/index.lock': File exists."],
    "push_rejected": ["! [rejected] main -> main (non-fast-forward)"],
    "missing_own_file": [
        "Error: Cannot find module './routes'",
        "Module not found: Error: Can't resolve '../x' in '/srv/app'",
    ],
    "wrong_version": ["npm ERR! code EBADENGINE", "ERROR: Package 'x' requires a different Python"],
    "dependency_conflict": [
        "npm ERR! ERESOLVE unable to resolve dependency tree",
        "ERROR: ResolutionImpossible: for help visit",
        'error: failed to select a version for the requirement `rand = "^9"`',
    ],
    "lock_file_outdated": [
        "ERR_PNPM_OUTDATED_LOCKFILE Cannot install with frozen-lockfile",
        "npm ci can only install packages when your package.json and package-lock.json are in sync",
        "error: the lock file needs to be updated but --locked was passed",
    ],
    "missing_module": [
        "Error: Cannot find module 'uuid'",
        "ModuleNotFoundError: No module named 'yaml'",
        "error[E0432]: unresolved import `serde_json`",
        "main.go:4:2: no required module provides package github.com/a/b; to add it:",
        "java.lang.ClassNotFoundException: org.postgresql.Driver",
    ],
    "missing_export": ["ImportError: cannot import name 'x' from 'y' (/a/y.py)"],
    "missing_script": ['npm ERR! Missing script: "test:unit"', "No rule to make target 'lint'."],
    "container_daemon": ["Cannot connect to the Docker daemon at unix:///var/run/docker.sock."],
    "command_not_found": [
        "bash: pnpm: command not found",
        "/bin/sh: 1: cargo: not found",
        "zsh: command not found: make",
        "Error: spawn python3 ENOENT",
    ],
    "too_many_files": [
        "Error: EMFILE: too many open files",
        "System limit for number of file watchers reached",
    ],
    "disk_full": [
        "ENOSPC: no space left on device, write",
        "OSError: [Errno 28] No space left on device",
    ],
    "out_of_memory": [
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        "Error: Cannot allocate memory (os error 12)",
    ],
    "read_only": ["OSError: [Errno 30] Read-only file system: '/etc/x'"],
    "context_too_long": [
        "This model's maximum context length is 200000 tokens",
        "prompt is too long: 210000 tokens",
    ],
    "rate_limit": ["429 Too Many Requests", "Rate limit reached for requests per min"],
    "authentication": [
        "HTTP 401 Unauthorized",
        "git@host: Permission denied (publickey).",
        "fatal: Authentication failed for 'https://host/x.git'",
        'FATAL: password authentication failed for user "app"',
    ],
    "forbidden": ["HTTP 403: Forbidden", "An error occurred (AccessDenied) when calling PutObject"],
    "service_away": [
        "HTTP 503 Service Unavailable",
        "overloaded_error: Overloaded",
        "502 Bad Gateway",
    ],
    "port_in_use": [
        "Error: listen EADDRINUSE: address already in use :::3000",
        "OSError: [Errno 98] Address already in use",
        "Bind for 0.0.0.0:5432 failed: port is already allocated",
    ],
    "dns": ["getaddrinfo ENOTFOUND api.acme.test", "curl: (6) Could not resolve host: acme.test"],
    "certificate": [
        "ssl.SSLCertVerificationError: certificate verify failed",
        "x509: signed by unknown authority",
    ],
    "connection_refused": [
        "connect ECONNREFUSED 127.0.0.1:5432",
        "connection to server failed: Connection refused",
    ],
    "connection_lost": [
        "read ECONNRESET",
        "socket hang up",
        "BrokenPipeError: [Errno 32] Broken pipe",
    ],
    "database_locked": ["sqlite3.OperationalError: database is locked", "ERROR: deadlock detected"],
    "schema_behind": ['relation "users" does not exist', "no such table: users"],
    "duplicate_key": ['duplicate key value violates unique constraint "users_email_key"'],
    "permission_denied": [
        "PermissionError: [Errno 13] Permission denied: '/etc/hosts'",
        "EACCES: mkdir '/x'",
    ],
    "missing_setting": ["KeyError: 'DATABASE_URL'", "Error: STRIPE_KEY is not set"],
    "missing_file": [
        "ENOENT: no such file or directory, open '/a/b.json'",
        "cat: x: No such file or directory",
    ],
    "bad_json": ["json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"],
    "encoding": ["UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff"],
    "syntax": ["SyntaxError: Unexpected token '}'", "IndentationError: unexpected indent"],
    "undefined_name": ["NameError: name 'x' is not defined", "ReferenceError: y is not defined"],
    "no_value": [
        "TypeError: Cannot read properties of undefined (reading 'map')",
        "AttributeError: 'NoneType' object has no attribute 'id'",
    ],
    "wrong_type": [
        "error TS2345: Argument of type 'string' is not assignable to parameter of type 'number'.",
        "TypeError: f() takes 1 positional argument but 2 were given",
    ],
    "recursion": ["RecursionError: maximum recursion depth exceeded"],
    "crash": ["Segmentation fault (core dumped)"],
    "coverage": ['Jest: "global" coverage threshold for lines (80%) not met: 71%'],
    "assertion": [
        "AssertionError: assert 3 == 4",
        "1 passed, 2 failed",
        "FAIL tests/PlannerId.test.ts",
        "expected 'a' to equal 'b'",
    ],
    "style": ["would reformat src/app.py", "✖ 3 problems (3 errors, 0 warnings)"],
    "lease_expired": [
        "Nobody renewed its lease.",
        "The agent did not renew its lease.",
        "Its lease expired.",
    ],
    "timeout": [
        "timeout after 300 s: npx vitest",
        "It ran longer than its timeout.",
        "operation timed out",
    ],
}


@pytest.mark.parametrize(
    ("name", "message"), [(name, each) for name, texts in MESSAGES.items() for each in texts]
)
def test_each_message_matches_its_error(name: str, message: str) -> None:
    found = find([message])
    assert found is not None and found.error.name == name
    assert "{" not in found.cause + found.fix


def test_every_error_has_messages() -> None:
    assert set(MESSAGES) == set(BY_NAME) and len(BY_NAME) == len(KNOWN_ERRORS)
    assert set(EXIT_CODES.values()) <= set(BY_NAME)


@pytest.mark.parametrize(
    "text", ["", "It went wrong", "2 passed, 0 failed", "0 problems (0 errors)", "see chapter 4.3"]
)
def test_other_texts_match_no_error(text: str) -> None:
    assert find([text]) is None


def test_the_first_text_that_matches_wins() -> None:
    found = find(["", "Error: connect ECONNREFUSED 127.0.0.1:1", "SyntaxError: no"])
    assert found is not None and found.error.name == "connection_refused"


def test_an_exit_code_counts_if_no_text_matches() -> None:
    found = find(["It ended"], exit_code=127)
    assert found is not None and found.cause.startswith("The command is not installed")
    assert find(["It ended"], exit_code=1) is None


def test_only_a_name_from_the_error_enters_the_cause() -> None:
    found = find(["Cannot find module 'x; rm -rf ~'"])
    assert found is None or "rm" not in found.cause + found.fix
