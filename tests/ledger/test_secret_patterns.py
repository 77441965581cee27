"""The table of what is masked and of what is left alone, row by row."""

import base64

import pytest

from ledger.secrets.names import is_secret_name
from ledger.secrets.patterns import FORMS
from ledger.secrets.redaction import redact, redacted
from tests.ledger import gitleaks_rules
from tests.ledger.gitleaks_rules import ALNUM, HEX, join

SECRET = join("correct", "Horse7")
LOGIN = base64.b64encode(f"ann:{SECRET}".encode()).decode()
PLAIN_LOGIN = base64.b64encode(f"\0ann\0{SECRET}".encode()).decode()

# Text with a secret between double braces: that and nothing else is masked.
MASKED = [
    # names in the shell's environment
    "DB_PASS={{S}}",
    "export DB_PASS='{{S}}'",
    "SMTP_PASS: {{S}}",
    "dbPass={{S}}",
    "user_pass = {{S}}",
    "REDIS_PASSWORD={{S}} make test",
    "PGPASSWORD={{S}} psql",
    "MYSQL_PWD={{S}}",
    "SECRET_KEY={{S}}",
    "STRIPE_KEY={{S}}",
    "ENCRYPTION_KEY={{S}}",
    # configuration
    "password: {{S}}",
    "password = '{{S}}'",
    'password => "{{S}}"',
    "passwd={{S}}",
    "passphrase: {{S}}",
    '"client_secret": "{{S}}"',
    '{\\"client_secret\\": \\"{{S}}\\"}',
    'config["password"] = "{{S}}"',
    "spring.datasource.password={{S}}",
    "aws_secret_access_key = {{S}}",
    "api key: {{S}}",
    "//registry.example/:_authToken={{S}}",
    # XML
    "<password>{{S}}</password>",
    "<db-password>{{S}}</db-password>",
    "<ns:clientSecret>{{S}}</ns:clientSecret>",
    '<password encrypted="false">\n  {{S}}</password>',
    "<apiKey>{{S}}</apiKey>",
    '<add key="ClearTextPassword" value="{{S}}" />',
    '<property name="db.password" value="{{S}}"/>',
    # YAML's next line
    "password:\n  {{S}}\nuser: ann",
    "password: |\n  {{S}}\nuser: ann",
    "password: >-\n    {{S}}\n",
    "api_key: |\n  {{S}}\nuser: ann",
    # commands
    "curl -u ann:{{S}} https://example.org",
    "curl -s -X POST --user 'ann:{{S}}' https://example.org",
    "curl \\\n  -u ann:{{S}} \\\n  https://example.org",
    "curl --proxy-user ann:{{S}} https://example.org",
    "mysql -u root -p{{S}} app",
    "mysqldump --host db -p'{{S}}' app > dump.sql",
    "mariadb -p{{S}}",
    "sshpass -p {{S}} ssh host",
    "docker login -u ann -p {{S}} registry.example",
    "redis-cli -h cache -a {{S}} ping",
    "mongosh --username ann -p {{S}} db",
    "openssl rsa -in key.pem -passin pass:{{S}}",
    "deploy --token {{S}} --dry-run",
    "login --db-password {{S}}",
    "tool --password={{S}}",
    # prose, and quotes inside of quotes
    "log in as ann, pass: {{S}}",
    "user ann pass={{S}} works",
    "Pass: {{S}}",
    '{"user": "ann", "pass": "{{S}}"}',
    "password='{{it''s-" + SECRET + " and words}}', host='db'",
    "password=''{{S}}'' and host = ''db''",
    'a,"password=""{{S}}"", host"',
    "password: '{{''quoted'' " + SECRET + "}}'",
    # mail servers
    "C: AUTH PLAIN {{P}}",
    "A1 AUTHENTICATE PLAIN {{P}}",
    # files of clients
    "machine example.org login ann password {{S}}",
    "machine example.org\n  login ann\n  password {{S}}",
    "default login ann password {{S}}",
    "db.example.org:5432:app:ann:{{S}}",
    "localhost:*:*:ann:{{S}}",
    '{"auths": {"registry.example": {"auth": "{{L}}"}}}',
    "_auth={{L}}",
    # addresses
    "postgres://tenfour:{{S}}@db:5432/tenfour",
    "redis://:{{S}}@127.0.0.1",
    "https%3A%2F%2Fann%3A{{S}}%40example.org",
    "?page=2&access_token={{S}}&x=1",
    "password%3D{{S}}%26user%3Dann",
    "%22password%22%3A%22{{S}}%22",
    "https://x.blob.core.windows.net/c?sv=2022&sig={{A43%3D}}",
    # headers
    "Authorization: Bearer {{S}}",
    "Authorization: Basic {{L}}",
    "authorization: {{S}}",
    "sent Bearer {{S}} to it",
    "X-Api-Key: {{S}}",
    "Cookie: {{sid=S; theme=dark}}",
    # services
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={{A86==}};EndpointSuffix=x",
    "Endpoint=sb://a.example/;SharedAccessKeyName=root;SharedAccessKey={{A43=}}",
    "VAULT_TOKEN={{hvs.A90}}",
    "databricks token {{dapiH32}}",
]

LEFT_ALONE = [
    # what programs say about a password
    "Invalid password: must be at least 8 characters",
    "password: Password must contain a digit",
    "password: This field is required.",
    "ValidationError: password: String should have at least 8 characters",
    "secret: key not found",
    "passphrase: wrong",
    "password: required",
    "Password: incorrect, try again",
    "cat: /etc/passwd: Permission denied",
    "/run/secrets/db_password: No such file or directory",
    "db_password: cannot be blank",
    "error: the secret: it expired",
    "fatal: could not read Password for 'https://x': terminal prompts disabled",
    "Password:\nTraceback (most recent call last):",
    "password:\n  Error",
    "secret:\n  name: app",
    "authorization: required",
    "Authorization: Bearer authentication failed",
    "the bearer of bad news; a bearer token is missing",
    "SyntaxError: Unexpected token: punc, unexpected token: something",
    # placeholders
    "DB_PASS=$DB_PASS",
    "DB_PASS=${DB_PASS}",
    "password: $PASSWORD",
    'password: "${DB_PASSWORD}"',
    "password: ${{ secrets.DB_PASSWORD }}",
    "password: '{{ db_password }}'",
    "password={password}",
    "set PASSWORD=%DB_PASSWORD%",
    "password=$(cat /run/secret)",
    "password=********",
    "password: xxxxxx",
    "password=<password>",
    "--token TOKEN  the token of the service",
    "--password is required",
    "--api-key <key>",
    "usage: tool --password PASSWORD",
    "<password>${db.password}</password>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer ${TOKEN}",
    "postgres://ann:$DB_PASSWORD@db/app",
    "postgres://ann:${DB_PASSWORD}@db/app",
    "postgres://ann:***@db/app",
    "curl -u ann:$PASSWORD https://example.org",
    "curl -u ann https://example.org",
    "mysql -p$MYSQL_PASSWORD app",
    "mysql -u root -p app",
    "sshpass -p $PASSWORD ssh host",
    # code
    "def login(user: str, password: str, token: Token | None = None) -> None: ...",
    "secret = os.environ['SECRET']; password = get_password(user)",
    "password: process.env.DB_PASSWORD,",
    "password=self.password",
    "password: req.body.password",
    "assert response.token == 'abcdef123456'",
    "password=None, api_key: undefined",
    "password: String,",
    "password: boolean;",
    # names that say something about a secret
    "secret_name=prod-db",
    "PASSWORD_FILE=/run/secrets/db",
    "password_policy: strict",
    "token_type: bearer12",
    "token_url=https://example.org/oauth2",
    "CACHE_KEY=node-modules-linux-8f3a",
    "PRIMARY_KEY=user_id_1",
    "<secretName>app-db-1</secretName>",
    # names in capitals
    'error: unexpected token: "IDENTIFIER_EXPECTED_HERE"',
    "token: IDENTIFIER_EXPECTED_HERE,",
    "credentials = NO_CREDENTIALS_FOUND_HERE",
    "250-AUTH PLAIN OAUTHBEARER XOAUTH2",
    # quotes of empty values
    "password='' and name='annabel7'",
    "{'password':'','name':'annabel7'}",
    "password = ''  # 'annabel7' has none",
    # numbers and other words
    "pass: tests/test_first1.py",
    "pass: test_1",
    "first pass: 3.2s, second pass: 41ms",
    "pass: 12/14",
    "pass: 12.345s",
    "pass: true",
    "Pass: every check (3 ms)",
    "PASS src/app.test.ts (5.12 s)",
    "pass: 12 of 12, all_passed=12",
    "first_pass: compile",
    "3 passed, pass=12",
    "PWD=/srv/app",
    "OLDPWD=/srv/app",
    "passwd:         files systemd",
    "total_tokens=128000 max_tokens: 4096 token_count=77",
    "token_count=12345678 api_key: whatever",
    "docker run -u 1000:1000 image",
    "install --user root:root file",
    "auth: required",
    "auth=password",
    "at 12:30:01 see http://127.0.0.1:8000/tasks/1@2 or https://host/a:b@c",
    "main.c:120:5:error:unused",
    "app.ts:1200:15:a:bcde",
    "glibc-2.36-9-deb12u4-amd64-long",
    "global-configuration-of-the-service",
    "commit 4f1c1b6d8b4c54d5a3e9d2c1b0a99887766554433 in tokenizer=cl100k_base1",
    "sha256:4f1c1b6d8b4c54d5a3e9d2c1b0a998877665544334f1c1b6d8b4c54d5a3e9d2c",
    "018f2f6e-7d8a-7c3e-9b1a-2f4c6d8e0a1b",
    "task-12345678901234567890 disk-usage: sk-fading-circle-spinner",
    "the login page and the password reset",
    "os.path.join, this.state.items and s.replace",
]


def fill(text: str) -> str:
    for mark, value in {
        "A43": ALNUM[:43],
        "A86": ALNUM[:86],
        "A90": ALNUM[:90],
        "H32": HEX[:32],
        "{{L}}": "{{" + LOGIN + "}}",
        "{{P}}": "{{" + PLAIN_LOGIN + "}}",
    }.items():
        text = text.replace(mark, value)
    return text.replace("{{S}}", "{{" + SECRET + "}}").replace("sid=S", f"sid={SECRET}")


def check_masked(row: str) -> None:
    """Check that what stands between double braces is masked, and nothing else."""
    before, opened, rest = row.rpartition("{{") if "{{" in row else ("", "", row)
    secret, _, after = rest.rpartition("}}") if opened else (rest, "", "")
    masked, found = redact(before + secret + after)
    assert secret not in masked and found.total() == 1, masked
    assert masked.startswith(before) and masked.endswith(after), masked
    assert redacted(masked) == masked


@pytest.mark.parametrize("row", MASKED)
def test_a_secret_is_masked_and_what_surrounds_it_stays(row: str) -> None:
    check_masked(fill(row))


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_text_without_a_secret_is_left_alone(text: str) -> None:
    assert redact(text) == (text, {})
    longer = f"{text}\n" + "w " * 200
    assert redact(longer) == (longer, {})


def test_the_table_is_long_enough() -> None:
    assert len(MASKED) + len(LEFT_ALONE) >= 120


@pytest.mark.parametrize("rule", gitleaks_rules.BY_FORM)
def test_a_rule_of_gitleaks_is_covered_by_form(rule: str) -> None:
    row = gitleaks_rules.BY_FORM[rule]
    check_masked(row)
    check_masked(f"said {row}" if "{{" in row else f"said '{{{{{row}}}}}', went on")


@pytest.mark.parametrize("rule", gitleaks_rules.BY_NAME)
def test_a_rule_of_gitleaks_is_covered_by_the_name(rule: str) -> None:
    service = rule.partition("-")[0]
    for line in ("{}_token = {{{{{}}}}}", "{}_api_key: '{{{{{}}}}}'", "{}ClientSecret={{{{{}}}}}"):
        check_masked(line.format(service, ALNUM[:32]))
    check_masked(f"{service.upper()}_KEY={{{{{HEX[:32]}}}}}")


def test_every_rule_of_gitleaks_is_accounted_for() -> None:
    rules = [*gitleaks_rules.BY_FORM, *gitleaks_rules.BY_NAME, *gitleaks_rules.LEFT]
    assert len(rules) == len(set(rules)) == 222


def test_every_form_says_when_it_is_searched() -> None:
    """A form without a need and without a gate would be searched in no text."""
    assert all(form.needs or form.gate for form in FORMS)
    assert all(need == need.lower() for form in FORMS for need in form.needs)


SECRET_NAMES = [
    *("password", "DB_PASSWORD", "userPassword", "passphrase", "pass", "pwd", "auth", "csrf"),
    *("XSRF", "client-secret", "apiKey", "Set-Cookie", "accessToken", "refresh_token", "tokens"),
    *("Authorization", "privateKey", "aws_access_key", "signing_key", "credential", "sessionid"),
    *("api.key", "API KEY", "x access key", "my:private:key", "DB_PASS", "AccountKey"),
    *("identitytoken", "SharedAccessKey", "encryption_key"),
]


def test_secret_names_are_told_from_others() -> None:
    other = "author passed compass tokenizer token_type secret_name key primary_key session_id"
    other += " password_file cookie_path access_key_id authority bypass cache_key"
    names = [*SECRET_NAMES, *other.split()]
    assert [name for name in names if is_secret_name(name)] == SECRET_NAMES
