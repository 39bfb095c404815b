"""Sentences wrap at words where a person looks, and nowhere else."""

from __future__ import annotations

import io

import pytest

from stemmadb.client.cli.context import wrapped

SENTENCE = "There is no space 'todo' at ws://127.0.0.1:8420. List those you know with 'stemmadb space list'."


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_sentence_wraps_at_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = wrapped(SENTENCE, Terminal()).split("\n")
    assert len(lines) == 3
    assert max(map(len, lines)) <= 40
    assert " ".join(lines) == SENTENCE
    assert wrapped("did:key:" + "z" * 60, Terminal()) == "did:key:" + "z" * 60  # what can be copied stays whole


def test_elsewhere_it_is_one_line() -> None:
    assert wrapped(SENTENCE * 3, io.StringIO()) == SENTENCE * 3
