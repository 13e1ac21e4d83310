#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs each example of each help text and page, in a directory that has what they name: with the
# installed package, far from the sources. An example fails if it ends with 2 (wrong usage, or a
# failure) or in another way that its page doesn't name. Runs as root in the guest, with these files
# beside it:
#
#   foreread_VERSION_ARCH.deb     from `make deb`
#   dd.toml x25m.toml windows.toml   scenarios
#   sda.txt                       a block trace
#   pages.examples                the examples of the pages, one a line
#
# WORK is where an empty disk is mounted; SPARE is a block device that nothing is mounted from.
# Example: WORK=/mnt/data SPARE=/dev/vdb ./examples.sh
#
# Exit status: 0 all of them ran; 1 some did not, each with a line.

set -u

# Endless ones get a Ctrl-C after so many seconds. In an emulated processor, what is BPF takes most.
seconds=40
ran=0
failed=0
# What can't run here, and why.
cannot() {
    case $1 in
    *"boot chart --output"* | *"boot chart -2 -1"*) echo "draws a boot that was traced; this one was not" ;;
    *"kernel install" | *"kernel load"* | *"kernel set"* | *"kernel unload" | *"kernel uninstall")
        echo "needs headers of the kernel and a compiler; the case kernel and tests/deb/dkms.sh do it" ;;
    *"sim --replay trace.txt") echo "needs a trace of the kernel module; the cases module and module-mapped do it" ;;
    *"boot show --unit"*) echo "no boot was recorded here, so no unit has needs" ;;
    esac
}

here=$(pwd)
work=${WORK:?where an empty disk is mounted}
spare=${SPARE:?a block device}
name=${spare#/dev/}
dpkg -i ./foreread_*.deb >/tmp/install.log 2>&1 || { cat /tmp/install.log; exit 1; }

# What the examples name.
prepare() {
    set -e
    cd "$work"
    cp "$here"/*.toml "$here/sda.txt" .
    useradd --create-home ann 2>/dev/null || adduser --disabled-password --gecos "" ann
    mkdir -p src root /mnt/data
    for i in 1 2 3 4 5 6 7 8; do
        seq 1 2000 | sed "s/^/int needle_folio_$i = /" >"src/a$i.c"
        cp "src/a$i.c" root
    done
    # The tree of an image that has the same files.
    mkdir -p "root$work/src"
    cp src/a*.c "root$work/src"
    cp src/a1.c src/a.c
    cp src/a1.c src/a.h
    git config --system --add safe.directory '*'
    git init --quiet . && git add src && git -c user.name=a -c user.email=a@b commit --quiet -m first
    # Stands for a build.
    printf '#!/bin/sh\nexec cat src/*.c\n' >/usr/local/bin/make
    printf '#!/bin/sh\nexec cat src/a1.c\n' >server
    printf '#!/bin/sh\nexec cat src/a2.c\n' >app
    # Stands for a database.
    printf '#!/bin/sh\nexec cat "$1"\n' >/usr/local/bin/sqlite3
    chmod +x /usr/local/bin/make /usr/local/bin/sqlite3 server app
    for directory in tree dir directory photos; do
        cp -r src $directory
    done
    cp src/a1.c photos/d.jpg
    seq 1 200000 >large
    cp large shop.db
    for profile in build monday tuesday app other parts grep git; do
        foreread record --quiet -o $profile.frp -- make -j4 >/dev/null
    done
    foreread run --quiet -- git status >/dev/null
    foreread run --quiet -- grep -rn x . >/dev/null
    foreread run --quiet -- grep -r x . >/dev/null
    cp "$(ls /var/lib/foreread/git-*.frp | head -n 1)" git.kept
    cp "$(ls /var/lib/foreread/grep-*.frp | head -n 1)" grep.kept
    strace -f -ttt -T -y -o make.strace make >/dev/null
    strace -f -ttt -T -y -o grep.strace grep -rq needle src
    foreread trace convert make.strace make.frt >/dev/null
    foreread trace convert grep.strace grep.frt >/dev/null
    sync
    echo 3 >/proc/sys/vm/drop_caches
    foreread watch --quiet --log watch.jsonl -- grep -rq "no such text" /usr/share/doc || true
    cp watch.jsonl photos.jsonl
    cp sda.txt seen.txt
    cp build.frp boot.frp
    foreread record --quiet -o web.profile -- make >/dev/null
    # A process that is there to be watched and explained.
    sleep 100000 &
    process=$!
    set +e
}

# The help texts of all verbs, those in groups too.
verbs() {
    foreread --help | sed -n 's/^  \([a-z][a-z-]*\)  *[A-Z].*/\1/p' | while read -r verb; do
        echo "$verb"
        foreread "$verb" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\)  *[A-Z].*/\1/p' |
            grep -v '^help$' | sed "s/^/$verb /"
    done
}

# The examples, without what is said beside them.
examples() {
    verbs | while read -r verb; do
        # shellcheck disable=SC2086
        foreread $verb --help | sed -n '/^Examples\{0,1\}:/,$s/^  *\(\(sudo \)\{0,1\}foreread .*\)/\1/p'
    done | sed 's/   *.*//' | awk '!seen[$0]++'
}

# What an example needs, whatever those before it have done.
before() {
    # Stored profiles by the names that the examples have.
    for stored in $(echo "$1" | grep -oE '\b(git|grep)-[0-9a-f]{8}\b'); do
        cp "${stored%-*}.kept" "/var/lib/foreread/$stored.frp"
    done
    case $1 in
    *--boot* | *"boot "*)
        # Stands for a boot that was recorded; `boot disable` takes it away.
        mkdir -p -m 700 /var/lib/foreread/boot
        cp build.frp /var/lib/foreread/boot/boot.frp
        ;;
    # The disk of the recorded example did something.
    *"analyze seen.txt") cp "$here/sda.txt" seen.txt ;;
    *"foreread explain"*) systemctl start foreread-watch ;;
    # One watches the whole machine at a time.
    *"foreread watch"*) systemctl stop foreread-watch ;;
    esac
}

# As it runs here: the devices, the process and the user of this machine.
here_is() {
    echo "$1" | sed \
        -e 's/^sudo //' \
        -e "s#/dev/sd[ab]#$spare#g" \
        -e "s#\(advise\|apply\|rollback\|status\|--device\) sda#\1 $name#" \
        -e "s#/dev/loop1#$spare#g" \
        -e "s#\b1234\b#$process#" \
        -e "s#\bPID\b#$process#" \
        -e 's#\bSCENARIO\b#dd.toml#' \
        -e 's#\bFILE\b#grep.frt#' \
        -e 's#tests/scenarios/##' \
        -e 's#docs/img/##g' \
        -e 's#tests/blktrace/plug-stalled.blkparse#sda.txt#' \
        -e 's#\$USER#ann#' \
        -e "s#/mnt/data#$work#g" \
        -e "s#/srv#$work#g"
}

prepare >/tmp/prepare.log 2>&1 || { tail -n 5 /tmp/prepare.log; echo "examples: cannot prepare"; exit 1; }
cd "$work" || exit 1
{ examples; cat "$here/pages.examples"; } | awk '!seen[$0]++' >/tmp/examples
while read -r example <&3; do
    why=$(cannot "$example")
    if [ -n "$why" ]; then
        echo "examples: left out: $example: $why"
        continue
    fi
    before "$example"
    timeout --preserve-status --signal INT --kill-after 60 $seconds \
        sh -c "$(here_is "$example")" >/tmp/said 2>&1 </dev/null
    status=$?
    case $status in
    # Done, a negative answer, done in part, ended by Ctrl-C.
    0 | 1 | 64 | 130) ran=$((ran + 1)) ;;
    *)
        failed=$((failed + 1))
        echo "examples: $example: $status: $(tail -n 1 /tmp/said)"
        ;;
    esac
done 3</tmp/examples
echo "examples: $ran ran, $failed failed"
[ $failed -eq 0 ] && [ $ran -gt 120 ]
