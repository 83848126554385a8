"""A plain script does what a request does: it starts a run, looks at it, and sends it messages.

    SHOP_DATABASE=shop.db holdfast worker --url sqlite:///shop.db shop.py &
    SHOP_DATABASE=shop.db python script.py order o-1
    SHOP_DATABASE=shop.db python script.py show o-1
    SHOP_DATABASE=shop.db python script.py pay TOKEN 1200
    SHOP_DATABASE=shop.db python script.py delivered o-1

Each call is a separate process, and may be killed and repeated: keys and message ids make that safe.
"""

import sys

from shop import URL, Payment, checkout

from holdfast import Client, HoldfastError


def main(deed: str, *words: str) -> None:
    with Client(URL) as client:
        match deed, *words:
            case "order", order_id:
                print("started" if client.start(checkout, order_id, key=order_id).created else "it was started before")
            case "show", order_id:
                run = client.get_run(checkout, key=order_id)
                print(run.status, run.value("parcel", default=None) or run.value("pay at", default=""))
            case "pay", token, cents:
                client.resume_hook(token, Payment(int(cents)))
            case "delivered", order_id:
                run = client.get_run(checkout, key=order_id)
                run.signal("delivered", message_id=f"delivered {order_id}")
                print(run.result(timeout="60s"))
            case _:
                raise SystemExit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:] or ["help"])
    except HoldfastError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
