# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small web application: its start reads some hundred modules of Python."""

import flask
import requests
import sqlalchemy

application = flask.Flask(__name__)
database = sqlalchemy.create_engine("sqlite:////run/app/app.sqlite")


@application.route("/")
def index():
    with database.connect() as connection:
        count = connection.execute(sqlalchemy.text("select count(*) from sqlite_master")).scalar()
    return f"{count} tables, requests {requests.__version__}"


if __name__ == "__main__":
    with database.connect():
        pass
    application.run(port=8000)
