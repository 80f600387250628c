"""The simple commands of a shell block: loops, conditions, redirections and variables are taken
apart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_SEPARATORS = re.compile(r"[;&|()]+")
_REDIRECTION = re.compile(r"\d*[<>]+&?\d*")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_KEYWORDS = {"do", "then", "else", "until", "while", "if", "exec", "!"}
_BUILTINS = {"done", "fi", "set", "export", "[", "."}  # no program follows these


def lines_of(text: str) -> list[str]:
    """The lines of a block; a backslash continues one in the next line."""
    return text.replace("\\\n", " ").splitlines()


def simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each simple command of a block, without variables and redirections."""
    for line in lines_of(text):
        words: list[str] = []
        for token in _tokens(line):
            if _SEPARATORS.fullmatch(token):
                yield from _command(words)
                words = []
            else:
                words.append(token)
        yield from _command(words)


def _tokens(line: str) -> list[str]:
    """Words and operators of a line, without its comment."""
    text = re.sub(r"\$\(\(.*?\)\)", "0", line)  # arithmetic is no command
    text = re.sub(r"\d*>&\d|&>", " > x ", text)  # 2>&1 is no separator
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    tokens: list[str] = []
    for token in lexer:
        if token.startswith("#"):
            break
        tokens.append(token)
    return tokens


def _command(words: list[str]) -> Iterator[list[str]]:
    """The command among some words, if there is one."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif _REDIRECTION.fullmatch(word):
            skip = True  # the file follows
        elif not kept and (word in _KEYWORDS or _VARIABLE.fullmatch(word)):
            continue
        else:
            kept.append(word)
    if kept and kept[0] not in _BUILTINS and kept[0] != "for":
        yield kept
