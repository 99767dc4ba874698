"""Texts in the form of a call, as `cosine(3e-4, 3e-5, warmup=0.05)`: how users write a choice with its options."""


def read_arguments(text: str, inside: str) -> tuple[list[str], dict[str, str]]:
    """Return (the words without a name, the words by name) of `inside`, the part of a call between its parentheses.

    `text` is the whole call, for the message of the ValueError for a name that is given twice.
    """
    words, named = [], dict[str, str]()
    for part in filter(None, map(str.strip, inside.split(","))):
        name, is_named, word = (piece.strip() for piece in part.partition("="))
        if not is_named:
            words.append(part)
        elif name in named:
            raise ValueError(f"{text} has {name!r} twice: give it once.")
        else:
            named[name] = word
    return words, named
