"""Django in one file: requests start runs and send them messages; the worker is a separate process.

    SHOP_DATABASE=shop.db python django_app.py runserver
    SHOP_DATABASE=shop.db holdfast worker --url sqlite:///shop.db shop.py

In your project, the settings, the model and the views are where they always are; what matters are the client and the
four views. The client blocks, and many threads may share it.
"""

import json
import os
import sys
from collections.abc import Callable

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import IntegrityError, connection, models, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from shop import DATABASE, URL, checkout

from holdfast import BadPayload, Client, HoldfastError, HookExpired, HookNotFound, HookUsed, RunNotFound

settings.configure(
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SECRET_KEY", "for this example only"),
    ALLOWED_HOSTS=["localhost", "127.0.0.1", "testserver"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
    # Webhooks come without a CSRF token. Where CsrfViewMiddleware is installed, mark their views with @csrf_exempt.
    MIDDLEWARE=["django_app.Refusals" if __name__ != "__main__" else "__main__.Refusals"],
)
django.setup()


class Order(models.Model):  # type: ignore[misc]  # Django has no types
    id = models.CharField(primary_key=True, max_length=100)
    item = models.CharField(max_length=100)

    class Meta:
        app_label = "shop"


client = Client(URL).__enter__()
if Order._meta.db_table not in connection.introspection.table_names():
    with connection.schema_editor() as editor:
        editor.create_model(Order)


STATUS: dict[type[HoldfastError], int] = {
    RunNotFound: 404,
    HookNotFound: 404,
    HookUsed: 409,
    HookExpired: 410,
    BadPayload: 422,
}


class Refusals:
    """Answers for what Holdfast refuses, with the reason."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, HoldfastError):
            return JsonResponse({"detail": str(error)}, status=STATUS.get(type(error), 500))
        return None


def order(request: HttpRequest) -> HttpResponse:
    new = json.loads(request.body)
    try:
        # In one transaction: no order without its run, and no run without its order.
        with transaction.atomic():
            Order.objects.create(id=new["id"], item=new["item"])
            client.start(checkout, new["id"], key=new["id"], connection=connection)
    except IntegrityError:
        return JsonResponse({"detail": f"there is an order {new['id']!r}"}, status=409)
    return JsonResponse({"order": f"/orders/{new['id']}"}, status=202)


def show(request: HttpRequest, order_id: str) -> HttpResponse:
    run = client.get_run(checkout, key=order_id)
    found = {name: run.value(name, default=None) for name in ("pay at", "parcel")}
    return JsonResponse({"status": run.status, **found})


def paid(request: HttpRequest, token: str) -> HttpResponse:
    """The payment provider's webhook. It may be called twice: the second call is told that there was a first."""
    client.resume_hook(token, json.loads(request.body))
    return HttpResponse(status=204)


def delivered(request: HttpRequest, order_id: str) -> HttpResponse:
    """The carrier's webhook. Repeating it changes nothing, because the same message is delivered once."""
    client.get_run(checkout, key=order_id).signal("delivered", message_id=f"delivered {order_id}")
    return HttpResponse(status=204)


urlpatterns = [
    path("orders", order),
    path("orders/<str:order_id>", show),
    path("payments/<str:token>", paid),
    path("orders/<str:order_id>/delivered", delivered),
]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
