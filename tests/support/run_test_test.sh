#!/usr/bin/env bash
# What run_test.sh makes of a test's exit status, and of what it says.
set -u
run=$(dirname "$0")/run_test.sh
failed=0
# expects STATUS OUTPUT SCRIPT
expects() {
    local said status
    said=$("$run" bash -c "$3" 2>/dev/null)
    status=$?
    if [[ $status != "$1" || $said != "$2" ]]; then
        echo "run_test_test: '$3' ended with $status and said '$said', expected $1 and '$2'"
        failed=1
    fi
}
left_out="NOT TESTED"" HERE: a part" # in two pieces, as this test leaves nothing out
expects 0 "" "true"
expects 77 "$left_out" "echo '$left_out'"
expects 77 "$left_out" "echo '$left_out' >&2"
expects 1 "$left_out" "echo '$left_out'; exit 1"
expects 137 "$left_out" "echo '$left_out'; kill -9 \$\$"
exit "$failed"
