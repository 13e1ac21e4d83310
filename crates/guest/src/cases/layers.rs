// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run -- grep` on the kinds of block devices that lie between a file system and a disk.

use std::time::Duration;

use foreread_guest::{Bus, Disk, GuestError, Outcome};
use foreread_testbed::workload::ABSENT_PATTERN;

use super::{Case, PREPARE, ratio};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "layers",
    about: "second `run -- grep -rq` through 1,400 files on each kind of device: requests at the disks",
    run,
};

const FILES: usize = 1_400;
/// The second run may make one request where the kernel alone makes so many.
const FEWER: u64 = 8;
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// What it is, how the script sets it up as `$device` and takes it down, and whose requests count:
/// disks whose name starts so.
struct Layer {
    name: &'static str,
    set_up: &'static str,
    take_down: &'static str,
    counted: &'static str,
}

/// Members are three blank disks of 100 MiB, `$a`, `$b` and `$c`; `$sectors` are needed.
const LAYERS: [Layer; 10] = [
    Layer {
        name: "virtio",
        set_up: "device=$(disk tree)",
        take_down: "",
        counted: "tree",
    },
    Layer {
        name: "nvme",
        set_up: "device=$(disk nvme)",
        take_down: "",
        counted: "nvme",
    },
    Layer {
        name: "linear",
        set_up: "half=$((sectors / 2)); map \"0 $half linear $a 0\\n$half $half linear $b 0\"",
        take_down: "unmap",
        counted: "member",
    },
    Layer {
        name: "striped",
        set_up: "map \"0 $sectors striped 2 128 $a 0 $b 0\"",
        take_down: "unmap",
        counted: "member",
    },
    Layer {
        name: "mirror",
        set_up: "map \"0 $sectors mirror core 2 1024 nosync 2 $a 0 $b 0\"",
        take_down: "unmap",
        counted: "member",
    },
    Layer {
        name: "crypt",
        set_up: "map \"0 $sectors crypt aes-xts-plain64 \
                 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 0 $a 0\"",
        take_down: "unmap",
        counted: "member",
    },
    Layer {
        name: "thin",
        set_up:
            "dd if=/dev/zero of=$c bs=1M count=1 status=none
            dmsetup create pool --table \"0 $sectors thin-pool $c $a 128 0\" \
            && dmsetup message pool 0 'create_thin 0' && map \"0 $sectors thin /dev/mapper/pool 0\"",
        take_down: "unmap; dmsetup remove pool",
        counted: "member",
    },
    Layer {
        name: "loop",
        set_up:
            "mkfs.ext4 -q -F $a; mount $a /mnt/below; truncate -s $((sectors * 512)) /mnt/below/file
            device=$(losetup -f --show /mnt/below/file)",
        take_down: "losetup -d $device; umount /mnt/below",
        // The file system below reads ahead of it on its own.
        counted: "loop",
    },
    Layer {
        name: "md RAID-0",
        set_up: "raid 0",
        take_down: "unraid",
        counted: "member",
    },
    Layer {
        name: "md RAID-1",
        set_up: "raid 1",
        take_down: "unraid",
        counted: "member",
    },
];

const COMMANDS: &str = "
modprobe -a dm_mod nvme
udevadm settle
mkdir -p /mnt/below
a=$(disk member-a) b=$(disk member-b) c=$(disk member-c) tree=$(disk tree)
sectors=$(blockdev --getsz $tree)
map() { printf \"$1\" | dmsetup create layer && device=/dev/mapper/layer; }
unmap() { dmsetup remove --retry layer; }
raid() {
    mdadm --create /dev/md9 --run --assume-clean --level=$1 --raid-devices=2 $a $b \\
        && device=/dev/md9
}
unraid() { mdadm --stop /dev/md9; mdadm --zero-superblock $a $b; }
read_tree() { \"$@\" grep -rq PATTERN /mnt/data/tree; }
measure() {
    export FOREREAD_STATE_DIR=\"/run/state-$1\"
    mkdir -m 700 \"$FOREREAD_STATE_DIR\"
    [ \"$device\" = $tree ] || [ \"$1\" = nvme ] || dd if=$tree of=$device bs=1M conv=fsync status=none
    mount $device /mnt/data || return
    drop_caches; point $1-alone; read_tree; point $1-alone-end
    drop_caches; read_tree ./foreread run
    drop_caches; point $1-run; read_tree ./foreread run --; point $1-run-end
    umount /mnt/data
}
";

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let mut script = format!("{PREPARE}{}", COMMANDS.replace("PATTERN", ABSENT_PATTERN));
    for layer in &LAYERS {
        script.push_str(&format!(
            "echo '== {}'; device=''\n{}\n[ -z \"$device\" ] || measure {}\n{}\n",
            layer.name,
            layer.set_up,
            point_name(layer),
            layer.take_down
        ));
    }
    let image = context.tree(FILES)?;
    let mut guest = context
        .guest(kernel)?
        .disk(Disk::image("tree", &image))
        .disk(Disk::image("nvme", &image).on(Bus::Nvme))
        .time_limit(TIME_LIMIT)
        .script(script);
    for member in ["member-a", "member-b", "member-c"] {
        guest = guest.disk(Disk::blank(member, 100));
    }
    let outcome = guest.run()?;
    Ok(LAYERS.iter().map(|layer| row(layer, &outcome)).collect())
}

/// The layer's name without blanks, for the points of the script.
fn point_name(layer: &Layer) -> String {
    layer.name.replace(' ', "-")
}

fn row(layer: &Layer, outcome: &Outcome) -> Row {
    let point = point_name(layer);
    let reads = |what: &str| {
        let counters = outcome.between(&format!("{point}-{what}"), &format!("{point}-{what}-end"));
        counters.map(|counters| counters.reads_of(layer.counted))
    };
    let name = format!("{}, second run, requests", layer.name);
    let target = format!("at most 1/{FEWER}");
    match (reads("alone"), reads("run")) {
        (Ok(alone), Ok(second)) => Row::asserted(
            name,
            target,
            ratio(alone, second),
            alone > 0 && second * FEWER <= alone,
        ),
        _ => Row::asserted(name, target, "not set up", false)
            .detail(section(&outcome.output, layer.name)),
    }
}

/// What the script printed while it set this layer up.
fn section(output: &str, name: &str) -> String {
    let heading = format!("== {name}");
    let lines = output.lines().skip_while(|line| **line != heading).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("== "));
    lines.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_layer_ends_at_the_next_one() {
        let output = "== a\none\ntwo\n== b\nthree\n";
        assert_eq!(section(output, "a"), "one; two");
        assert_eq!(section(output, "b"), "three");
        assert_eq!(section(output, "c"), "");
    }
}
