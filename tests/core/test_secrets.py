"""Passwords in URLs."""

import pytest

from shoal.core.secrets import redacted, without_password


@pytest.mark.parametrize(
    ("url", "shown", "kept"),
    [
        ("postgresql://me:secret@host/base", "postgresql://me:***@host/base", "postgresql://me@host/base"),
        ("postgresql://me:p@ss/w:rd@host:5432/b", "postgresql://me:***@host:5432/b", "postgresql://me@host:5432/b"),
        ("http://:token@host", "http://:***@host", "http://@host"),
        ("postgresql://h/b?password=x&a=1", "postgresql://h/b?password=***&a=1", "postgresql://h/b?a=1"),
        ("postgresql://h/b?a=1&password=x", "postgresql://h/b?a=1&password=***", "postgresql://h/b?a=1"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("sqlite:////home/me/a.db", "sqlite:////home/me/a.db", "sqlite:////home/me/a.db"),
    ],
)
def test_a_password_is_hidden_or_left_out(url, shown, kept):
    assert redacted(url) == shown
    assert without_password(url) == kept


def test_every_url_of_a_text_is_searched():
    text = "from http://a:1@x to http://b:2@y, at 3"
    assert redacted(text) == "from http://a:***@x to http://b:***@y, at 3"
