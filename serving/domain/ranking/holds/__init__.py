"""What holds now: which of two statements about one thing answers, by a learned model of pairs."""
