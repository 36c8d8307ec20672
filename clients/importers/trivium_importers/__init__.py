"""Translates the exports of other memories into items.

Each module has a function `items` of one memory: from the records of its export to segments and
facts. What they do not carry over, a `Translation` collects.
"""
