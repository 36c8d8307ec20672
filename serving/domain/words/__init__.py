"""Texts as the search by words and the encoder read them: the same for what is stored and asked."""
