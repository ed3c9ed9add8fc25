"""What an answer of the API means to us, by its status and its words."""

from __future__ import annotations

import json

import pytest

from gpufleet.clusters.kubernetes.answers import Conflict, Denied, Expired, Full, error_in, error_of
from gpufleet.errors import NotFound, Permanent, Temporary

NO_RIGHT = 'pods "a" is forbidden: User "gpufleet" cannot patch resource "pods" in API group "" in the namespace "t"'


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (404, 'pods "a" not found', NotFound),
        (409, 'pods "a" already exists', Conflict),
        (410, "too old resource version", Expired),
        (401, "Unauthorized", Temporary),
        (403, NO_RIGHT, Temporary),
        (403, "exceeded quota: gpu, requested: requests.nvidia.com/gpu=3, used: 2, limited: 4", Full),
        (403, "maximum nvidia.com/gpu usage per Container is 1, but limit is 2", Full),
        (403, "unable to create new content in namespace t because it is being terminated", Denied),
        (403, 'admission webhook "w" denied the request: no', Denied),
        (400, 'admission webhook "w" denied the request: no', Denied),
        (422, "Pod is invalid: spec.containers: Required value", Permanent),
        (429, "the server is busy", Temporary),
        (500, "etcdserver: request timed out", Temporary),
        (504, "Too large resource version", Temporary),
    ],
)
def test_its_words_are_kept_and_its_kind_is_known(status: int, said: str, kind: type[Exception]) -> None:
    error = error_of("east", status, json.dumps({"message": said}).encode())
    assert type(error) is kind and said in str(error) and "east" in str(error)


def test_it_is_asked_again_when_it_said() -> None:
    found = error_of("east", 429, b"slow down", "7")
    assert isinstance(found, Temporary) and found.retry_after == 7 and "slow down" in str(found)


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"\xff\xfe", b'{"message": null}'])
def test_an_answer_that_says_nothing_is_still_told(raw: bytes) -> None:
    assert "east" in str(error_of("east", 503, raw))


def test_an_error_in_a_watch_is_what_its_code_says() -> None:
    assert isinstance(error_in("east", {"code": 410, "message": "Expired"}), Expired)
    assert isinstance(error_in("east", {"odd": True}), Temporary)
