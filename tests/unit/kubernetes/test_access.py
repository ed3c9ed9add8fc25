"""Ways into a cluster: what a kubeconfig says, what a credential plugin answers."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.errors import Invalid, Temporary


def written(folder: Path, user: dict[str, Any], **cluster: Any) -> str:
    raw = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(raw))
    return str(path)


def token(path: str) -> str:
    return asyncio.run(access_from(path, environment={}).token())


def plugin(folder: Path, script: str) -> dict[str, Any]:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(path),
            "args": ["get"],
            "env": [{"name": "WHO", "value": "me"}],
        }
    }


class TestAKubeconfig:
    def test_a_token_as_it_stands(self, tmp_path: Path) -> None:
        assert token(written(tmp_path, {"token": "abc"})) == "Bearer abc"

    def test_a_token_beside_it_is_read_again_when_it_was_renewed(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("old\n")
        access = access_from(written(tmp_path, {"tokenFile": "token"}), environment={})
        assert asyncio.run(access.token()) == "Bearer old"
        (tmp_path / "token").write_text("new\n")
        assert asyncio.run(access.token()) == "Bearer old"
        access.forget()
        assert asyncio.run(access.token()) == "Bearer new"

    def test_a_password(self, tmp_path: Path) -> None:
        pair = base64.b64encode(b"ada:secret").decode()
        assert token(written(tmp_path, {"username": "ada", "password": "secret"})) == f"Basic {pair}"

    def test_another_context_than_the_current_one(self, tmp_path: Path) -> None:
        path = written(tmp_path, {})
        with pytest.raises(Invalid, match=r"has no 'other' among its contexts; it has: c\."):
            access_from(path, "other", environment={})

    def test_the_environment_names_the_file(self, tmp_path: Path) -> None:
        path = written(tmp_path, {"token": "abc"})
        assert access_from(environment={"KUBECONFIG": path}).server == "http://127.0.0.1:1"

    @pytest.mark.parametrize("text", ["", "[]", "contexts: 7", "{", "current-context: c\ncontexts: [{name: c}]"])
    def test_a_file_that_is_none_is_named(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "config").write_text(text)
        with pytest.raises(Invalid, match="config"):
            access_from(str(tmp_path / "config"), environment={})

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(Invalid, match="cannot be read"):
            access_from(str(tmp_path / "nothing"), environment={})

    def test_what_kubernetes_dropped_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Invalid, match="credential plugin"):
            access_from(written(tmp_path, {"auth-provider": {"name": "gcp"}}), environment={})

    def test_a_certificate_that_is_no_base64_is_told(self, tmp_path: Path) -> None:
        path = written(tmp_path, {}, server="https://127.0.0.1:1", **{"certificate-authority-data": "%%%"})
        with pytest.raises(Invalid, match="certificate-authority-data is not base64"):
            access_from(path, environment={})


class TestAPlugin:
    def answer(self, **status: Any) -> str:
        return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})

    def test_it_is_asked_with_its_environment_and_what_we_speak(self, tmp_path: Path) -> None:
        script = """echo "$KUBERNETES_EXEC_INFO" | grep -q client.authentication.k8s.io/v1 || exit 3
echo '{"status": {"token": "'$1-$WHO'"}}'"""
        assert token(written(tmp_path, plugin(tmp_path, script))) == "Bearer get-me"

    def test_its_token_is_kept_until_shortly_before_it_ends(self, tmp_path: Path) -> None:
        for life, asked in ((timedelta(hours=1), 1), (timedelta(seconds=20), 2)):
            until = (datetime.now(UTC) + life).isoformat()
            script = f"echo x >> {tmp_path}/asked; echo '{self.answer(token='t', expirationTimestamp=until)}'"
            access = access_from(written(tmp_path, plugin(tmp_path, script)), environment={})
            for _ in range(2):
                assert asyncio.run(access.token()) == "Bearer t"
            assert (tmp_path / "asked").read_text().count("x") == asked
            (tmp_path / "asked").unlink()

    def test_its_own_words_are_told_when_it_fails(self, tmp_path: Path) -> None:
        with pytest.raises(Temporary, match="log in first"):
            token(written(tmp_path, plugin(tmp_path, "echo log in first >&2; exit 1")))

    def test_an_answer_without_a_token_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(Invalid, match="gave no token"):
            token(written(tmp_path, plugin(tmp_path, "echo '{}'")))
