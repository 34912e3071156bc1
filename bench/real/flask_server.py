"""A Flask application under waitress with two threads: pages by a template, and JSON.  flask_server.py PORT

/page/N renders a table, /json/N answers with an object. Ends at SIGTERM.
"""
import os
import signal
import sys

from flask import Flask, jsonify, render_template_string
from waitress import serve

PAGE = """<!doctype html><title>{{ title }}</title><table>{% for row in rows %}<tr class="{{ loop.cycle('a', 'b') }}">
<td>{{ row.id }}<td>{{ row.name | title }}<td>{{ '%.2f' % row.price }}<td>\
{% for tag in row.tags %}<i>{{ tag }}</i> {% endfor %}
{% endfor %}</table>"""

app = Flask(__name__)


def row(n):
    return {"id": n, "name": f"item number <{n}>", "price": n * 1.25, "tags": [f"t{n % k}" for k in (3, 5, 7)]}


@app.get("/page/<int:n>")
def page(n):
    return render_template_string(PAGE, title=f"Page {n}", rows=[row(n + i) for i in range(60)])


@app.get("/json/<int:n>")
def data(n):
    return jsonify(start=n, rows=[row(n + i) for i in range(60)])


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
serve(app, host="127.0.0.1", port=int(sys.argv[1]), threads=2)
