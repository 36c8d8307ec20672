"""Whose turn it is where a device is so quick that questions never cease to wait.

If questions always went first, documents would have a turn only when none has come during a
batch. At 2,000 a second and .9 ms a batch that is one time in six, and batches of two questions
would take the device's time. So documents have a turn after each batch of questions, which lets
more of them come together in the next. A batch of documents takes 2 ms at most there. On a CPU it
takes as long as several questions, so there these go first (`lane.first_with_work`).
"""

from __future__ import annotations

from serving.pipeline.embedding_queues import DocumentQueue, QuestionQueue
from serving.pipeline.lane import LaneQueue, first_with_work


class Turns:
    """Turns between questions and documents: no question waits behind two batches of documents.

    Args:
        questions: Those that wait; they begin.
        documents: What goes in between.
    """

    def __init__(self, questions: QuestionQueue, documents: DocumentQueue) -> None:
        self._questions = questions
        self._documents = documents
        self._last: LaneQueue | None = None
        self._taken_first = 0
        """How many questions are to be taken, of all ever, before documents have a turn."""

    def next(self) -> LaneQueue | None:
        """The queue whose turn it is; None if neither has work. It has to take its step then."""
        if self._last is self._documents:
            self._taken_first = self._questions.taken + self._questions.waiting
        all_have_gone = self._questions.taken >= self._taken_first
        if self._last is self._questions and all_have_gone:
            self._last = first_with_work((self._documents, self._questions))
        else:
            self._last = first_with_work((self._questions, self._documents))
        return self._last
