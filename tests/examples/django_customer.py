"""Requests to the Django example, by Django's own test client: one JSON line in, one out.

Django is configured once in a process, so the example gets one of its own.
"""

import json
import sys

import django_app
from django.test import Client

customer = Client()
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    body = None if asked["body"] is None else json.dumps(asked["body"])
    answer = customer.generic(asked["method"], asked["path"], body or "", content_type="application/json")
    print(json.dumps([answer.status_code, json.loads(answer.content) if answer.content else None]), flush=True)
django_app.client.close()
