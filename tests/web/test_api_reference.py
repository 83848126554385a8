"""/docs: the description as a page that needs nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape

from holdfast.web import api
from holdfast.web.reference import page
from tests.web.stage import served

description = api("sqlite:///:memory:").openapi()
text = page(description)


def test_every_operation_is_on_the_page():
    for path, operations in description["paths"].items():
        for method in operations:
            assert f"<h3>{method.upper()} {path}</h3>" in text


def test_every_referenced_schema_is_on_the_page():
    named = set(re.findall(r'href="#([^"]+)"', text))
    assert named
    assert named <= set(re.findall(r'id="([^"]+)"', text))


def test_the_reference_page_loads_nothing():
    assert set(re.findall(r'(?:href|src)="([^#"][^"]*)"', text)) == {"v1/openapi.json"}
    assert not re.search(r"<script|<link|<img|@import|url\(|javascript:", text)


async def test_a_browser_is_told_to_take_nothing_but_the_page_and_its_style(database_url):
    async with served(database_url) as made:
        answer = await made.call("GET", "/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    [style] = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" in policy
    assert "style=" not in answer.text


def test_descriptions_are_shown_as_text_and_not_as_markup():
    said = "<b>bold</b> & `<i>`"
    operation = {"summary": said, "description": said, "responses": {"200": {"description": said}}}
    made = page(
        {
            "info": {"title": said, "description": said},
            "paths": {"/<b>": {"get": operation}},
            "components": {"schemas": {"<b>": {"description": said, "properties": {"<b>": {"type": "<b>"}}}}},
        }
    )
    assert not re.search(r"<[bi]>", made)
    assert said.replace("`", "") in unescape(re.sub(r"</?code>", "", made))
