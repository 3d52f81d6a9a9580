#!/usr/bin/env bash
# The vector index, from nothing: installs what is missing, fetches the descriptions of Debian's packages, builds the
# program, and runs the demo in build/vectors. Arguments go to examples/vector_index/demo.py.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
work=$PWD/build/vectors
python=$work/environment/bin/python
prepare_python() {
    [[ -x $python ]] || /usr/bin/python3 -m venv "$work/environment"
    "$python" -m pip install --quiet numpy scikit-learn hnswlib
}
# Into lists of our own: those of the machine may leave the descriptions out.
fetch_descriptions() {
    mkdir -p "$work/lists/partial"
    compgen -G "$work/lists/*_Translation-en*" >/dev/null ||
        apt-get -qq update -o "Dir::State::lists=$work/lists" -o Acquire::Languages=en
}
mkdir -p "$work"
step "packages of Debian that the demo needs" scripts/install-dependencies.sh demo-vectors
step "numpy, scikit-learn and hnswlib, in an environment of their own" prepare_python
step "the descriptions of Debian's packages" fetch_descriptions
step "the library and the index, compiled" build release vector_index
step "the demo" "$python" examples/vector_index/demo.py --program build/release/bin/vector_index --work "$work" \
    --lists "$work/lists" "$@"
print_steps
