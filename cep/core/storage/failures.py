"""Explanations of file system errors: what is wrong, and what to write or set instead."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from cep.core.storage.urls import Url

_LOGIN = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for public data AWS_SKIP_SIGNATURE=true",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, or use `gcloud auth application-default login`",
    "abfs": "set AZURE_STORAGE_ACCOUNT_KEY, or use `az login`",
    "hdfs": "set HADOOP_USER_NAME; with Kerberos use `kinit`",
}
_REACHED = {
    "s3": "AWS_ENDPOINT_URL names another server than Amazon's, AWS_REGION the region",
    "gs": "STORAGE_EMULATOR_HOST names another server than Google's",
    "abfs": "the address is `abfs://container@account.dfs.core.windows.net/...`; "
    "AZURE_STORAGE_ENDPOINT names another server than Azure's",
    "hdfs": "the address has the host and the port of the name node: `hdfs://namenode:8020/...`",
}
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")

_DENIED = re.compile(
    r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|InvalidAccessKey|SIGNATURE_DOES_NOT|SignatureDoesNot|INVALID_CLIENT"
    r"|InvalidToken|EXPIRED_TOKEN|ExpiredToken|TokenRefresh|HTTP status 40[13]|\b40[13]\b|Unauthenticated"
    r"|permission denied|PERMISSION_DENIED|Could not find credentials|credentials",
    re.IGNORECASE,
)
_REGION = re.compile(
    r"PERMANENT_REDIRECT|PermanentRedirect|HTTP status 301|AuthorizationHeaderMalformed", re.IGNORECASE
)
_UNREACHED = re.compile(
    r"NETWORK_CONNECTION|curlCode|could(n't| not) (connect|resolve)|connection (refused|reset|timed out)"
    r"|UnknownHostException|kind: Connect",
    re.IGNORECASE,
)
_SILENT = re.compile(r"kind: Timeout|timed ?out|timeout was|operation timeout|curlCode: 28", re.IGNORECASE)
_BROKEN = re.compile(r"INTERNAL_FAILURE|SERVICE_UNAVAILABLE|(HTTP status|status code:) 50[0-4]")
_AUTHORS = "Debug source"  # the text after it is for the library's developers
_BUSY = re.compile(r"SLOW_DOWN|SlowDown|TooManyRequests|status code: 429", re.IGNORECASE)
_FULL = re.compile(r"NO_SUCH_UPLOAD|QuotaExceeded|No space left", re.IGNORECASE)


class StorageError(OSError):
    """A failure of a file system.

    `strerror`: what is wrong. `hint`: what to do. `no_bucket`: True if the whole bucket does not exist.
    """

    def __init__(
        self, number: int, reason: str, address: str, hint: str | None = None, no_bucket: bool = False
    ) -> None:
        super().__init__(number, reason, address)
        self.hint, self.no_bucket = hint, no_bucket


def no_bucket(location: Url) -> StorageError:
    """Return the error for a bucket or a container that does not exist."""
    word = "container" if location.kind == "abfs" else "bucket"
    hint = f"check the name and the server: {_REACHED[location.kind]}"
    return StorageError(
        errno.ENOENT, f"there is no {word} `{location.place.partition('@')[0]}`", str(location), hint, True
    )


def not_there(location: Url) -> StorageError:
    return StorageError(errno.ENOENT, "no such file", str(location))


def is_passing(text: str) -> bool:
    """Return True if an error text means that a server is absent, silent, busy or failing, and may answer later."""
    said = _bare(text)
    return any(words.search(said) for words in (_SILENT, _UNREACHED, _BROKEN, _BUSY))


def explained(error: Exception, location: Url) -> StorageError:
    """Convert a library's error to a StorageError that explains why the file system refuses the address."""
    if isinstance(error, StorageError):
        return error
    text = _bare(str(error))
    if re.search(r"NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound|bucket does not exist", text, re.IGNORECASE):
        return no_bucket(location)
    if re.search(r"libhdfs|libjvm|CLASSPATH", text):
        hint = "JAVA_HOME, HADOOP_HOME and CLASSPATH=`$HADOOP_HOME/bin/hadoop classpath --glob` say where Hadoop is"
        return StorageError(errno.EIO, "HDFS needs Hadoop's library libhdfs, which is not found", str(location), hint)
    if _REGION.search(text):
        return StorageError(
            errno.EIO, "the bucket is in another region", str(location), "AWS_REGION=eu-central-1 names it"
        )
    if "OAuth2 access token" in text:  # the error of Google Cloud, followed by its reasons
        return StorageError(errno.EACCES, "there are no credentials", str(location), _LOGIN[location.kind])
    if _SILENT.search(text):
        return StorageError(
            errno.EIO, f"{_server(location)} does not answer in time", str(location), _REACHED[location.kind]
        )
    if _UNREACHED.search(text):
        return StorageError(errno.EIO, f"{_server(location)} cannot be reached", str(location), _REACHED[location.kind])
    if _DENIED.search(text):
        who = "there are no credentials" if location.kind == "s3" and not _has_login() else "access is denied"
        return StorageError(errno.EACCES, who, str(location), _LOGIN[location.kind])
    if _BROKEN.search(text):
        return StorageError(
            errno.EIO, f"{_server(location)} answers with an error of its own: {_short(text)}", str(location)
        )
    if isinstance(error, FileNotFoundError) or "does not exist" in text or "Not found" in text:
        return not_there(location)
    number = errno.ENOSPC if _FULL.search(text) else getattr(error, "errno", None) or errno.EIO
    return StorageError(number, _short(text), str(location))


def _bare(text: str) -> str:
    """Remove colours and settings from an error message. Their words could be mistaken for other failures."""
    return re.sub(r"retry_timeout:? \S+|\x1b\[[0-9;]*m", "", text)


def _has_login() -> bool:
    if any(os.environ.get(name) for name in _KEYS):
        return True
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE")
    return (Path(file) if file else Path.home() / ".aws" / "credentials").exists()


def _server(location: Url) -> str:
    if location.kind == "s3":
        return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "S3"
    if location.kind == "gs":
        return os.environ.get("STORAGE_EMULATOR_HOST") or "Google Cloud Storage"
    if location.kind == "abfs":
        return os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT") or location.place
    return location.place or "HDFS"


def _short(text: str) -> str:
    line = " ".join(text.partition(_AUTHORS)[0].split())
    matched = re.search(r"AWS Error \w+.*?: (.+)", line)
    said = (matched[1] if matched else line).rstrip(".")
    return said if len(said) <= 200 else said[:197] + "..."
