"""Errors that everybody meets (pure): how they read, what mostly causes them, what mends them.

The first that fits wins, so what is particular stands before what is general. `{name}` stands for
a name out of the error, of harmless characters, and only in the cause: what a program printed must
not say what is done next.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

LOOKED_AT = 4_000
NAME = r"['\"`]?([\w@][\w@./:-]{0,79}?)"
FIRST = rf"(?<![\w@./:-]){NAME}"


@dataclass(frozen=True, slots=True)
class KnownError:
    """One line of the table."""

    name: str
    title: str
    reads: re.Pattern[str]
    cause: str
    fix: str


@dataclass(frozen=True, slots=True)
class Found:
    """A known error in a text; its cause names what the text names."""

    error: KnownError
    cause: str

    @property
    def fix(self) -> str:
        return self.error.fix


def known(name: str, title: str, reads: str, cause: str, fix: str) -> KnownError:
    return KnownError(name, title, re.compile(reads, re.I), cause, fix)


KNOWN = (
    # ---- version control
    known(
        "merge_conflict",
        "Merge conflict",
        r"merge conflict|\bCONFLICT \(|automatic merge failed|unmerged (?:files|paths)"
        r"|could not apply [0-9a-f]{7}",
        "Two changes touch the same lines.",
        "Resolve every conflict marker in the files that are named, keep what both sides meant, "
        "run the checks, then finish the merge or rebase.",
    ),
    known(
        "repository_locked",
        "Repository locked",
        r"index\.lock|another git process seems",
        "Another process works in the same working copy, or one died there.",
        "Let the other process end. Where none runs, remove the lock file that is named. Give "
        "agents that work side by side a working copy each.",
    ),
    known(
        "push_rejected",
        "Push rejected",
        r"non-fast-forward|\[rejected\]|updates were rejected|failed to push some refs|fetch first",
        "The remote branch has commits that this copy lacks.",
        "Fetch, rebase the work onto the remote branch, run the checks and push again. Do not "
        "force.",
    ),
    # ---- packages and tools
    known(
        "missing_own_file",
        "Import of a missing file",
        r"(?:cannot find module|can't resolve|could not resolve|failed to resolve import) "
        r"['\"`](?:\.{1,2}/|/|@/|~/)",
        "An import names a file of the project that is not there, or is not built yet.",
        "Compare the path of the import with the files that exist, in upper and lower case too; "
        "build or generate the file where it is made.",
    ),
    known(
        "wrong_version",
        "Wrong version of the language",
        r"EBADENGINE|unsupported engine|requires-python|requires (?:a different )?(?:python|node)\b"
        r"|requires rustc|unsupported class file major version|go\.mod requires go",
        "The project needs another version of its language or runtime than the one that ran.",
        "Use the version that the project's files name; do not change what they ask for.",
    ),
    known(
        "dependency_conflict",
        "Dependencies contradict each other",
        r"\bERESOLVE\b|unable to resolve dependency tree|ResolutionImpossible"
        r"|conflicting (?:peer )?dependenc|version solving failed|incompatible (?:peer )?depend"
        r"|no matching version|could not find a version that satisfies"
        r"|failed to select a version",
        "No set of versions satisfies all that the dependencies ask for.",
        "Read which two ask for what; loosen or move one of them to a version that both accept, "
        "and update the lock file. Do not force the installation.",
    ),
    known(
        "lock_file_outdated",
        "Lock file out of date",
        r"outdated[_ ]lockfile|lock ?file .{0,60}(?:out of date|not up.to.date|needs to be updated)"
        r"|can only install (?:packages )?(?:with|when) .{0,80}lock|frozen.lockfile"
        r"|\.lock is not up.to.date",
        "The list of dependencies was changed, and its lock file was not.",
        "Run the package manager's install once without frozen mode, and commit the lock file.",
    ),
    known(
        "missing_module",
        "Missing module",
        rf"(?:cannot find (?:module|package)|no module named|can't resolve|unresolved import"
        rf"|can't find crate for|failed to resolve import|cannot load such file --) {NAME}"
        rf"(?=['\"`]|\s|$)"
        rf"|no required module provides package {NAME}(?=[;\s]|$)"
        rf"|(?:ClassNotFoundException|NoClassDefFoundError):? {NAME}(?=\s|$)"
        rf"|package {NAME} does not exist",
        "{name} is not installed where the command runs.",
        "Add it to the project's dependencies with its package manager, install them, and run the "
        "command in the same environment. Where it is a module of the project, check its path.",
    ),
    known(
        "missing_export",
        "Missing name in a module",
        r"cannot import name|no exported member|does not provide an export"
        r"|is not exported (?:by|from)",
        "The module is there, but has no such name: another version, a slip, or a circular import.",
        "Look up how the installed version calls it; where two modules import each other, move "
        "what both need into a third.",
    ),
    known(
        "missing_script",
        "Missing script or target",
        r"missing script|no rule to make target|script .{1,60} not found|task .{1,60} not found in",
        "The project has no script or target of that name.",
        "List the scripts that the project has and use the one that is meant.",
    ),
    known(
        "container_daemon",
        "No container daemon",
        r"cannot connect to the docker daemon|docker\.sock",
        "The container daemon does not run, or this user may not reach it.",
        "Start it, or run the step where there is one.",
    ),
    known(
        "command_not_found",
        "Command not found",
        rf"{FIRST}: (?:command )?not found(?:$|\n)|command not found: {NAME}(?=\s|$)"
        rf"|{FIRST}['\"]? is not recognized as|spawn {NAME} ENOENT"
        rf"|exec: \"{NAME}\": executable file not found",
        "{name} is not installed, or not on the PATH of the process.",
        "Install it, or call it by the path where the project keeps it.",
    ),
    # ---- limits of the machine
    known(
        "too_many_files",
        "Too many open files",
        r"\bEMFILE\b|\bENFILE\b|too many open files|number of file watchers",
        "The process holds more files or watchers open than the system allows.",
        "Close what is opened, watch fewer folders, or have the limit raised.",
    ),
    known(
        "disk_full",
        "Disk full",
        r"\bENOSPC\b|no space left on device|\bEDQUOT\b|quota exceeded.{0,20}disk"
        r"|disk (?:quota|full|is full)",
        "The disk, or the share of it for this user, is full.",
        "Free space on it: caches, old builds, logs. Then run the command again.",
    ),
    known(
        "out_of_memory",
        "Out of memory",
        r"out of memory|\bOOM.?kill|\bMemoryError\b|heap limit|heap out of|\bENOMEM\b"
        r"|cannot allocate memory|std::bad_alloc|java heap space|signal: killed",
        "The process needed more memory than there is.",
        "Do it in smaller parts or with fewer workers at once, or run it where there is more "
        "memory.",
    ),
    known(
        "read_only",
        "Read-only file system",
        r"\bEROFS\b|read-only file system",
        "The place is mounted for reading only.",
        "Write to a folder that the task may change, such as the working copy or a temporary one.",
    ),
    # ---- services
    known(
        "context_too_long",
        "Too much for the model",
        r"context.{0,10}length|maximum context|prompt is too long|context_window"
        r"|too many (?:input )?tokens",
        "The conversation or a tool's output is longer than the model accepts.",
        "Begin anew with a short account of what is known; read files in parts and print less.",
    ),
    known(
        "rate_limit",
        "Rate limit",
        r"\b429\b|rate.?limit|too many requests|throttl|quota (?:was |has been )?exceeded"
        r"|RESOURCE_EXHAUSTED",
        "More was asked of the service than it allows in that time.",
        "Wait as long as its answer says, then go on with fewer requests at once.",
    ),
    known(
        "authentication",
        "Not signed in",
        r"\b401\b|unauthori[sz]ed|authentication (?:failed|required)|invalid (?:api|access).?key"
        r"|bad credentials|could not read username|\(publickey\)|token (?:has |is )?(?:expired"
        r"|invalid)"
        r"|not logged in|password authentication failed",
        "The credentials are missing, wrong or expired.",
        "A person has to provide valid credentials where the command looks for them; do not search "
        "for others.",
    ),
    known(
        "forbidden",
        "Not allowed",
        r"\b403\b|\bforbidden\b|access.?denied|not authori[sz]ed|insufficient (?:permission|scope)",
        "The account is known, but may not do that.",
        "A person has to grant the right, or say how to go without it.",
    ),
    known(
        "service_away",
        "Service not available",
        r"\b50[234]\b|\b529\b|service (?:is )?(?:temporarily )?unavailable|bad gateway"
        r"|gateway time-?out|overloaded|internal server error|\bHTTP 500\b",
        "The service had a fault of its own, or too much to do.",
        "Wait and try again; where it lasts, look at the service's own status and logs.",
    ),
    # ---- network
    known(
        "port_in_use",
        "Port in use",
        r"\bEADDRINUSE\b|address already in use|port (?:number )?\d+ is (?:already )?(?:in use"
        r"|alloc)"
        r"|port is already allocated",
        "Another process listens on the same port, often one left from an earlier attempt.",
        "Stop the process that holds the port if it is yours, or use a free port.",
    ),
    known(
        "dns",
        "Name of a host not found",
        r"\bENOTFOUND\b|\bEAI_AGAIN\b|getaddrinfo|could not resolve host|NXDOMAIN|no such host"
        r"|name or service not known|name resolution|unknown host",
        "The host's name is wrong, or this machine can't look names up.",
        "Check the spelling of the host; where it is right, the machine's network or its allowed "
        "hosts have to be mended.",
    ),
    known(
        "certificate",
        "Certificate not trusted",
        r"certificate|self.signed|\bx509\b|ssl(?:error|:? handshake)|CERT_HAS_EXPIRED"
        r"|tls handshake",
        "The other side's certificate is expired, for another name, or from nobody known here.",
        "Add the issuer's certificate to those that are trusted, or renew it. Do not switch the "
        "check off.",
    ),
    known(
        "connection_refused",
        "Connection refused",
        r"\bECONNREFUSED\b|connection (?:was |is )?refused|could not connect to (?:the )?server",
        "Nothing listens at that address: the service is not started yet, or elsewhere.",
        "Start the service and wait until it answers; compare host and port with its settings.",
    ),
    known(
        "connection_lost",
        "Connection lost",
        r"\bECONNRESET\b|connection (?:was )?(?:reset|closed|aborted|lost)|broken pipe|\bEPIPE\b"
        r"|socket hang up|no route to host|network is unreachable|\bEHOSTUNREACH\b"
        r"|server closed the connection|remote end closed",
        "The other side ended the connection, or the network between failed.",
        "Try again; where it happens every time, look at the other side's log of that moment.",
    ),
    # ---- databases
    known(
        "database_locked",
        "Database locked",
        r"deadlock|database is locked|could not obtain lock|lock (?:wait )?timeout",
        "Two transactions wait for each other, or one holds a lock for long.",
        "Try again; take locks in one order and keep transactions short.",
    ),
    known(
        "schema_behind",
        "Database lacks a table or column",
        r"relation .{1,80} does not exist|column .{1,80} does not exist|no such (?:table|column)"
        r"|UndefinedTable|UndefinedColumn|unapplied migration|table .{1,80} doesn't exist",
        "The database is behind the code: a migration is missing or was not run.",
        "Write the migration if there is none, run the migrations, then run the command again.",
    ),
    known(
        "duplicate_key",
        "Value exists already",
        r"duplicate key|unique constraint|UniqueViolation|duplicate entry|E11000",
        "A row with the same unique value is there, often from an earlier attempt.",
        "Update the row that is there, use another value, or clear the data of earlier attempts.",
    ),
    # ---- access to files
    known(
        "permission_denied",
        "Permission denied",
        r"permission denied|\bEACCES\b|\bEPERM\b|operation not permitted",
        "The process may not read, write or run that file.",
        "Check who owns the file and whether it may be executed; work inside the working copy. A "
        "person has to grant anything beyond.",
    ),
    known(
        "missing_setting",
        "Missing environment variable",
        r"environment variable|KeyError: ['\"][A-Z][A-Z0-9_]{3,}['\"]"
        r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+ (?:is|was) (?:not set|missing|required|undefined)",
        "A variable that the program reads from its environment is not set.",
        "Set it as the project's documentation says; a secret has to come from a person.",
    ),
    known(
        "missing_file",
        "Missing file",
        r"\bENOENT\b|no such file or directory|FileNotFoundError|cannot stat|file not found"
        r"|path does not exist|could not find file|NoSuchFileException",
        "The path does not exist where the command runs.",
        "Print the working folder and list what is there; mend the path, or make the file first.",
    ),
    # ---- code
    known(
        "bad_json",
        "Not valid JSON",
        r"JSONDecodeError|in JSON at position|unexpected end of JSON|not valid JSON"
        r"|expecting value: line",
        "What was read as JSON is empty, cut off, or something else, such as an error page.",
        "Print what was really read; mend where it comes from.",
    ),
    known(
        "encoding",
        "Wrong encoding",
        r"Unicode(?:Decode|Encode)Error|codec can't|invalid byte sequence|invalid utf-?8",
        "The text is not in the encoding that it is read or written with.",
        "Read and write it as UTF-8, said explicitly; treat binary files as bytes.",
    ),
    known(
        "syntax",
        "Syntax error",
        r"SyntaxError|syntax error|IndentationError|TabError|unexpected token|unexpected end of"
        r"|parse ?error|parsing error|unterminated|unexpected indent|expected .{1,20}, found",
        "The file does not follow the grammar of its language, often since the last edit.",
        "Open the file at the line that is named, mend it, and parse it before running anything "
        "else.",
    ),
    known(
        "undefined_name",
        "Undefined name",
        r"NameError|ReferenceError|cannot find name|cannot find symbol|undeclared"
        r"|undefined reference"
        r"|undefined: |cannot find (?:value|function|type) ",
        "A name is used that is not defined or imported there.",
        "Import or define it, or mend the spelling.",
    ),
    known(
        "no_value",
        "Value missing where one is used",
        r"cannot read propert|of (?:undefined|null)\b|NoneType|NullPointerException|nil pointer"
        r"|null reference|is (?:null|undefined)\b",
        "Something is empty where the code takes it to be there.",
        "Find where it should have been set; handle the case that it is not.",
    ),
    known(
        "wrong_type",
        "Wrong type",
        r"TypeError|error TS\d+|is not assignable to|incompatible type|mismatched types"
        r"|AttributeError|is not a function|ClassCastException|ValidationError",
        "A value has another type or shape than what uses it expects.",
        "Compare the definition of what is called with the call; mend the side that is wrong "
        "instead of silencing the check.",
    ),
    known(
        "recursion",
        "Endless recursion",
        r"RecursionError|maximum call stack|stack overflow|StackOverflowError",
        "A function calls itself without end.",
        "Look at the lines that repeat in the trace, and add the case that ends it.",
    ),
    known(
        "crash",
        "The program crashed",
        r"segmentation fault|SIGSEGV|core dumped|SIGABRT|bus error",
        "Native code failed: a broken build, a wrong version, or a fault in it.",
        "Build the native parts anew for this machine; find the smallest call that crashes.",
    ),
    known(
        "coverage",
        "Coverage too low",
        r"coverage .{0,60}(?:threshold|below|less than|fail.under|<)|fail.under",
        "The tests pass, but too few lines are run by them.",
        "Add tests for the lines that the report names. Do not lower the limit.",
    ),
    known(
        "assertion",
        "A test fails",
        r"AssertionError|assertion.{0,20}fail|\b[1-9]\d* (?:tests? )?fail(?:ed|ing|ures?)\b"
        r"|expected .{1,200}\b(?:to (?:be|equal|have|match|contain|throw)|but (?:got|was|received))"
        r"|\bFAIL(?:ED)?\b[: ]",
        "The code does not do what the test expects.",
        "Run the failing test alone, compare what it expects with what it gets, and mend the code; "
        "change the test only where it is wrong.",
    ),
    known(
        "style",
        "Style check fails",
        r"would reformat|code style issues|lint(?:ing)? (?:error|fail)|\b[1-9]\d* problems? \("
        r"|not formatted",
        "The code runs, but not as the project wants it written.",
        "Run the project's formatter and its linter with fixes, and mend what remains by hand.",
    ),
    # ---- time
    known(
        "lease_expired",
        "Not heard of any more",
        r"nobody renewed its lease",
        "The agent stopped, hung, or lost its connection while it worked.",
        "See in the agent's own log whether it was ended. If it only works long without a word, "
        "have it send heartbeats or give the task a longer lease.",
    ),
    known(
        "timeout",
        "Timeout",
        r"tim(?:ed|e) ?-?out|\bETIMEDOUT\b|deadline.?exceeded|longer than its timeout|TimeoutError",
        "It took longer than it may: an endless loop, a command that asks, or too much at once.",
        "Find the step that hangs and run it alone, without prompts; split the work, or give it "
        "more time if it only needs it.",
    ),
)

# what a command's exit code says where its words say nothing
EXITS = {
    124: "timeout",
    126: "permission_denied",
    127: "command_not_found",
    137: "out_of_memory",
    139: "crash",
}
BY_NAME = {error.name: error for error in KNOWN}
UNNAMED = {"missing_module": "A module", "command_not_found": "The command"}


def find(texts: Iterable[str], *, exit_code: int | None = None) -> Found | None:
    """The known error that the first telling text reads like, else the one of the exit code.

    >>> find(["Error: Cannot find module 'uuid'"]).cause
    'uuid is not installed where the command runs.'
    """
    for text in texts:
        part = text[-LOOKED_AT:]
        for error in KNOWN:
            if match := error.reads.search(part):
                return filled(error, match)
    if exit_code in EXITS:
        return filled(BY_NAME[EXITS[exit_code]], None)
    return None


def filled(error: KnownError, match: re.Match[str] | None) -> Found:
    """Its cause with the name that the error tells, or without one."""
    named = next((value for value in match.groups() if value), "") if match else ""
    cause = error.cause.replace("{name}", named or UNNAMED.get(error.name, ""))
    return Found(error, cause)
