"""The protocols that the pipeline depends on, and that adapters implement.

Unless stated otherwise a method raises `StoreUnavailableError` or `DependencyError` when its
backend cannot be reached, raises `TimeoutError` when its deadline passes, and can be cancelled.
Implementations are used from one event loop and must not block it.
"""
