"""A server that speaks the protocol of S3 and is empty when a test begins, and access to its buckets."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import boto3
import httpx
import pytest

from tests.ports import free_port
from tests.waiting import until

REGION = "eu-central-1"
BUCKET = "bucket"


class Bucket:
    """A bucket of a running server. `env`: what a process needs to find it."""

    def __init__(self, port: int) -> None:
        self.env = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        login = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": REGION}
        self._client = boto3.client("s3", endpoint_url=self.env["AWS_ENDPOINT_URL"], **login)
        self._client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def put(self, key: str, content: str | bytes) -> str:
        """Put an object there; its address."""
        self._client.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"

    def get(self, key: str) -> bytes:
        return bytes(self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def keys(self, prefix: str = "") -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return sorted(each["Key"] for page in pages for each in page.get("Contents", ()))

    def uploads(self) -> int:
        """How many uploads have begun, and are neither whole nor given up."""
        return len(self._client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()))


@cache
def server() -> int:
    """The port of the server, which takes a second to start, and ends with this process. It is a process of its own: a
    library that waits for it may hold the interpreter of this one."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    atexit.register(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).kill)
    until(lambda: answers(port), "the server of buckets")
    return port


def served() -> Bucket:
    """An empty bucket; all that there was before is gone."""
    httpx.post(f"http://127.0.0.1:{server()}/moto-api/reset").raise_for_status()
    return Bucket(server())


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/moto-api/").is_success
    except httpx.TransportError:
        return False


@contextmanager
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """The same, which this process finds."""
    from cep.core.storage import files

    bucket = served()
    with monkeypatch.context() as patched:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patched.delenv(name)
        for name, value in bucket.env.items():
            patched.setenv(name, value)
        files.forget()
        yield bucket
    files.forget()
