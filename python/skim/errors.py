"""Exceptions of skim. The message names the thing, what was found and what was expected; `code` is an ErrorCode."""
from __future__ import annotations

from skim._skim import ErrorCode


class Error(Exception):
    """Base of everything that skim reports."""

    code: ErrorCode

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        if code is not None:  # when unpickled, it comes with the other attributes
            self.code = code


class SkimValueError(Error, ValueError):
    """INVALID_ARGUMENT, BAD_FILE, BAD_CONFIG, TENSOR_MISMATCH"""


class SkimMemoryError(Error, MemoryError):
    """OUT_OF_MEMORY"""


class SkimRuntimeError(Error, RuntimeError):
    """WRONG_ORDER, LIMIT_EXCEEDED, IO, UNAVAILABLE, CANCELLED"""
