#!/bin/sh
# The checks of this project: each line shows what is expected and what came.
failed=0
check() {
    if [ "$2" = "$3" ]; then
        echo "ok       $1"
    else
        echo "FAILED   $1: expected '$2', got '$3'"
        failed=1
    fi
}
check "a name" "Hello, Ada!" "$(sh greet.sh Ada)"
[ ! -f tests.sh ] || . ./tests.sh
exit $failed
