# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
#
# Tests of the kernel module in a guest, as functions for its script. Beside it lie foreread.ko and
# readers.py; the disks are named `ext4`, `xfs` and `spare`. Each function leaves its results in
# /run/out, a line of `NAME NUMBER...` in /run/out/results.

settings=/sys/kernel/foreread
tracing=/sys/kernel/tracing
# The file systems that are tested; each has a disk of its name.
kinds="ext4 xfs"
policies="linux linux-2.6.13 adaptive-2005 adaptive-2006 safe-2010 none whole-file leap distance foreread"

result() { echo "$@" >>/run/out/results; }

# Makes the file systems, and mounts them below /mnt. Three things would keep stock from repeating its own requests:
# whether two that touch meet in the queue; where a request of more pieces of memory than the disk takes is cut; and
# where a bio ends, which has 256 pieces at most. Pages that happen to lie side by side in memory are one piece. So
# requests aren't merged and are of at most 128 pages. Windows are of at most 128, or 256 with advice: 7.3 begins
# with 2,048, and stock's requests for the same 4,000 pages varied from 33 to 39.
module_prepare() {
    [ -d "$tracing/events" ] || mount -t tracefs tracefs "$tracing"
    mkdir -p /mnt/spare
    mkfs.ext4 -q "$(disk spare)"
    for kind in $kinds; do
        mkdir -p "/mnt/$kind"
        "mkfs.$kind" -q "$(disk "$kind")" && mount "$(disk "$kind")" "/mnt/$kind"
        queue=/sys/dev/block/$(mountpoint -d "/mnt/$kind")/queue
        echo 2 >"$queue/nomerges"
        echo 512 >"$queue/max_sectors_kb"
        [ "$(cat "$queue/read_ahead_kb")" -le 512 ] || echo 512 >"$queue/read_ahead_kb"
    done
}

# Loads the module with a watchdog that finds nothing bad: random programs waste what they waste, and an emulated
# processor is slow.
module_insmod() { insmod ./foreread.ko waste_max_percent=100 late_max_percent=100 core_max_ns=0; }

# Gives the file system $1 the policy $2, read as $3 says.
module_set() {
    number=$(mountpoint -d "/mnt/$1")
    [ -d "$settings/devices/$number" ] || echo "$number" >"$settings/add"
    echo "$2" >"$settings/devices/$number/policy"
    echo "${3-auto}" >"$settings/devices/$number/act"
}

# Counter $2 of the file system $1.
module_count() {
    sed -n "s/^$2 //p" "$settings/devices/$(mountpoint -d "/mnt/$1")/stat"
}

# The number $1 of what `reader` wrote to /run/read.
reader_said() { sed "s/.*\"$1\":\([0-9]*\).*/\1/" /run/read; }

# How often a program is run again without the module, if the module made other requests.
more_runs=20

# Runs $1 random programs of seed $2 on both file systems: twice without the module, with it and `linux`,
# and without it again. Not even stock always repeats its own requests, since it matters whether a reader comes to a page
# before it has arrived. So programs in which the module's differ are run again without it. Results: programs in
# which the module has the requests and sectors that stock has in one of three runs, in one of more runs, and all programs.
module_same() {
    for when in stock again; do
        for kind in $kinds; do
            python3 ./readers.py "/mnt/$kind" "$2" "$1" >"/run/out/$when-$kind"
        done
    done
    module_insmod
    for kind in $kinds; do
        module_set "$kind" linux
        python3 ./readers.py "/mnt/$kind" "$2" "$1" >"/run/out/module-$kind"
        result "agreed-$kind" "$(module_count "$kind" agreed)" "$(module_count "$kind" differed)"
        result "calls-$kind" "$(module_count "$kind" sync)" "$(module_count "$kind" async)"
    done
    rmmod foreread
    for kind in $kinds; do
        python3 ./readers.py "/mnt/$kind" "$2" "$1" >"/run/out/after-$kind"
        # Each line has four times number, requests, sectors: stock, again, after, module.
        paste -d ' ' "/run/out/stock-$kind" "/run/out/again-$kind" "/run/out/after-$kind" "/run/out/module-$kind" \
            | awk '
                function is(requests, sectors) { return $11 == requests && $12 == sectors }
                { print $1, is($2, $3) || is($5, $6) || is($8, $9) ? "same" : "other" }' >"/run/out/same-$kind"
        others=$(sed -n 's/ other$//p' "/run/out/same-$kind")
        run=0
        while [ -n "$others" ] && [ "$run" -lt "$more_runs" ]; do
            # shellcheck disable=SC2086
            python3 ./readers.py "/mnt/$kind" "$2" "$1" 0 $others >>"/run/out/more-$kind"
            run=$((run + 1))
        done
        # Those whose line of the module came again.
        found=0
        for number in $others; do
            ! grep -q -F -x "$(grep "^$number " "/run/out/module-$kind")" "/run/out/more-$kind" || found=$((found + 1))
        done
        result "same-$kind" "$(grep -c ' same$' "/run/out/same-$kind")" "$found" "$(grep -c . "/run/out/same-$kind")"
    done
}

# Runs $1 random programs of seed $2 under every policy, and keeps each decision.
module_record() {
    module_insmod
    echo 16384 >"$tracing/buffer_size_kb"
    # Names of commands are taken from a tracepoint in the scheduler. QEMU does not survive now and then that
    # the kernel patches it while another processor runs it ("Oops: int3" at a NOP).
    echo 0 >"$tracing/options/record-cmd"
    for policy in $policies; do
        echo >"$tracing/trace"
        echo 1 >"$tracing/events/foreread/enable"
        for kind in $kinds; do
            module_set "$kind" "$policy"
            python3 ./readers.py "/mnt/$kind" "$2" "$1" >/dev/null
            module_set "$kind" off
        done
        echo 0 >"$tracing/events/foreread/enable"
        cat "$tracing/trace" >"/run/out/decisions-$policy"
    done
    total=0
    for kind in $kinds; do total=$((total + $(module_count "$kind" decisions))); done
    result decisions "$total"
    rmmod foreread
}

# Eight readers, file systems that come and go, and caches that are dropped, until /run/stop is there. So that an
# emulated processor has time for the loads, readers sleep between programs, and others go before them: a reader is
# then preempted wherever it is. Python's start takes as long as dozens of programs.
module_read_disks() {
    for reader in 1 2 3 4; do
        for kind in $kinds; do
            (
                seed=$reader
                while [ ! -e /run/stop ]; do
                    nice -n 19 python3 -u ./readers.py "/mnt/$kind" "$seed" 100 50 >"/run/reader-$reader-$kind"
                    seed=$((seed + 4))
                done
            ) &
        done
    done
    (
        mounts=0
        while [ ! -e /run/stop ]; do
            mount "$(disk spare)" /mnt/spare && ls /mnt/spare >/dev/null
            umount /mnt/spare
            mounts=$((mounts + 1))
            [ $((mounts % 10)) -ne 0 ] || echo 1 >/proc/sys/vm/drop_caches
            sleep 0.3
        done
    ) &
}

# Waits until each reader has run a program. Before that, memory that it is going to need counts as available: on the
# real-time flavour, where eight of them take long to start, too little was left, and one was killed for that.
module_wait_readers() {
    for reader in 1 2 3 4; do
        for kind in $kinds; do
            until [ -s "/run/reader-$reader-$kind" ]; do sleep 0.1; done
        done
    done
}

# All memory but 112 MiB is taken, and 80 MiB of these are taken and given back, until /run/stop is there. The files of
# the readers have 60 MiB.
module_press_memory() {
    mkdir -p /mnt/memory
    mount -t tmpfs -o size=100% tmpfs /mnt/memory
    available=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
    head -c "$((available - 112))M" /dev/zero >/mnt/memory/kept
    (
        while [ ! -e /run/stop ]; do
            nice -n 19 head -c 80M /dev/zero >/mnt/memory/taken
            rm /mnt/memory/taken
            sleep 0.5
        done
        umount /mnt/memory
    ) &
}

# The second processor goes and comes back, until /run/stop is there. Result: how often.
module_unplug_processor() {
    (
        times=0
        while [ ! -e /run/stop ]; do
            echo 0 >/sys/devices/system/cpu/cpu1/online && times=$((times + 1))
            sleep 0.2
            echo 1 >/sys/devices/system/cpu/cpu1/online
            sleep 3
        done
        result unplugged "$times"
    ) &
}

# Pages that reclaim has taken so far.
module_reclaimed() { awk '/^pgsteal_(kswapd|direct) / { pages += $2 } END { print pages }' /proc/vmstat; }

# Prints for each slab cache its name and objects, then what else the kernel allocates, in KiB. SLUB counts all free
# places of a processor's slabs as objects, until the cache is shrunk. Objects come and go meanwhile, so it is the
# least of three counts.
module_kernel_memory() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    for cache in /sys/kernel/slab/*; do
        least=""
        for try in 1 2 3; do
            echo 1 >"$cache/shrink"
            read -r objects rest <"$cache/objects"
            [ -n "$least" ] && [ "$least" -le "$objects" ] || least=$objects
        done
        echo "${cache##*/} $least"
    done
    awk '/^(Percpu|VmallocUsed):/ { print $1, $2 }' /proc/meminfo
}

# Hundredths of a second since the boot, without a process.
uptime_cs() {
    read -r uptime rest </proc/uptime
    echo "${uptime%.*}${uptime#*.}"
}

# Loads the module, with the policy $1, and unloads it after $2 s. A line of /run/out/loads has how long the load and the
# unload took, in hundredths of a second.
module_load_once() {
    begin=$(uptime_cs)
    insmod ./foreread.ko || return 1
    loaded=$(uptime_cs)
    echo "$1" >"$settings/devices/default/policy"
    sleep "$2"
    unload=$(uptime_cs)
    rmmod foreread || return 1
    echo "$((loaded - begin)) $(($(uptime_cs) - unload))" >>/run/out/loads
}

# I/O of 8 processes, memory pressure, and a processor that goes and comes back, until `module_stress_end`.
module_stress_begin() {
    stress_began=$(cut -d. -f1 /proc/uptime)
    rm -f /run/stop /run/reader-*
    module_read_disks
    module_wait_readers
    module_press_memory
    [ ! -e /sys/devices/system/cpu/cpu1/online ] || module_unplug_processor
}

# Sets $stress_seconds: how long it went on.
module_stress_end() {
    touch /run/stop
    wait
    stress_seconds=$(($(cut -d. -f1 /proc/uptime) - stress_began))
}

# Loads and unloads the module $1 times, with another policy each time and after another time, under load. Before
# that, the same load runs without the module, for a second for each of them or 100 s. Results: loads, and how many were
# asked for; how often the processor went away; pages that reclaim took; file systems that could be unmounted then, of all.
# Growth of the kernel's memory goes to the file "grown": a name, what it grew by with the module, and by how much it
# would have grown in the same time as without it. Of slab caches that is in objects, and of the rest in KiB.
module_loads() {
    module_load_once foreread 1
    module_kernel_memory >/run/memory-0
    module_stress_begin
    sleep "$(($1 < 100 ? $1 : 100))"
    module_stress_end
    without=$stress_seconds
    module_kernel_memory >/run/memory-1
    reclaimed=$(module_reclaimed)
    module_stress_begin
    loads=0
    while [ "$loads" -lt "$1" ]; do
        for policy in $policies; do
            [ "$loads" -lt "$1" ] || break
            module_load_once "$policy" "0.$((loads % 4))" || break 2
            loads=$((loads + 1))
        done
    done
    module_stress_end
    result loads "$loads" "$1"
    result reclaimed "$(($(module_reclaimed) - reclaimed))"
    module_kernel_memory >/run/memory-2
    awk -v with="$stress_seconds" -v without="$without" '
        FNR == 1 { file++ }
        { size[file, $1] = $2 }
        file == 3 {
            print $1, $2 - size[2, $1], int((size[2, $1] - size[1, $1]) * with / without)
        }' /run/memory-0 /run/memory-1 /run/memory-2 >/run/out/grown
    unmounted=0
    for kind in $kinds; do umount "/mnt/$kind" && unmounted=$((unmounted + 1)); done
    result unmounted "$unmounted" "$(echo "$kinds" | wc -w)"
}

# What must be refused: a second user of the same functions (the module under another name), and wrong input
# to sysfs. Results: of 7 refusals, those that came; lines of the log that say why.
module_refusals() {
    sed 's/foreread/foreraed/g' foreread.ko >/run/second.ko
    insmod ./foreread.ko
    refused=0
    insmod /run/second.ko 2>/dev/null || refused=$((refused + 1))
    refuse() { (echo "$1" >"$settings/$2") 2>/dev/null || refused=$((refused + 1)); }
    echo 8:240 >"$settings/add"
    refuse 8:240 add
    refuse 8 add
    refuse 8:241 remove
    refuse fast devices/default/policy
    refuse 1x devices/8:240/pages_max
    refuse always devices/8:240/act
    rmmod foreread
    result refused "$refused" "$(dmesg | grep -c 'is replaced already by another user of ftrace')"
}

# Whether the account of the file system $1 adds up, at rest: 1 or 0.
module_adds_up() {
    awk '{ count[$1] = $2 }
        END { print (count["fetched_pages"] > 0 && count["fetched_pages"] == count["used_on_time_pages"] \
            + count["used_late_pages"] + count["wasted_pages"] + count["unknown_pages"] \
            + count["resident_unused_pages"] + count["in_flight_pages"]) }' \
        "$settings/devices/$(mountpoint -d "/mnt/$1")/stat"
}

# Runs $1 random programs of seed $2 under every policy, on both file systems, page by page and in large folios, and
# has accounts.py judge the module's account of each. Results: programs with a right account, and all.
module_accounts() {
    module_insmod
    for kind in $kinds; do
        for policy in $policies; do
            for act in issue auto; do
                module_set "$kind" "$policy" "$act"
                words=
                [ "$act" = auto ] || words=exact
                case $policy in
                    linux-2.6.13 | adaptive-2006) words="$words declines" ;;
                esac
                # shellcheck disable=SC2086
                python3 ./accounts.py "/mnt/$kind" "$settings/devices/$number/stat" "$2" "$1" $words \
                    | sed "s/^/$kind $policy $act /" >>/run/out/accounts
            done
        done
        module_set "$kind" off
    done
    rmmod foreread
    result accounts "$(grep -c ' right$' /run/out/accounts)" "$(grep -c . /run/out/accounts)"
}

# Reads files of $kind whose size is known, each of them once and in order, side by side, in a cgroup with little memory.
# So reclaim takes pages all the time, and each page is used once. `whole-file` has no place there: a cgroup that is
# smaller than the files runs out of memory by it. Results for each policy: pages used, pages of the files, pages
# fetched, wasted, whether the account adds up, misses of pages that reclaim had taken unread; and at last pages that
# reclaim took.
module_pressure() {
    kind=ext4
    group=/sys/fs/cgroup/small
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control
    mkdir -p "$group"
    echo 16M >"$group/memory.max"
    module_insmod
    for policy in $policies; do
        [ "$policy" != whole-file ] || continue
        module_set "$kind" "$policy" issue
        drop_caches
        used=$(($(module_count "$kind" used_on_time_pages) + $(module_count "$kind" used_late_pages)))
        fetched=$(module_count "$kind" fetched_pages)
        wasted=$(module_count "$kind" wasted_pages)
        thrashed=$(module_count "$kind" thrashed)
        for file in 4 5 6 7; do
            sh -c "echo \$\$ >$group/cgroup.procs; exec dd if=/mnt/$kind/reads-$file of=/dev/null bs=16k" 2>/dev/null &
        done
        wait
        drop_caches
        result "pressure-$policy" \
            $(($(module_count "$kind" used_on_time_pages) + $(module_count "$kind" used_late_pages) - used)) \
            $((333 + 1000 + 2048 + 4000)) \
            $(($(module_count "$kind" fetched_pages) - fetched)) \
            $(($(module_count "$kind" wasted_pages) - wasted)) "$(module_adds_up "$kind")" \
            $(($(module_count "$kind" thrashed) - thrashed))
    done
    module_set "$kind" off
    rmmod foreread
    result reclaimed "$(sed -n 's/^pgsteal //p' "$group/memory.stat")"
}

# Waits until the watchdog of the file system $1 has something to say, or for so many seconds as it takes to look 20 times.
module_verdict() {
    looked=0
    while [ "$looked" -lt 20 ] && grep -q '^ok$' "$settings/devices/$(mountpoint -d "/mnt/$1")/watchdog"; do
        sleep 1
        looked=$((looked + 1))
    done
    sed 's/:.*//' "$settings/devices/$(mountpoint -d "/mnt/$1")/watchdog"
}

# Random reads of single pages of large files, each of which is dropped behind them.
module_random_reads() {
    for round in 1 2 3 4; do
        for file in 6 7; do
            for place in 11 7 900; do
                dd if="/mnt/$1/reads-$file" of=/dev/null bs=4k count=1 skip="$place" 2>/dev/null
            done
            dd if="/mnt/$1/reads-$file" iflag=nocache count=0 2>/dev/null
        done
    done
}

# What the watchdog must do. Results, in this order, 1 for yes: a policy that reads whole files for random
# reads is taken away for waste; the log says it once; no call comes to the module any more; a policy that is
# set again is held for good; one whose decisions are too slow for the bound is taken away; one that is late is; and one
# under which files are read in order stays, by the bounds for waste and late reads as they are.
module_watchdog() {
    kind=ext4
    # An emulated processor is slow.
    insmod ./foreread.ko core_max_ns=0
    module_set "$kind" whole-file
    folder=$settings/devices/$number
    module_random_reads "$kind"
    module_random_reads "$kind"
    waste=0 said=0 stock=0 armed=0 slow=0 late=0 good=0
    [ "$(module_verdict "$kind")" = waste ] && [ "$(cat "$folder/policy")" = off ] && waste=1
    cat "$folder/watchdog" >>/run/out/verdicts
    calls=$(module_count "$kind" sync)
    module_random_reads "$kind"
    sleep 2
    [ "$(dmesg | grep -c 'foreread: .*: waste: ')" = 1 ] && said=1
    [ "$(module_count "$kind" sync)" = "$calls" ] && stock=1
    echo foreread >"$folder/policy"
    [ "$(cat "$folder/watchdog")" = ok ] && [ "$(cat "$folder/policy")" = foreread ] && armed=1
    drop_caches
    for file in 5 6 7; do cat "/mnt/$kind/reads-$file" >/dev/null; done
    drop_caches
    sleep 3
    [ "$(cat "$folder/watchdog")" = ok ] && [ "$(cat "$folder/policy")" = foreread ] && good=1
    echo 1 >/sys/module/foreread/parameters/core_max_ns
    python3 ./readers.py "/mnt/$kind" 1 60 >/dev/null
    [ "$(module_verdict "$kind")" = slow ] && slow=1
    cat "$folder/watchdog" >>/run/out/verdicts
    echo 0 >/sys/module/foreread/parameters/core_max_ns
    echo 0 >/sys/module/foreread/parameters/late_max_percent
    echo adaptive-2006 >"$folder/policy"
    for round in 1 2 3; do
        drop_caches
        for file in 4 5 6 7; do cat "/mnt/$kind/reads-$file" >/dev/null & done
        wait
    done
    [ "$(module_verdict "$kind")" = late ] && late=1
    cat "$folder/watchdog" >>/run/out/verdicts
    # Pages are held for it now.
    echo whole-file >"$folder/policy"
    drop_caches
    dd if="/mnt/$kind/reads-7" of=/dev/null bs=4k count=1 2>/dev/null
    result unloaded-held "$(module_count "$kind" resident_unused_pages)"
    cp "$folder/stat" /run/out/stat
    rmmod foreread
    result watchdog "$waste" "$said" "$stock" "$armed" "$slow" "$late" "$good"
}

# Keeps what the kernel has said, and counts what it should not have.
module_log() {
    dmesg >/run/out/dmesg
    result complaints "$(grep -c -E 'WARNING|BUG|Oops|stall|blocked for more|refcount|leak|Call Trace' /run/out/dmesg)"
    result left "$(grep -c '^foreread_' /proc/slabinfo)"
}

# Reads the files of the disk `data` by a process each, at once and in order, under stock and every
# policy. A line of /run/out/readers: policy, requests, sectors, busy ms of the disk, elapsed s.
module_readers() {
    mkdir -p /mnt/data
    mount -o ro "$(disk data)" /mnt/data
    number=$(mountpoint -d /mnt/data)
    stat=/sys/dev/block/$number/stat
    echo 128 >"/sys/dev/block/$number/queue/read_ahead_kb"
    module_insmod
    echo "$number" >"$settings/add"
    for policy in off $policies; do
        # Neither is a policy for large files that are read in order.
        [ "$policy" != none ] && [ "$policy" != whole-file ] || continue
        echo "$policy" >"$settings/devices/$number/policy"
        drop_caches
        before=$(awk '{ print $1, $3, $10 }' "$stat")
        begin=$(cut -d ' ' -f 1 /proc/uptime)
        for file in /mnt/data/large-*; do dd if="$file" of=/dev/null bs=64k 2>/dev/null & done
        wait
        echo "$policy $before $(awk '{ print $1, $3, $10 }' "$stat") $begin $(cut -d ' ' -f 1 /proc/uptime)" \
            | awk '{ print $1, $5 - $2, $6 - $3, $7 - $4, $9 - $8 }' >>/run/out/readers
    done
    rmmod foreread
}

# What reads of the disk `data` cost the processor without the module, with it, and under each policy, in virtual
# time. A line of /run/out/costs: `without`, `off` or a policy; the three numbers of cost.py; calls of the core,
# and their ns.
module_costs() {
    mkdir -p /mnt/data
    mount -o ro "$(disk data)" /mnt/data
    number=$(mountpoint -d /mnt/data)
    python3 ./cost.py /mnt/data/large-0 >/dev/null
    echo "without $(python3 ./cost.py /mnt/data/large-0) 0 0" >/run/out/costs
    module_insmod
    echo "$number" >"$settings/add"
    stat=$settings/devices/$number/stat
    for policy in off $policies; do
        echo "$policy" >"$settings/devices/$number/policy"
        before=$(awk '$1 == "core_calls" || $1 == "core_ns" { print $2 }' "$stat" | paste -s -d ' ')
        cost=$(python3 ./cost.py /mnt/data/large-0)
        echo "$policy $cost $before $(awk '$1 == "core_calls" || $1 == "core_ns" { print $2 }' "$stat" | paste -s -d ' ')" \
            | awk '{ print $1, $2, $3, $4, $7 - $5, $8 - $6 }' >>/run/out/costs
    done
    rmmod foreread
}

# Maps the file of the disk `data`, and touches its pages in several orders, under stock and every policy, in
# virtual time. A line of /run/out/mapped: order, policy, pages, ns, requests, sectors. `best` is read(2) in order with
# 64 requests of 256 KiB ahead.
module_mapped() {
    mkdir -p /mnt/data
    mount -o ro "$(disk data)" /mnt/data
    number=$(mountpoint -d /mnt/data)
    stat=/sys/dev/block/$number/stat
    ahead=/sys/dev/block/$number/queue/read_ahead_kb
    # Order, policy, and the words of the reader.
    module_mapped_run() {
        order=$1 policy=$2
        shift 2
        drop_caches
        before=$(awk '{ print $1, $3 }' "$stat")
        ./reader reader --out /run/read "$@" /mnt/data/large-0
        pages=$(($(reader_said bytes) / 4096))
        took_ns=$(reader_said elapsed_ns)
        echo "$order $policy $pages $took_ns $before $(awk '{ print $1, $3 }' "$stat")" \
            | awk '{ print $1, $2, $3, $4, $7 - $5, $8 - $6 }' >>/run/out/mapped
    }
    echo 16384 >"$ahead"
    module_mapped_run best off sequential --read-bytes 262144 --bytes 134217728
    echo 128 >"$ahead"
    module_insmod
    echo "$number" >"$settings/add"
    for policy in off $policies; do
        [ "$policy" != whole-file ] || continue
        echo "$policy" >"$settings/devices/$number/policy"
        module_mapped_run forward "$policy" map --order forward --pages 16384
        module_mapped_run backward "$policy" map --order backward --pages 16384
        module_mapped_run tensors "$policy" map --order tensors --threads 8 --pages 32768
        module_mapped_run slices "$policy" map --order slices --threads 8 --pages 32768
        module_mapped_run random "$policy" map --order random --threads 8 --pages 32768
    done
    rmmod foreread
}

# Plays scenarios of `foreread sim` on disks in virtual time, under stock and the policies of each. A line of ./plan:
# scenario, device, disk, its files, read_ahead_kb, the limit of a cgroup in KiB or 0 for none, policies. A line of
# /run/out/live: scenario, device, policy, that limit, bytes, ns, requests, sectors, windows, misses of pages that were
# evicted before their use, KiB for the page cache.
module_live() {
    group=/sys/fs/cgroup/little
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control
    mkdir -p "$group"
    # systemd allows a unit of a small machine fewer threads than it has readers.
    echo max >"/sys/fs/cgroup$(cut -d : -f 3 /proc/self/cgroup)/pids.max"
    module_insmod
    while read -r scenario device disk files ahead limit_kib policies; do
        mount=/mnt/$disk
        if [ ! -d "$mount" ]; then
            mkdir -p "$mount"
            mount -o ro "$(disk "$disk")" "$mount"
            mountpoint -d "$mount" >"$settings/add"
        fi
        number=$(mountpoint -d "$mount")
        folder=$settings/devices/$number
        # Each is a word.
        counts() {
            awk '{ print $1, $3 }' "/sys/dev/block/$number/stat"
            awk '$1 == "windows" || $1 == "thrashed" { print $2 }' "$folder/stat"
        }
        echo "$ahead" >"/sys/dev/block/$number/queue/read_ahead_kb"
        paths=$(seq -f "$mount/large-%.0f" 0 $((files - 1)))
        for policy in off $policies; do
            echo "$policy" >"$folder/policy"
            drop_caches
            # Metadata comes from the disk once.
            for path in $paths; do stat "$path" >/dev/null; done
            cache_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
            before=$(counts)
            set -- ./reader reader --out /run/read play "./scenario-$scenario"
            if [ "$limit_kib" != 0 ]; then
                echo "${limit_kib}K" >"$group/memory.max"
                set -- sh -c "echo \$\$ >$group/cgroup.procs; exec \"\$@\"" sh "$@"
            fi
            # shellcheck disable=SC2086
            "$@" $paths || continue
            bytes=$(reader_said bytes)
            took_ns=$(reader_said elapsed_ns)
            # shellcheck disable=SC2046,SC2086
            echo "$scenario $device $policy $limit_kib $bytes $took_ns $cache_kib" $before $(counts) \
                | awk '{ print $1, $2, $3 == "off" ? "stock" : $3, $4, $5, $6,
                    $12 - $8, $13 - $9, $14 - $10, $15 - $11, $7 }' \
                | tee -a /run/out/live
        done
        echo off >"$folder/policy"
    done <./plan
    rmmod foreread
}

# Mounts the disk `data` by NFS over loopback, at /mnt/nfs. A round trip takes 1 ms, as between machines. Mounting needs
# no answer yet, so the delay comes last.
nfs_mount() {
    modprobe -a nfsd nfs sch_netem
    ip link set lo up
    mkdir -p /mnt/exported /mnt/nfs
    mount -o ro "$(disk data)" /mnt/exported
    mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
    exportfs -o ro,fsid=0,no_root_squash,insecure,no_subtree_check 127.0.0.1:/mnt/exported
    rpc.mountd --no-nfs-version 3 2>/dev/null
    rpc.nfsd --no-nfs-version 3 8 2>/dev/null
    mount -t nfs4 -o ro 127.0.0.1:/ /mnt/nfs || return 1
    tc qdisc add dev lo root netem delay 500us limit 100000
}

nfs_unmount() {
    tc qdisc del dev lo root
    umount /mnt/nfs
    exportfs -ua
    rpc.nfsd 0 2>/dev/null
    umount /mnt/exported
}

# Calls of /mnt/nfs that read, and bytes that they brought. NFS 4.2 may read by READ_PLUS.
nfs_counts() {
    awk '
        /^device / { is_it = ($5 == "/mnt/nfs") }
        is_it && ($1 == "READ:" || $1 == "READ_PLUS:") { calls += $2; bytes += $6 }
        END { print calls + 0, bytes + 0 }' /proc/self/mountstats
}

# Plays the scenarios $* on the one file of /mnt/nfs, under stock and every policy that reads ahead. A line of
# /run/out/nfs: scenario, policy, bytes that the program read, ns, calls that read, bytes that they brought. Results: whether
# NFS could be mounted, and unmounted after the module was unloaded.
module_nfs() {
    if ! nfs_mount; then
        result mounted 0
        return
    fi
    result mounted 1
    number=$(mountpoint -d /mnt/nfs)
    module_insmod
    echo "$number" >"$settings/add"
    for scenario; do
        for policy in off $policies; do
            [ "$policy" != none ] && [ "$policy" != whole-file ] || continue
            echo "$policy" >"$settings/devices/$number/policy"
            drop_caches
            before=$(nfs_counts)
            ./reader reader --out /run/read play "./scenario-$scenario" /mnt/nfs/large-0 || continue
            echo "$scenario $policy $(reader_said bytes) $(reader_said elapsed_ns) $before $(nfs_counts)" \
                | awk '{ print $1, $2, $3, $4, $7 - $5, $8 - $6 }' | tee -a /run/out/nfs
        done
    done
    rmmod foreread
    nfs_unmount && result unmounted 1
}
