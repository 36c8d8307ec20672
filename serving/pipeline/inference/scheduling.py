"""Schedules questions and documents on an accelerator, where questions arrive during every batch.

If questions always went first, documents would run only after a batch during which no question
arrived: at 2,000 questions a second and 0.9 ms a batch, one time in six, and batches of two
questions would use up the device. So a batch of documents, which takes 2 ms at most, runs after
each batch of questions, and more questions share the next one. On a CPU a batch of documents takes
as long as several questions, so questions go first there (`worker.first_with_work`).
"""

from __future__ import annotations

from serving.pipeline.inference.embedding_queues import DocumentQueue, QuestionQueue
from serving.pipeline.inference.worker import WorkQueue, first_with_work


class AlternatingSchedule:
    """Alternates questions and documents: no question waits for two batches of documents."""

    def __init__(self, questions: QuestionQueue, documents: DocumentQueue) -> None:
        self._questions = questions
        self._documents = documents
        self._last: WorkQueue | None = None
        self._taken_first = 0
        """The value of `questions.taken` from which documents are served next."""

    def next(self) -> WorkQueue | None:
        """Returns the queue that takes the next step; None if neither has work."""
        if self._last is self._documents:
            self._taken_first = self._questions.taken + self._questions.waiting
        all_have_gone = self._questions.taken >= self._taken_first
        if self._last is self._questions and all_have_gone:
            self._last = first_with_work((self._documents, self._questions))
        else:
            self._last = first_with_work((self._questions, self._documents))
        return self._last
