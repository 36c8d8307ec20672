"""The tenant and the words of a question in the full-text index of names."""

from __future__ import annotations

from hashlib import blake2b

from serving.domain.questions.named_entities import FUZZY_FROM_LETTERS, content_words


def tenant_token(tenant: str) -> str:
    """The tenant as a single word, to filter the full-text index by."""
    return "t" + blake2b(tenant.encode(), digest_size=12).hexdigest()


def near_names_query(tenant: str, question: str) -> str | None:
    """The Lucene query for the tenant's names that share words with the question.

    Words may differ by one letter. None if the question has no content word. Words are lower-case
    letters and digits, so they contain no Lucene operators.
    """
    words = content_words(question)
    if not words:
        return None
    terms = " ".join(
        f"words:{word} words:{word}~1" if len(word) >= FUZZY_FROM_LETTERS else f"words:{word}"
        for word in words
    )
    return f"+tenant_token:{tenant_token(tenant)} +({terms})"
