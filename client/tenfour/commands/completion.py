"""`tenfour completion SHELL`: completions, generated from the table of commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tenfour import cli
from tenfour.commands.terminal import OK, say
from tenfour.nouns import noun as nouns


@dataclass(frozen=True)
class Option:
    """An option, or the words that an argument may be."""

    names: Sequence[str]
    help: str
    takes_value: bool
    choices: Sequence[str]


@dataclass(frozen=True)
class Node:
    """A command, or a noun with its verbs."""

    name: str
    help: str
    options: Sequence[Option] = ()
    verbs: Sequence[Node] = ()
    # the names of its arguments, such as ID
    arguments: str = ""
    scope: str = ""


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=list(SHELLS), help="bash, zsh or fish")


def completion(args: argparse.Namespace) -> int:
    """Print the script for one shell."""
    say("\n".join(SHELLS[args.shell](read_tree())))
    return OK


def read_tree() -> list[Node]:
    """Return all commands and nouns, read from the parsers that they have."""
    tree = [
        Node(name, command.help, read_options(cli.parser_of(name)))
        for name, command in cli.COMMANDS.items()
    ]
    for name, command in cli.NOUNS.items():
        noun: nouns.Noun = command.load().NOUN
        verbs = [
            make_verb(verb, each, nouns.parser_of(noun, verb)) for verb, each in noun.verbs.items()
        ]
        tree.append(Node(name, command.help, verbs=verbs))
    return tree


def make_verb(name: str, verb: nouns.Verb, parser: argparse.ArgumentParser) -> Node:
    arguments = " ".join(
        f"[{action.metavar}]" if action.nargs == "?" else str(action.metavar)
        for action in parser._actions
        if not action.option_strings
    )
    return Node(name, verb.help, read_options(parser), arguments=arguments, scope=verb.scope)


def read_options(parser: argparse.ArgumentParser) -> list[Option]:
    return [
        Option(
            action.option_strings,
            (action.help or "").replace("%%", "%"),
            action.nargs != 0,
            [str(choice) for choice in action.choices or ()],
        )
        for action in parser._actions
        if action.help != argparse.SUPPRESS and (action.option_strings or action.choices)
    ]


def names_of(node: Node) -> list[str]:
    """Return the name of a noun or a command, and its aliases that mean the noun itself."""
    return [node.name, *(a for a, words in cli.ALIASES.items() if words == (node.name,))]


def plurals_of(node: Node) -> list[str]:
    return [a for a, words in cli.ALIASES.items() if words == (node.name, "list")]


def leaves(tree: Sequence[Node]) -> Iterator[tuple[str, Node]]:
    """Yield what is typed before the options of each command and verb, and the node itself."""
    for node in tree:
        if not node.verbs:
            yield node.name, node
        for verb in node.verbs:
            yield from ((f"{name} {verb.name}", verb) for name in names_of(node))
            yield from ((name, verb) for name in plurals_of(node) if verb.name == "list")


def first_words(tree: Sequence[Node]) -> Mapping[str, str]:
    """Return each first word and its help."""
    words = {name: node.help for node in tree for name in names_of(node)}
    words |= {name: f"List {name}." for node in tree for name in plurals_of(node)}
    return words | {"help": "Show the help of a command, or of a noun's verb."}


def in_bash(tree: Sequence[Node]) -> Iterator[str]:
    """Yield the lines of the completions for bash, which need no bash-completion."""
    yield "# bash completion for tenfour:  source <(tenfour completion bash)"
    yield f"{_FILES}() {{"
    yield "  local IFS=$'\\n'"  # their names may have spaces
    yield '  COMPREPLY=($(compgen -f -- "$cur"))'
    yield "}"
    yield "_tenfour() {"
    yield '  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=""'
    yield "  local at=1; [[ ${COMP_WORDS[1]} == help ]] && at=2"
    yield '  local first=${COMP_WORDS[at]} second=${COMP_WORDS[at+1]} path=""'
    yield "  COMPREPLY=()"
    yield "  if (( COMP_CWORD == at )); then"
    yield f'    words="{" ".join(first_words(tree))} --help --version --url"'
    yield '    COMPREPLY=($(compgen -W "$words" -- "$cur")); return'
    yield "  fi"
    yield "  if (( COMP_CWORD == at + 1 )); then"
    yield '    case "$first" in'
    for node in tree:
        if node.verbs:
            verbs = " ".join(verb.name for verb in node.verbs)
            yield f'      {"|".join(names_of(node))}) words="{verbs}" ;;'
    yield "    esac"
    yield '    if [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); return; fi'
    yield "  fi"
    yield "  (( at == 2 )) && return"
    yield '  case "$first" in'
    nouns = "|".join(name for node in tree if node.verbs for name in names_of(node))
    yield f'    {nouns}) path="$first $second" ;;'
    yield '    *) path="$first" ;;'
    yield "  esac"
    yield '  case "$path $prev" in'
    for path, node in leaves(tree):
        for option in node.options:
            if option.names and option.takes_value:
                pattern = "|".join(f'"{path} {name}"' for name in option.names)
                choices = " ".join(option.choices)
                reply = f'COMPREPLY=($(compgen -W "{choices}" -- "$cur"))' if choices else _FILES
                yield f"    {pattern}) {reply}; return ;;"
    yield "  esac"
    yield '  case "$path" in'
    for path, node in leaves(tree):
        yield f'    "{path}") words="{" ".join(_words(node))}" ;;'
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield f"  [[ -z $COMPREPLY && $cur != -* ]] && {_FILES}"
    yield "}"
    yield "complete -o filenames -F _tenfour tenfour"


_FILES = "_tenfour_files"


def _words(node: Node) -> list[str]:
    """Return the options of a command, and the words that its arguments may be."""
    return [word for option in node.options for word in option.names or option.choices]


def in_zsh(tree: Sequence[Node]) -> Iterator[str]:
    """Yield the lines of the completions for zsh."""
    yield "#compdef tenfour"
    yield "# zsh completion for tenfour:  source <(tenfour completion zsh)"
    yield "_tenfour() {"
    yield "  local at=2; [[ ${words[2]} == help ]] && at=3"
    yield "  if (( CURRENT == at )); then"
    yield "    local -a first=("
    for name, help in first_words(tree).items():
        yield f"      {_quote(f'{name}:{help}')}"
    yield "    )"
    yield "    _describe 'command' first; return"
    yield "  fi"
    yield "  local -a verbs"
    yield "  if (( CURRENT == at + 1 )); then"
    yield "    case ${words[at]} in"
    for node in tree:
        if node.verbs:
            verbs = " ".join(_quote(f"{verb.name}:{verb.help}") for verb in node.verbs)
            yield f"      {'|'.join(names_of(node))}) verbs=({verbs}) ;;"
    yield "    esac"
    yield "    if (( $#verbs )); then _describe 'verb' verbs; return; fi"
    yield "  fi"
    yield "  (( at == 3 )) && return"
    yield "  local place=${words[2]}"
    nouns = "|".join(name for node in tree if node.verbs for name in names_of(node))
    yield f'  case $place in {nouns}) place+=" ${{words[3]}}" ;; esac'
    yield "  case $place in"
    for path, node in leaves(tree):
        specs = " ".join(_zsh_spec(option) for option in node.options)
        skip = 2 if " " in path else 1
        yield f'    "{path}") shift {skip} words; (( CURRENT -= {skip} ))'
        yield f"      _arguments -s {specs} '*:argument:_files' ;;"
    yield "  esac"
    yield "}"
    yield 'if [[ $funcstack[1] == _tenfour ]]; then _tenfour "$@"'
    yield "else compdef _tenfour tenfour; fi"


def _zsh_spec(option: Option) -> str:
    help = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    choices = f"({' '.join(option.choices)})" if option.choices else "_files"
    if not option.names:
        return _quote(f"1:{help}:{choices}")
    value = f":value:{choices}" if option.takes_value else ""
    each = [_quote(f"{name}[{help}]{value}") for name in option.names]
    return " ".join(each)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def in_fish(tree: Sequence[Node]) -> Iterator[str]:
    """Yield the lines of the completions for fish."""
    yield "# fish completion for tenfour:  tenfour completion fish | source"
    yield "function __tenfour_at"
    yield "    set -l words (commandline -opc)"
    yield "    set -e words[1]"
    yield '    test "$words[1]" = help; and set -e words[1]'
    yield "    test (count $words) -ge (count $argv); or return 1"
    yield "    for at in (seq (count $argv))"
    yield "        test $words[$at] = $argv[$at]; or return 1"
    yield "    end"
    yield "end"
    yield "function __tenfour_needs"
    yield "    set -l words (commandline -opc)"
    yield "    set -e words[1]"
    yield '    test "$words[1]" = help; and set -e words[1]'
    yield "    test (count $words) -eq (count $argv); and __tenfour_at $argv"
    yield "end"
    top = "test (count (commandline -opc)) -eq 1; or __tenfour_at help"
    for name, help in first_words(tree).items():
        yield f"complete -c tenfour -f -n '__tenfour_needs' -a {name} -d {_fish(help)}"
    yield f"complete -c tenfour -n '{top}' -l version -d 'show the version'"
    for node in tree:
        for name in names_of(node):
            for verb in node.verbs:
                test = f"__tenfour_needs {name}"
                yield f"complete -c tenfour -f -n '{test}' -a {verb.name} -d {_fish(verb.help)}"
    for path, node in leaves(tree):
        for option in node.options:
            yield f"complete -c tenfour -n '__tenfour_at {path}' {_fish_spec(option)}"


def _fish_spec(option: Option) -> str:
    choices = f" -a {_fish(' '.join(option.choices))}" if option.choices else ""
    if not option.names:
        return f"-f{choices} -d {_fish(option.help)}"
    names = " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    )
    value = (" -x" if option.choices else " -r") if option.takes_value else ""
    return f"{names}{value}{choices} -d {_fish(option.help)}"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}
