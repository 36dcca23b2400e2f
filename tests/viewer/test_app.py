"""What the server answers, without a browser: only its own names, only known ids, readable messages."""

import json

import numpy as np
import pytest
from sample_runs import SampleRun

from ucb_moppo.errors import ConfigError, RunFormatError

pytest.importorskip("dash", reason="the viewer is not installed: pip install 'ucb-moppo[viewer]'")

import ucb_moppo
from ucb_moppo.cli.main import main
from ucb_moppo.viewer.app import is_own_host, make_app
from ucb_moppo.viewer.renderer import Renderer
from ucb_moppo.viewer.serve import make_token
from ucb_moppo.viewer.sources import open_sources


@pytest.fixture
def run(tmp_path):
    return SampleRun().write(tmp_path / "one")


@pytest.fixture
def client(run):
    return make_app(open_sources(run, None), Renderer()).server.test_client()


def get(client, path, host="127.0.0.1:8050", **headers):
    return client.get(path, headers={"Host": host, **headers})


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "[::1]:8050", "127.0.0.1"])
def test_own_names_are_served(client, host):
    assert get(client, "/", host).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8050", "127.0.0.1.evil.example", "192.168.1.9", ""])
def test_foreign_names_are_refused(client, host):
    for path in ("/", "/_dash-layout", "/policy/main/0"):
        assert get(client, path, host).status_code in (400, 403)


def test_requests_of_other_pages_are_refused(client):
    assert get(client, "/_dash-layout", Origin="http://evil.example").status_code == 403
    assert get(client, "/_dash-layout", Origin="http://127.0.0.1:8050").status_code == 200


def test_a_network_address_is_served_only_when_told():
    assert not is_own_host("192.168.1.9:80", "127.0.0.1")
    assert is_own_host("192.168.1.9:80", "0.0.0.0")
    assert not is_own_host("evil.example:80", "0.0.0.0")


# --- the token ---------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(run):
    return make_app(open_sources(run, None), Renderer(), "0.0.0.0", "secret").server.test_client()


def test_only_pages_for_the_network_have_a_token():
    assert [bool(make_token(host)) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "10.0.0.7")] == [
        *(False, False, False),
        *(True, True),
    ]
    assert len(make_token("0.0.0.0")) > 40


@pytest.mark.parametrize("given", ["", "?token=", "?token=secre", "?token=secret2", "?token=%C3%A9", "?Token=x"])
@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/policy/main/0", "/video/main/0", "/assets/viewer.css"])
def test_without_the_token_nothing_is_shown(guarded, path, given):
    answer = get(guarded, path + given)
    assert answer.status_code == 401
    assert b"asks for the token" in answer.data
    assert b"paper-problem" not in answer.data
    assert guarded.get_cookie("ucb_moppo_token") is None


def test_the_token_is_exchanged_for_a_cookie_once(guarded):
    answer = get(guarded, "/?token=secret&stage=3")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/?stage=3"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert get(guarded, "/").status_code == 200
    assert get(guarded, "/policy/main/0").status_code == 200


def test_a_wrong_cookie_is_no_token(guarded):
    guarded.set_cookie("ucb_moppo_token", "guessed")
    assert get(guarded, "/_dash-layout").status_code == 401


def test_browsers_are_told_to_load_nothing_from_elsewhere(client):
    policy = get(client, "/").headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';")
    assert "http" not in policy


def test_the_page_asks_for_nothing_from_elsewhere(client):
    text = get(client, "/").get_data(as_text=True)
    assert "https://" not in text
    assert "http://" not in text


@pytest.mark.parametrize(
    "path", ["/policy/main/12", "/policy/main/99", "/policy/other/0", "/video/main/0", "/video/x/0"]
)
def test_unknown_ids_are_not_found(client, path):
    assert get(client, path).status_code == 404


@pytest.mark.parametrize(
    "path", ["/policy/..%2f..%2fetc/0", "/video/main/..%2f..%2fconfig.json", "/policy/main/-1"]
)
def test_paths_are_no_ids(client, path):
    response = get(client, path)
    # Whatever is no route of the viewer's gets the (empty) page, never a file.
    assert response.status_code == 404 or response.mimetype == "text/html"
    assert "policies" not in response.get_data(as_text=True)


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_downloads_are_read_only(client, method):
    response = getattr(client, method)("/policy/main/0", headers={"Host": "127.0.0.1"})
    assert response.status_code == 405


def test_a_downloaded_policy_loads(client, run, tmp_path):
    response = get(client, "/policy/main/5")
    assert "attachment" in response.headers["Content-Disposition"]
    file = tmp_path / "policy.safetensors"
    file.write_bytes(response.data)
    policy, evaluated = ucb_moppo.load(file), ucb_moppo.load(run).evaluated()
    assert policy.index == evaluated.policy[5]
    np.testing.assert_array_equal(policy.weight, evaluated.weights[5])
    np.testing.assert_array_equal(policy.expected_returns, evaluated.returns[5])
    assert policy(np.zeros(3)).shape == (2,)


def layout_text(client):
    return json.dumps(get(client, "/_dash-layout").json)


def test_a_run_without_an_evaluation_gets_a_message(run, client):
    keep = ("config.json", "policies.json")
    known = json.loads((run / "manifest.json").read_text())
    known["files"] = {name: known["files"][name] for name in keep}
    (run / "manifest.json").write_text(json.dumps(known))
    for file in run.iterdir():
        if file.name not in (*keep, "manifest.json"):
            file.unlink()
    assert "has not reached its first evaluation" in layout_text(client)


@pytest.mark.parametrize("name", ["front.csv", "metrics.jsonl", "summary.json", "evaluations.csv"])
def test_a_broken_run_gets_a_message(run, client, name):
    (run / name).write_bytes(b"\xff\xfe broken")
    text = layout_text(client)
    assert '"alert"' in text
    assert "Traceback" not in text


def test_damaged_policies_are_not_sent(run, client):
    with (run / "policies.safetensors").open("ab") as file:
        file.write(b"x")
    response = get(client, "/policy/main/0")
    assert response.status_code == 409
    assert "damaged" in response.get_data(as_text=True)


def test_what_is_no_run_is_refused(tmp_path, capsys):
    with pytest.raises(RunFormatError, match="holds no run"):
        open_sources(tmp_path, None)
    with pytest.raises(SystemExit) as stopped:
        main(["view", str(tmp_path / "nowhere"), "--no-browser"])
    assert stopped.value.code == 2
    assert "does not exist" in capsys.readouterr().err


def test_runs_of_different_problems_are_not_compared(run, tmp_path):
    other = SampleRun(problem="Swimmer-v2").write(tmp_path / "swimmer")
    with pytest.raises(ConfigError, match="same problem"):
        open_sources(run, other)
