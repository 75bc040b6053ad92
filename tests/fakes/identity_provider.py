"""An identity provider of OpenID Connect over a real socket, which can lie.

    bank.people["p1"] = {"email": "grace@bank.test", "email_verified": True}
    bank.id_token["aud"] = "another client"    # in place of the right value
    bank.id_token["nonce"] = None              # left out
    bank.rotate_key()

Its page asks nothing: whoever comes is `bank.person`. It checks the client, the
code, the address to return to and the code verifier (RFC 7636), as real ones do.
"""

import base64
import hashlib
import json
import secrets
import time
from functools import cache
from typing import Any
from urllib.parse import urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.fakes.server import Answer, FakeServer, Request
from verification.settings.identity_providers import IdentityProvider

CLIENT, SECRET = "verification", "a-secret-of-the-client"


@cache
def make_key(name: str) -> rsa.RSAPrivateKey:
    """Make a key, one for each name: that takes longer than a login."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def make_provider(**given: Any) -> IdentityProvider:
    """Make the setting of a bank's provider, which owns bank.test."""
    setting = {
        "id": "bank",
        "name": "Bank of Nyeri",
        "issuer": "https://id.bank.test",
        "client_id": CLIENT,
        "secret": SECRET,
        "domains": ["bank.test"],
        "staff_roles": {"support": ["Operations", "Reviewer"]},
    }
    return IdentityProvider(**setting | given)


class FakeIdentity(FakeServer):
    api_prefixes = ("/",)

    def __init__(self) -> None:
        super().__init__()
        self.people: dict[str, dict[str, Any]] = {}
        self.person = "p1"
        # Changes to what the provider answers; None leaves a member out.
        self.discovery: dict[str, Any] = {}
        self.id_token: dict[str, Any] = {}
        self.userinfo: dict[str, Any] | None = None
        self.algorithm = "RS256"
        self.codes: dict[str, Request] = {}
        self.key, self.key_id = make_key("first"), "first"
        self.key_for_tokens: Any = self.key

    def rotate_key(self) -> None:
        self.key, self.key_id = make_key("second"), "second"
        self.key_for_tokens = self.key

    def api(self, request: Request) -> Answer:
        name = request.path.rpartition("/")[2].replace("-", "_")
        answer: Answer = getattr(self, f"get_{name}")(request)
        return answer

    def get_openid_configuration(self, request: Request) -> Answer:
        names = ("authorize", "token", "jwks", "userinfo", "logout")
        urls = {name: f"{self.url}/{name}" for name in names}
        document = {
            "issuer": self.url,
            "authorization_endpoint": urls["authorize"],
            "token_endpoint": urls["token"],
            "jwks_uri": urls["jwks"],
            "userinfo_endpoint": urls["userinfo"],
            "end_session_endpoint": urls["logout"],
        }
        return Answer(200, _changed(document, self.discovery))

    def get_authorize(self, request: Request) -> Answer:
        code = secrets.token_hex(8)
        self.codes[code] = request
        answer = {"code": code, "state": request.query["state"]}
        back = f"{request.query['redirect_uri']}?{urlencode(answer)}"
        return Answer(302, "", {"Location": back})

    def get_token(self, request: Request) -> Answer:
        form = request.form
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or not _proves(form, asked):
            return Answer(400, {"error": "invalid_grant"})
        claims = {
            "iss": self.url,
            "sub": self.person,
            "aud": CLIENT,
            "iat": int(time.time()),
            "exp": int(time.time()) + 300,
            "nonce": asked.query.get("nonce"),
            **({} if self.userinfo is not None else self.people[self.person]),
        }
        token = self.sign(_changed(claims, self.id_token))
        sent = {"access_token": "opaque", "token_type": "Bearer", "id_token": token}
        return Answer(200, sent)

    def make_logout_token(self, changes: dict[str, Any]) -> str:
        claims = {
            "iss": self.url,
            "sub": self.person,
            "aud": CLIENT,
            "iat": int(time.time()),
            "jti": secrets.token_hex(8),
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        }
        return self.sign(_changed(claims, changes))

    def sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(
            claims, self.key_for_tokens, self.algorithm, headers={"kid": self.key_id}
        )

    def get_jwks(self, request: Request) -> Answer:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return Answer(200, {"keys": [public | {"kid": self.key_id, "use": "sig"}]})

    def get_userinfo(self, request: Request) -> Answer:
        person = {"sub": self.person, **self.people[self.person]}
        return Answer(200, _changed(person, self.userinfo or {}))


def _proves(form: dict[str, str], asked: Request) -> bool:
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return (
        (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)
        and form.get("redirect_uri") == asked.query["redirect_uri"]
        and asked.query.get("code_challenge_method") == "S256"
        and asked.query["code_challenge"] == challenge
    )


def _changed(answer: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    changed = json.loads(json.dumps(answer)) | changes
    return {name: value for name, value in changed.items() if value is not None}
