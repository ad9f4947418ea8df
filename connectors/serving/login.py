"""The login form, which asks a browser for a token, and the cookie that the browser receives."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from urllib.parse import parse_qs

from fastapi import HTTPException, Request
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Scope

from cep.connectors.serving.people import People, Role, cookie_value, refuse_other_pages

COOKIE = "semcep"
LASTS = 30 * 86_400
"""The lifetime of the cookie in seconds."""

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="semcep"'}

_MOST = 8_192  # the greatest size of the form in bytes
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.45 Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  background: light-dark(#eef1f5, #0d1218); color: light-dark(#17202b, #e8edf3); }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 16px; box-sizing: border-box; }
main { box-sizing: border-box; width: 100%; max-width: 360px; padding: 24px; border-radius: 8px;
  background: light-dark(#ffffff, #161d26); border: 1px solid light-dark(#d6dde5, #2c3744); }
h1 { font-size: 20px; margin: 0 0 16px; }
p { margin: 12px 0 0; font-size: 14px; color: light-dark(#566170, #9aa8b8); }
form { display: grid; gap: 6px; }
input, button { font: inherit; color: inherit; min-height: 44px; border-radius: 6px; padding: 4px 12px;
  box-sizing: border-box; width: 100%; background: light-dark(#ffffff, #0d1218);
  border: 1px solid light-dark(#7d8896, #66758a); }
button { margin-top: 8px; cursor: pointer; font-weight: 600; background: light-dark(#1b5cc0, #78aefc);
  color: light-dark(#ffffff, #0d1218); border-color: transparent; }
:focus-visible { outline: 2px solid light-dark(#1b5cc0, #78aefc); outline-offset: 2px; }
.why { margin: 0 0 12px; }
.wrong { margin: 0 0 12px; color: light-dark(#c2212b, #ff6b6b); font-weight: 600; }
"""
# The form has no action: it is sent to the address of the page, with the part after `#`.
_PAGE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Log in – semcep</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
    f"<style>{_STYLE}</style></head><body><main><h1>semcep</h1>@reason@"
    '<form method="post"><label for="token">Token</label>'
    '<input id="token" name="token" type="password" required autofocus autocomplete="current-password" '
    'autocapitalize="off" spellcheck="false"><button type="submit">Log in</button></form>'
    "<p>Whoever runs this server gives you a token of your own.</p></main></body></html>\n"
)
_WRONG = '<p class="wrong" role="alert">%s</p>'
_MISSING = '<p class="why">This page is for people with a token.</p>'
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer`, browsers do not tell that the form belongs to this server
}


def login_form(reason: str = "") -> Response:
    """Return the login form. `reason`: the reason why the browser's token is not sufficient, or ""."""
    return HTMLResponse(
        _PAGE.replace("@reason@", _WRONG % reason if reason else _MISSING), 401, {**CHALLENGE, **_HEADERS}
    )


def login_reason(scope: Scope, cookie: bool, token_in_address: bool) -> str:
    """Return the reason why a browser has to log in, or "" if there is no special reason.

    - `cookie`: True if the browser sent a cookie whose token is no longer valid.
    - `token_in_address`: True if the address contains an unknown token.

    If the address has the parameter `role`, the live page has opened the form because an action needs this role.
    """
    if token_in_address:
        return "This token is not known here."
    if cookie:
        return "The token that you logged in with is not valid any more: it was replaced or taken back."
    wanted = parse_qs(scope["query_string"].decode("latin-1")).get("role", [""])[0]
    if wanted in [role.title for role in Role]:
        return f"What you wanted to do needs the role {wanted}: log in with a token that has it."
    return ""


def wants_form(scope: Scope) -> bool:
    """Return True if the request comes from a browser that loads the page, and not from another program."""
    return scope["method"] in ("GET", "HEAD") and "text/html" in Headers(scope=scope).get("accept", "")


def login_cookie(token: str, scope: Scope) -> str:
    """Return the header that sets the cookie for a token.

    Browsers send the cookie even if a person follows a link from another site. Therefore `people.refuse_other_pages`
    refuses requests that change something and come from another site.
    """
    return _cookie(cookie_value(token), LASTS, scope)


def logout_cookie(scope: Scope) -> str:
    """Return the header that deletes the cookie."""
    return _cookie("", 0, scope)


def _cookie(value: str, seconds: int, scope: Scope) -> str:
    before = Headers(scope=scope).get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    secure = "; Secure" if "https" in (scope["scheme"], before) else ""  # TLS here, or at a proxy
    path = scope.get("root_path", "")
    return f"{COOKIE}={value}; HttpOnly; SameSite=Lax; Max-Age={seconds}; Path={path}/{secure}"


async def log_in(people: People, request: Request, seconds: float) -> Response:
    """Process the login form. If the token is valid, set the cookie and redirect to the page. Otherwise show the form
    again.

    `seconds`: the time limit for receiving the form.
    """
    try:
        refuse_other_pages(request)
        async with asyncio.timeout(seconds):
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > _MOST:
                    return PlainTextResponse(f"the form has more than {_MOST:,} bytes\n", 413)
    except HTTPException as error:
        return PlainTextResponse(f"{error.detail}\n", error.status_code)
    except (TimeoutError, ClientDisconnect):
        return PlainTextResponse("the body of the request did not come in time\n", 408, {"Connection": "close"})
    token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
    if not token or people.with_token(token) is None:
        return login_form("This token is not known here." if token else "There is no token.")
    headers = {"Location": "./", "Set-Cookie": login_cookie(token, request.scope), "Referrer-Policy": "no-referrer"}
    return Response(None, 303, headers)
