#!/bin/sh
# Makes the virtual environment from requirements.lock. Called by `make setup` with PYTHON and VENV set, and by `make
# install` with INSTALL=1: then the program is in it, otherwise it is this folder that runs.
set -eu

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else fail "this needs root rights, and sudo is not there; run as root: $*"
    fi
}

[ -n "$PYTHON" ] || fail "no Python found; install Python 3.11 (Debian: apt-get install python3)"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$PYTHON is older than Python 3.11"

if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    command -v apt-get >/dev/null || fail "$PYTHON has no ensurepip; install its venv package"
    say "installing the Debian package python3-venv (about 6 MB)"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends python3-venv >/dev/null
fi

say "making $VENV from requirements.lock: about 560 MB from PyPI (Spark is most of it), 1 GB in the end"
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
pip() { "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

# What builds packages is pinned too: first the locked setuptools, then no build fetches one of its own.
builder=$(mktemp)
trap 'rm -f "$builder"' EXIT
awk '/^[^ ]/ { wanted = /^setuptools==/ } wanted' requirements.lock > "$builder"
pip --require-hashes -r "$builder"
# Nothing is resolved: the lock is complete, and pip looks for the newest version of an extra (coverage[toml]) that the
# lock pins without it, which fails the day after one comes out.
pip --require-hashes --no-deps --no-build-isolation --use-pep517 -r requirements.lock
if [ -z "${INSTALL:-}" ]; then
    pip --no-deps --no-build-isolation -e .
    # Of the program too: a lock that lacks something is told here, and not by an import.
    "$VENV/bin/python" -m pip check --disable-pip-version-check >/dev/null ||
        fail "requirements.lock lacks something pyproject.toml asks for: $VENV/bin/python -m pip check; mend: make lock"
else
    compile=0
    headers=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    if command -v cc >/dev/null && [ -f "$headers/Python.h" ]; then
        compile=1
        say "compiling the publisher: one to three minutes"
    else
        say "no C compiler or no Python headers (Debian: apt-get install gcc python3-dev): the publisher stays plain" \
            "Python, which takes about half as much CPU time again for small transactions"
    fi
    rm -rf build
    MIGRATE_COMPILE=$compile pip --no-deps --no-build-isolation --force-reinstall .
    rm -rf build
    "$VENV/bin/python" -m jobs.archive
fi
say "done: $VENV/bin/migrate"
