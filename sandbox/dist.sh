#!/bin/sh
# Builds the sdist, and the wheel from it, into DIST (dist). Called by `make dist` with VENV set: nothing is fetched, what
# builds is in there. The wheel's publisher is compiled where a C compiler is; COMPILE=0 leaves it plain Python.
set -eu

say() { echo "dist: $*"; }
out=${DIST:-dist}

compile=${COMPILE:-}
if [ -z "$compile" ]; then
    headers=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    compile=0
    if command -v cc >/dev/null && [ -f "$headers/Python.h" ]; then
        compile=1
        say "compiling the publisher: one to three minutes"
    else
        say "no C compiler or no Python headers: the wheel's publisher is plain Python"
    fi
fi
rm -rf "$out"
"$VENV/bin/uv" build --quiet --offline --no-build-isolation --python "$VENV/bin/python" --sdist --out-dir "$out"
MIGRATE_COMPILE=$compile "$VENV/bin/uv" build --quiet --offline --no-build-isolation --python "$VENV/bin/python" --wheel \
    --out-dir "$out" "$out"/migrate-*.tar.gz
# The versions that the tests run with, without hashes: `pip install -c constraints.txt` installs no newer ones.
sed -n 's/^\([A-Za-z0-9._-]*==[^\\]*[^\\ ]\) *\\\{0,1\}$/\1/p' requirements.lock > "$out/constraints.txt"
rm -f "$out/.gitignore"
say "done: $(echo "$out"/*)"
