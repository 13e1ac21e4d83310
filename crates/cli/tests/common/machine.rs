// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up machines for the tests of device sizing.

use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use foreread_testbed::fake_sysfs::{FakeDisk, Tree};

/// A machine with a bit of everything, and others that set readahead too.
pub fn everything(top: &Path) -> io::Result<Tree> {
    let tree = Tree::new(top)?;
    tree.disk(&FakeDisk::nvme("nvme0n1", "259:0", 1 << 40).read_ahead(128))?;
    tree.partition("nvme0n1", 1, "259:1")?;
    tree.mount("259:1", "/", "ext4", "/dev/nvme0n1p1", "rw")?;
    let rotating = |name: &str, number: &str| {
        FakeDisk::sata(name, number, 4 << 40)
            .rotating()
            .read_ahead(2560)
    };
    tree.disk(&rotating("sda", "8:0"))?;
    tree.partition("sda", 1, "8:1")?;
    tree.disk(&FakeDisk::usb("sdb", "8:16", 505_344))?;
    tree.disk(&FakeDisk::usb("sdc", "8:32", 32 << 30))?;
    tree.disk(&FakeDisk::sd_card("mmcblk0", "179:0", 8 << 30))?;
    tree.disk(&FakeDisk::virtio("vda", "254:0", 256 << 30).read_ahead(2560))?;
    tree.disk(&FakeDisk::sata("sdd", "8:48", 1 << 40).with("queue/read_ahead_kb", "lots"))?;
    let zoned = rotating("sde", "8:64").with("queue/zoned", "host-managed");
    tree.disk(&zoned)?;
    for (name, number) in [("sdf", "8:80"), ("sdg", "8:96"), ("sdh", "8:112")] {
        tree.disk(&rotating(name, number))?;
    }
    stacks(&tree)?;
    mounts(&tree)?;
    tree.write(
        "etc/udev/rules.d/60-readahead.rules",
        "KERNEL==\"sd[a-z]\", SUBSYSTEM==\"block\", ATTR{removable}==\"0\", \
         ATTR{queue/rotational}==\"1\", ATTR{queue/read_ahead_kb}=\"2560\"\n",
    )?;
    tree.write("etc/tuned/active_profile", "virtual-guest\n")?;
    let profiles = "usr/lib/tuned/profiles";
    let guest = "[main]\ninclude=throughput-performance\n";
    tree.write(&format!("{profiles}/virtual-guest/tuned.conf"), guest)?;
    let throughput = "[disk]\ndevices=vd*\nreadahead=>4096\n";
    tree.write(
        &format!("{profiles}/throughput-performance/tuned.conf"),
        throughput,
    )?;
    Ok(tree)
}

/// dm-crypt on LVM on md, and a disk with several paths that says no size.
fn stacks(tree: &Tree) -> io::Result<()> {
    let raid = FakeDisk::raid(0, "raid5", 512 << 10, &["sdf", "sdg", "sdh"], 8 << 40)
        .with("queue/optimal_io_size", "1048576")
        .read_ahead(2048);
    tree.disk(&raid)?;
    let volume = FakeDisk::mapping(0, "vg-home", "LVM-a", &["md0"], 1 << 40)
        .with("queue/optimal_io_size", "1048576")
        .read_ahead(2048);
    tree.disk(&volume)?;
    tree.disk(&FakeDisk::mapping(
        1,
        "home",
        "CRYPT-LUKS2-b",
        &["dm-0"],
        1 << 40,
    ))?;
    tree.mount("253:1", "/home", "ext4", "/dev/mapper/home", "rw")?;
    let path = "pci0000:80/0000:81:00.0/host2/rport-2:0-0/target2:0:0/2:0:0:0/block";
    for (name, number) in [("sdi", "8:128"), ("sdj", "8:144")] {
        tree.disk(&FakeDisk::new(name, number, &format!("{path}/{name}"), 0))?;
    }
    tree.disk(&FakeDisk::mapping(
        2,
        "mpatha",
        "mpath-36",
        &["sdi", "sdj"],
        0,
    ))?;
    tree.disk(&FakeDisk::loop_device(0, None, 0))?;
    tree.write("home/image", "")?;
    tree.disk(&FakeDisk::loop_device(1, Some("/home/image"), 32 << 20))
}

fn mounts(tree: &Tree) -> io::Result<()> {
    tree.nfs("0:50", "/mnt/nfs", 128)?;
    tree.mount("0:51", "/mnt/ssh", "fuse.sshfs", "host:", "rw")?;
    tree.setting("0:51", 128)?;
    tree.mount("0:52", "/srv", "btrfs", "/dev/sde", "rw")?;
    tree.setting("btrfs-1", 4096)?;
    tree.write("sys/fs/btrfs/0a/devices/sde/x", "")?;
    symlink(
        "../../../devices/virtual/bdi/btrfs-1",
        tree.path("sys/fs/btrfs/0a/bdi"),
    )
}

/// A machine with 256 MiB of memory, a disk and a tiny stick.
pub fn little_memory(top: &Path) -> io::Result<Tree> {
    let tree = Tree::new(top)?;
    tree.memory(256 << 20)?;
    tree.disk(&FakeDisk::sata("sda", "8:0", 1 << 40))?;
    tree.disk(&FakeDisk::usb("sdb", "8:16", 8 << 20))?;
    tree.nfs("0:50", "/mnt/nfs", 128)?;
    Ok(tree)
}
