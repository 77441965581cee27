"""What a rule's matcher names, which matchers no rule may have, and what rules decide together."""

import time

import pytest

from retries.permissions.calls import ToolCall
from retries.permissions.matchers import (
    Decision,
    MatcherError,
    Rule,
    Verdict,
    check_matcher,
    decide,
    find_allowing,
    find_denying,
    matches,
    propose,
)

FOLDER = "/srv/app"


def bash(line: str, **others: object) -> ToolCall:
    return ToolCall("Bash", {"command": line, **others}, FOLDER)


def edit(path: str, tool: str = "Edit") -> ToolCall:
    return ToolCall(tool, {"file_path": path}, FOLDER)


def fetch(url: str) -> ToolCall:
    return ToolCall("WebFetch", {"url": url, "prompt": "sum it up"}, FOLDER)


# ---- commands that an allow rule matches


@pytest.mark.parametrize(
    ("matcher", "line"),
    [
        ("npm test", "npm  test 2>&1"),
        ("npm run *", "npm run 'build'"),
        ("pytest **", "pytest"),
        ("pytest **", "pytest tests/test_a.py::test_b src"),
        ("cat **", "cat /srv/app/src/a.py ./b.txt"),
        ("git commit -m *", "git commit -m 'fix the build'"),
        ("git commit -m 'fix: it (1)'", 'git commit -m "fix: it (1)"'),
        ("ls src/*.py", "ls src/*.py"),
        ("rm -rf /tmp/x", "rm -rf /tmp/x"),
        ("bash -lc 'a; b'", "bash -lc 'a; b'"),
        ("cd *", "cd web"),
        ("cd *", "cd /srv/app"),
        ("cd web && npm test", "cd web&&npm test"),
        ("cat log.txt | sh", "cat log.txt | sh"),
        ("npm test | tail -5", "npm test 2>&1 | tail -5"),
        ("go test **", "go test ./..."),
        ("npm test", "npm test; npm test"),
    ],
)
def test_an_allow_rule_matches_its_command(matcher: str, line: str) -> None:
    check_matcher("Bash", matcher, allow=True)
    assert matches("Bash", matcher, bash(line), allow=True)
    assert matches("Bash", matcher, ToolCall("shell", {"command": line}, FOLDER), allow=True)


@pytest.mark.parametrize(
    ("matcher", "line"),
    [
        ("npm test", "npm test x"),
        ("npm test x", "npm test"),
        ("npm test", "npm tests"),
        ("npm test", "npm test && npm ci"),
        ("npm run *", "npm run"),
        ("npm run *", "npm run a b"),
        ("npm run *", "npm run test:unit"),
        ("ls src/*.py", "ls 'src/*.py'"),
        ("ls 'src/*.py'", "ls src/*.py"),
        ("cat *", "cat *"),
        ("cat **", "cat src/*"),
        ("cat *", "cat .env"),
        ("cat *", "cat /srv/app/.git/config"),
        ("cat *", "cat /srv/apple"),
        ("cat *", "cat /etc/passwd"),
        ("cat *", "cat config/id_rsa"),
        ("git push origin *", "git push origin --force"),
        ("git push origin *", "git push origin +main"),
        ("git push origin *", "git push origin a:b"),
        ("git push origin *", "git -c x=y push origin main"),
        ("cd *", "cd .."),
        ("cd ..", "cd .."),
        ("cd *", "cd"),
        ("cd /etc", "cd /etc"),
        ("npm test", "cd web && npm test"),
        ("cd web && npm test", "cd web; npm test"),
        ("cd web && npm test", "cd web && npm test && npm test"),
        ("sh", "cat a | sh"),
        ("python scripts/load.py **", "python scripts/load.py a | python scripts/load.py b"),
        ("bash run.sh", "cd web; bash run.sh"),
    ],
)
def test_an_allow_rule_matches_no_other_command(matcher: str, line: str) -> None:
    assert not matches("Bash", matcher, bash(line), allow=True)


def test_a_command_behind_cd_or_fed_by_another_needs_a_rule_of_the_whole_line() -> None:
    parts = [("Bash", "cd *"), ("Bash", "npm test"), ("Bash", "cat **"), ("Bash", "sh")]
    for line in ("cd web && npm test", "cat a | sh", "pushd web; npm test", "cd web; ./sh"):
        assert decide(parts, [], bash(line)).verdict == Verdict.ASK
    assert decide(parts, [], bash("cd /srv/app && npm test")).rules == (0, 1)
    assert decide(parts, [], bash("npm test | cat")).rules == (1, 2)
    assert decide(
        [*parts, ("Bash", "cd web && npm test")], [], bash("cd web && npm test")
    ).rules == (4,)


@pytest.mark.parametrize(
    "others",
    [
        {"dangerouslyDisableSandbox": True},
        {"workdir": "/"},
        {"cmd": "evil"},
        {"env": {"PATH": "."}},
    ],
)
def test_a_call_that_changes_how_the_line_runs_is_asked(others: dict[str, object]) -> None:
    assert not matches("Bash", "npm test", bash("npm test", **others), allow=True)
    assert propose(bash("npm test", **others)) is None
    assert matches("Bash", "npm test", bash("npm test", timeout=5, description="x"), allow=True)


@pytest.mark.parametrize("folder", ["/", "", "relative", "C:\\app", "/srv/../app"])
def test_without_a_plain_folder_no_absolute_path_is_inside(folder: str) -> None:
    for path in ("/etc/passwd", "/app/x", "C:\\app\\x", "/"):
        call = ToolCall("Bash", {"command": f"cat '{path}'"}, folder)
        assert not matches("Bash", "cat *", call, allow=True)
        assert not matches("Read", "**", ToolCall("Read", {"file_path": path}, folder), allow=True)


# ---- matchers that no allow rule may have


# fmt: off
@pytest.mark.parametrize(
    "matcher",
    [
        *("*", "**", "* test", "** test", "npm ** test", "pytest ** -x", "git *", "git **", "npm *"),
        *("sh *", "bash **", "bash -c *", "/bin/bash *", "zsh -c *", "env *", "env A=1 *", "sudo *", "sudo npm *"),
        *("xargs *", "eval *", "exec *", "python *", "python -c *", "python3.11 -c *", "node -e *", "node *"),
        *("ssh *", "ssh host *", "nohup *", "time *", "timeout 9 *", "watch *", "make -f *", "make -C *"),
        *("git -c *", "git -c a=b push *", "git config *", "git -C x log *", "git bisect *", "git submodule *"),
        *("git rebase -x *", "git fetch --upload-pack *", "git log --output *", "npx *", "npx -p * x", "npx **"),
        *("docker run *", "docker exec web *", "kubectl exec *", "find . -exec *", "find . -fprint *", "tar -I *"),
        *("tar xf *", "tar --to-command *", "npm exec *", "npm install *", "pip install *", "cargo run *"),
        *("go run *", "yarn *", "yarn run *", "uv run *", "uv run python *", "uv run bash *", "poetry run *"),
        *("python -m *", "python -m pip install *", "python -m timeit *", "python manage.py *", "sed *", "awk *"),
        *("sed -i *", "perl -e *", "ruby *", "curl *", "curl -d * x", "wget *", "nc **", "vim *", "less *", "man *"),
        *("pytest -p *", "pytest --rootdir *", "pytest -c *", "jest --config *", "rsync -e * a b", "sort -o *"),
        *("gh api *", "gh **", "psql *", "ln *", "unzip *", "test *", "read *", "alias *", "export *", "trap *"),
        *("command *", "builtin *", ". *", "source *", "crontab *", "nice *", "parallel *", "tmux *", "entr *"),
        *("cd * && npm test", "cat * | sh", "cat * | node x.js", "popd", "npm test > x", "A=1 npm test", "npm $x"),
        *("(npm test)", "npm test &", "npm  test", " npm test", "npm test ", "npm\ttest", "'npm' test", "npm test;"),
        *("npm test 2>&1", "npm test # x", "", "npm test\n", "npm 'te\u200bst'"),
    ],
)
def test_a_matcher_that_could_run_something_else_is_refused(matcher: str) -> None:
    with pytest.raises(MatcherError) as error:
        check_matcher("Bash", matcher, allow=True)
    assert len(str(error.value)) > 10 and str(error.value).endswith((".", "`.", ")"))
    assert not matches("Bash", matcher, bash(matcher), allow=True)
# fmt: on


# fmt: off
@pytest.mark.parametrize(
    "matcher",
    [
        *("npx eslint **", "uv run pytest **", "python -m pytest -q **", "python manage.py test **", "make **"),
        *("grep -rn * **", "head -20 *", "git add -A **", "find * -name *", "sed -n 1,5p *", "tar czf * **"),
        *("bash -c 'npm test'", "find . -name x -delete", "curl https://example.com/x", "env", "sudo ls"),
        *("npm test -- *", "./run.sh **", "docker logs *", "git log --oneline **", "cd web && pytest **"),
    ],
)
def test_other_matchers_are_accepted(matcher: str) -> None:
    check_matcher("Bash", matcher, allow=True)
# fmt: on


# ---- files


@pytest.mark.parametrize(
    ("matcher", "path"),
    [
        ("src/**", "/srv/app/src/a/b.py"),
        ("src/**", "src/a.py"),
        ("docs/*.md", "/srv/app/docs/a.md"),
        ("**", "/srv/app/./a.py"),
        ("**/tests/*.py", "a/b/tests/c.py"),
        ("**/tests/*.py", "tests/c.py"),
        (".github/**", "/srv/app/.github/workflows/x.yml"),
        (".env", "/srv/app/.env"),
        (".env*", "/srv/app/.env.local"),
        (".claude/settings.json", ".claude/settings.json"),
        ("app/[id]/p?ge.tsx", "app/[id]/page.tsx"),
    ],
)
def test_a_glob_matches_inside_the_folder(matcher: str, path: str) -> None:
    check_matcher("Edit", matcher, allow=True)
    assert matches("Edit", matcher, edit(path), allow=True)
    assert not matches("Write", matcher, edit(path), allow=True)


@pytest.mark.parametrize(
    ("matcher", "path"),
    [
        ("src/**", "/srv/app/srcx/a.py"),
        ("src/*", "src/a/b.py"),
        *(("**", f"/srv/app/{name}") for name in ("../x", "src/../../x", ".env", ".git/config")),
        *(
            ("**", f"/srv/app/{name}")
            for name in (".GIT/config", "a/.claude/x", ".codex/x", "a/id_rsa")
        ),
        *(
            ("**", name)
            for name in ("/etc/passwd", "/srv/apple/x", "~/x", "//srv/app/x", "a\\b", "a\x00")
        ),
        *(("**", name) for name in ("..", "/srv/app/..", "a\u202eb", "a\n", "C:\\x", "server.key")),
        (".g*/**", ".git/config"),
        (".*", ".env"),
        ("*/config", ".git/config"),
        ("*.pem", "server.pem"),
    ],
)
def test_a_glob_matches_nothing_else(matcher: str, path: str) -> None:
    for tool in ("Edit", "Read", "Write"):
        assert not matches(tool, matcher, edit(path, tool), allow=True)


@pytest.mark.parametrize(
    "matcher",
    [
        "",
        "/etc/**",
        "../x",
        "~/x",
        "src/../x",
        "a//b",
        "./a",
        "src/**.py",
        "**/**",
        "a\\b",
        "{a,b}",
        "a\nb",
    ],
)
def test_a_glob_that_leads_outside_is_refused(matcher: str) -> None:
    with pytest.raises(MatcherError):
        check_matcher("Edit", matcher, allow=True)


def test_a_patch_matches_with_all_of_its_files() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n*** Add File: {}\n+y\n*** End Patch"
    )

    def call(text: str) -> ToolCall:
        return ToolCall("apply_patch", {"command": text}, FOLDER)

    assert matches("apply_patch", "src/**", call(patch.format("src/b.py")), allow=True)
    for text in (patch.format("docs/b.md"), patch.format("../b"), "", "*** Rename File: src/a.py"):
        assert not matches("apply_patch", "src/**", call(text), allow=True)
    assert not matches("apply_patch", "src/**", call(f"{patch}\n*** Run: x"), allow=True)


def test_a_search_matches_by_its_folder_and_its_globs() -> None:
    def call(tool: str, **values: str) -> ToolCall:
        return ToolCall(tool, values, FOLDER)

    assert matches("Grep", "**", call("Grep", pattern="../x", path="src"), allow=True)
    assert matches("Glob", "**", call("Glob", pattern="src/*.py"), allow=True)
    for values in ({"pattern": "../*"}, {"pattern": "/etc/*"}, {"pattern": "*", "path": "/etc"}):
        assert not matches("Glob", "**", call("Glob", **values), allow=True)
    assert not matches("Grep", "**", call("Grep", pattern="x", glob=".env"), allow=True)


# ---- addresses and other tools


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://docs.example.com/api?page=2#x", True),
        ("https://DOCS.example.com", True),
        ("http://docs.example.com/", False),
        ("https://docs.example.com:8443/", False),
        ("https://docs.example.com.evil.example/", False),
        ("https://docs.example.com@evil.example/", False),
        ("https://evil.example/docs.example.com/", False),
        ("https://evil.example\\@docs.example.com/", False),
        ("https://docs.example.com\\.evil.example/", False),
        ("https://xdocs.example.com/", False),
        ("https://docs.ex\u0430mple.com/", False),
        ("https://docs.example.com/\u202e", False),
        ("https://docs.example.com/../x", False),
        ("https://docs.example.com/%2e%2e/x", False),
        (" https://docs.example.com/", False),
        ("https:docs.example.com/", False),
        ("", False),
    ],
)
def test_an_address_matches_its_exact_host(url: str, is_allowed: bool) -> None:
    assert matches("WebFetch", "https://docs.example.com/**", fetch(url), allow=True) == is_allowed


@pytest.mark.parametrize(
    "matcher",
    ["", "**", "https://**", "https://*.example.com/**", "docs.example.com", "ftp://a.example/**"],
)
def test_an_address_without_one_host_is_refused(matcher: str) -> None:
    with pytest.raises(MatcherError):
        check_matcher("WebFetch", matcher, allow=True)


def test_another_tool_matches_by_its_name() -> None:
    call = ToolCall("mcp__github__create_issue", {"title": "x"}, FOLDER)
    assert matches("mcp__github__create_issue", "", call, allow=True)
    assert propose(call) == ""
    assert not matches("mcp__github__create", "", call, allow=True)
    for tool, matcher in (
        ("mcp__github__create_issue", "x"),
        ("PowerShell", ""),
        ("", ""),
        ("Bash", ""),
    ):
        with pytest.raises(MatcherError):
            check_matcher(tool, matcher, allow=True)


# ---- deny rules


@pytest.mark.parametrize(
    ("matcher", "line"),
    [
        ("git push ** --force* **", "git -C x push origin main --force-with-lease"),
        ("git push ** --force* **", "A=1 sudo git push --force"),
        ("rm -rf *", "echo $(rm -rf /)"),
        ("rm -rf **", "bash -c 'x; rm -rf a b'"),
        ("rm **", "RM x"),
        ("curl **", "/usr/bin/curl x | sh"),
        ("", "anything"),
        ("** --no-verify **", "git commit --no-verify -m x"),
    ],
)
def test_a_deny_rule_matches_any_command_of_a_line(matcher: str, line: str) -> None:
    check_matcher("Bash", matcher, allow=False)
    assert matches("Bash", matcher, bash(f"ls && {line}"), allow=False)


@pytest.mark.parametrize(
    ("tool", "matcher", "call"),
    [
        ("Read", "**/.env*", edit("/srv/app/web/.ENV", "Read")),
        ("Read", "/etc/**", edit("/srv/app/../../etc/passwd", "Read")),
        ("Edit", "src/**", edit("/srv/app/docs/../src/a.py", "Write")),
        ("Edit", "**/*.lock", edit("/elsewhere/x.lock", "MultiEdit")),
        ("WebFetch", "https://*.example.com/**", fetch("HTTP://me@www.Example.com:80/x")),
        ("mcp__x", "", ToolCall("mcp__x", {}, FOLDER)),
    ],
)
def test_a_deny_rule_matches_files_and_addresses_in_any_form(
    tool: str, matcher: str, call: ToolCall
) -> None:
    check_matcher(tool, matcher, allow=False)
    assert matches(tool, matcher, call, allow=False)


def test_a_deny_rule_matches_no_other_command() -> None:
    for line in (
        "git push origin main",
        "echo git push --force",
        "git commit -m 'git push --force'",
    ):
        assert not matches("Bash", "git push --force **", bash(line), allow=False)


@pytest.mark.parametrize("matcher", ["a; b", "a && b", "a | b", "$(a)", "a > b", " a", "a\nb", "'"])
def test_a_deny_rule_names_one_command(matcher: str) -> None:
    with pytest.raises(MatcherError):
        check_matcher("Bash", matcher, allow=False)


# ---- rules together


ALLOW: list[Rule] = [
    ("Bash", "npm test"),
    ("Edit", "src/**"),
    ("Bash", "npm ci"),
    ("Bash", "npm *x"),
]


def test_every_command_needs_an_allow_rule() -> None:
    assert decide(ALLOW, [], bash("npm ci && npm test")) == Decision(Verdict.ALLOW, (2, 0))
    assert decide(ALLOW, [], bash("npm ci && npm run x")) == Decision(Verdict.ASK)
    assert decide([], [], bash("npm ci")) == Decision(Verdict.ASK)
    assert decide([], [], ToolCall("Bash", {}, FOLDER)) == Decision(Verdict.ASK)
    assert decide(ALLOW, [], ToolCall("Bash", {"command": ["npm", "test"]}, FOLDER)).rules == (0,)
    assert find_allowing(ALLOW, edit("src/a.py")) == (1,)
    assert find_allowing(ALLOW, edit("a.py")) is None


def test_a_deny_rule_wins() -> None:
    deny: list[Rule] = [("Edit", "src/**"), ("Bash", "npm test **")]
    assert decide(ALLOW, deny, bash("npm ci && npm test")) == Decision(Verdict.DENY, (1,))
    assert decide(ALLOW, deny, bash("npm ci")) == Decision(Verdict.ALLOW, (2,))
    assert decide(ALLOW, deny, bash("x $(npm test)")) == Decision(Verdict.DENY, (1,))
    assert find_denying(deny, edit("docs/a.md")) is None


def test_a_deny_rule_that_cannot_be_read_lets_nothing_be_allowed() -> None:
    assert decide(ALLOW, [("Bash", "a; b")], bash("npm ci")) == Decision(Verdict.ASK)
    assert decide(ALLOW, [("Read", "x")], bash("npm ci")).verdict == Verdict.ALLOW


# ---- proposals


@pytest.mark.parametrize(
    ("call", "matcher"),
    [
        (bash("npm  test 2>&1"), "npm test"),
        (bash("cd web;npm test"), "cd web; npm test"),
        (bash('git commit -m "it\'s"'), 'git commit -m "it\'s"'),
        (bash("bash -c 'a $b'"), "bash -c 'a $b'"),
        (bash("npm $x"), None),
        (bash("cd .. && ls"), None),
        (bash("rm *"), None),
        (bash("cat a > b"), None),
        (edit("/srv/app/src/a.py"), "src/a.py"),
        (edit("/srv/app/.env"), ".env"),
        (edit("/etc/passwd"), None),
        (edit("a*b.py"), None),
        (fetch("https://docs.example.com/x"), "https://docs.example.com/**"),
        (fetch("file:///etc/passwd"), None),
        (ToolCall("PowerShell", {"command": "ls"}, FOLDER), None),
        (ToolCall("Bash", {}, FOLDER), None),
    ],
)
def test_a_call_proposes_the_rule_that_allows_it(call: ToolCall, matcher: str | None) -> None:
    assert propose(call) == matcher
    if matcher is not None:
        check_matcher(call.tool, matcher, allow=True)
        assert matches(call.tool, matcher, call, allow=True)


# ---- time


@pytest.mark.parametrize("piece", ["a", "a/", "*a", "../", ".a/", "a.", "**/"])
def test_the_time_of_a_match_grows_with_the_path(piece: str) -> None:
    def measure(length: int) -> float:
        path = (piece * length)[:length]
        start = time.process_time()
        for matcher in ("**/a*a*a*b/**", "a*a*a*a*b"):
            matches("Edit", matcher, edit(path), allow=True)
            matches("Edit", matcher, edit(path), allow=False)
            matches("Bash", f"x {matcher} **", bash(f"x {path}"), allow=False)
        return time.process_time() - start

    long = min(measure(16_000) for _ in range(3))
    assert long < 0.05 or long < 9 * min(measure(4_000) for _ in range(3))
