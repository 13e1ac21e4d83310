// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading devices: from trees as the kernel shows them, from broken ones, and here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use foreread_device::{Block, Device, Machine, MapperMaker, Stack, Transport};
use foreread_linux_sizing::devices;
use foreread_testbed::fake_sysfs::{FakeDisk, Tree};

/// A tree to fill, removed at the end.
fn tree() -> (tempfile::TempDir, Tree) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let tree = Tree::new(directory.path()).expect("a tree");
    (directory, tree)
}

fn named<'a>(machine: &'a Machine, name: &str) -> &'a Device {
    machine
        .find(name)
        .unwrap_or_else(|| panic!("no {name} in {machine:#?}"))
}

fn block<'a>(machine: &'a Machine, name: &str) -> &'a Block {
    named(machine, name).block().expect("a block device")
}

#[test]
fn disks_are_read_with_what_tells_them_apart() {
    let (_directory, tree) = tree();
    tree.disk(&FakeDisk::nvme("nvme0n1", "259:0", 1 << 40))
        .unwrap();
    tree.disk(&FakeDisk::sata("sda", "8:0", 4 << 40).rotating())
        .unwrap();
    tree.disk(&FakeDisk::usb("sdb", "8:16", 2 << 30)).unwrap();
    tree.write(
        "run/udev/data/b8:16",
        "N:sdb\nE:ID_SERIAL=Generic_Flash_77\n",
    )
    .unwrap();
    tree.disk(&FakeDisk::sd_card("mmcblk0", "179:0", 32 << 30))
        .unwrap();
    let zoned = FakeDisk::sata("sdc", "8:32", 14 << 40).with("queue/zoned", "host-managed");
    tree.disk(&zoned).unwrap();
    let machine = devices::read(tree.top());
    assert_eq!(machine.unseen, Vec::<String>::new());
    assert_eq!(machine.memory_bytes, Some(16 << 30));
    let names: Vec<&str> = machine
        .devices
        .iter()
        .map(|d| d.identity.name.as_str())
        .collect();
    assert_eq!(names, ["mmcblk0", "nvme0n1", "sda", "sdb", "sdc"]);
    for device in &machine.devices {
        assert_eq!(
            device.unseen,
            Vec::<String>::new(),
            "{}",
            device.identity.name
        );
        assert_eq!(device.read_ahead_kib, Some(128));
        assert_eq!(device.identity.boot.as_deref(), Some("b007"));
    }
    let nvme = named(&machine, "/dev/nvme0n1");
    assert_eq!(nvme.identity.serial.as_deref(), Some("eui.00252590"));
    assert_eq!(nvme.identity.model.as_deref(), Some("Fast Disk 970"));
    assert_eq!(nvme.identity.capacity_bytes, Some(1 << 40));
    assert_eq!(block(&machine, "sda").transport, Transport::Ata);
    assert_eq!(block(&machine, "sda").rotational, Some(true));
    assert_eq!(
        named(&machine, "sda").identity.model.as_deref(),
        Some("Plain Disk 42")
    );
    assert!(block(&machine, "sdb").is_removable);
    let stick = &named(&machine, "8:16").identity;
    assert_eq!(stick.serial.as_deref(), Some("Generic_Flash_77"));
    assert_eq!(block(&machine, "mmcblk0").transport, Transport::Mmc);
    assert!(block(&machine, "sdc").is_zoned && !block(&machine, "sda").is_zoned);
}

#[test]
fn partitions_and_mount_points_lead_to_the_disk() {
    let (_directory, tree) = tree();
    tree.disk(&FakeDisk::sata("sda", "8:0", 1 << 40)).unwrap();
    tree.partition("sda", 1, "8:1").unwrap();
    tree.disk(&FakeDisk::nvme("nvme0n1", "259:0", 1 << 40))
        .unwrap();
    tree.partition("nvme0n1", 2, "259:2").unwrap();
    tree.mount("8:1", "/", "ext4", "/dev/sda1", "rw").unwrap();
    tree.mount("259:2", "/srv/a\\040b", "xfs", "/dev/nvme0n1p2", "rw")
        .unwrap();
    tree.mount("0:21", "/proc", "proc", "proc", "rw").unwrap();
    let machine = devices::read(tree.top());
    assert_eq!(machine.devices.len(), 2);
    for what in ["sda", "sda1", "/dev/sda1", "8:1", "8:0", "/"] {
        assert_eq!(named(&machine, what).identity.name, "sda", "{what}");
    }
    for what in ["nvme0n1p2", "/srv/a b", "/srv/a b/", "259:2"] {
        assert_eq!(named(&machine, what).identity.name, "nvme0n1", "{what}");
    }
    for what in ["", "sd", "sda2", "8:2", "/srv", "/dev/", "server:/export"] {
        assert!(machine.find(what).is_none(), "{what}");
    }
}

#[test]
fn stacks_are_read_down_to_their_disks() {
    let (_directory, tree) = tree();
    for (name, number, part) in [("sda", "8:0", "8:1"), ("sdb", "8:16", "8:17")] {
        tree.disk(&FakeDisk::sata(name, number, 1 << 40)).unwrap();
        tree.partition(name, 1, part).unwrap();
    }
    let raid = FakeDisk::raid(0, "raid0", 512 << 10, &["sda1", "sdb1"], 2 << 40);
    tree.disk(&raid).unwrap();
    tree.disk(&FakeDisk::mapping(
        0,
        "vg-home",
        "LVM-abc",
        &["md0"],
        1 << 40,
    ))
    .unwrap();
    tree.disk(&FakeDisk::mapping(
        1,
        "home",
        "CRYPT-LUKS2-1",
        &["dm-0"],
        1 << 40,
    ))
    .unwrap();
    tree.disk(&FakeDisk::mapping(
        2,
        "mpatha",
        "mpath-3600",
        &["sda", "sdb"],
        0,
    ))
    .unwrap();
    tree.mount("8:1", "/", "ext4", "/dev/sda1", "rw").unwrap();
    tree.mount("253:1", "/home", "ext4", "/dev/mapper/home", "rw")
        .unwrap();
    tree.disk(&FakeDisk::loop_device(0, Some("/home/image"), 1 << 30))
        .unwrap();
    tree.disk(&FakeDisk::loop_device(1, None, 0)).unwrap();
    tree.write("home/image", "").unwrap();
    tree.disk(&FakeDisk::loop_device(2, Some("/elsewhere/image"), 1 << 30))
        .unwrap();
    let machine = devices::read(tree.top());
    let members = |name: &str| -> Vec<String> {
        named(&machine, name)
            .members
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(members("md0"), ["8:0", "8:16"]);
    assert_eq!(members("vg-home"), ["9:0"]);
    assert_eq!(members("/dev/mapper/home"), ["253:0"]);
    assert_eq!(members("/home"), ["253:0"]);
    assert_eq!(members("mpatha"), ["8:0", "8:16"]);
    assert_eq!(members("loop0"), ["253:1"]);
    // The file is in another mount namespace.
    assert!(members("loop2").is_empty());
    assert_eq!(named(&machine, "mpatha").identity.capacity_bytes, None);
    let raid = Stack::Raid {
        level: "raid0".to_owned(),
        chunk_bytes: Some(512 << 10),
        disks: Some(2),
    };
    assert_eq!(block(&machine, "md0").stack, raid);
    let crypt = &block(&machine, "dm-1").stack;
    assert!(matches!(
        crypt,
        Stack::Mapper {
            maker: MapperMaker::Crypt,
            ..
        }
    ));
    assert!(named(&machine, "loop1").is_idle() && !named(&machine, "loop0").is_idle());
}

#[test]
fn mounts_without_a_disk_have_their_own_setting() {
    let (_directory, tree) = tree();
    tree.disk(&FakeDisk::sata("sda", "8:0", 1 << 40)).unwrap();
    tree.disk(&FakeDisk::mapping(0, "data", "CRYPT-x", &["sda"], 1 << 40))
        .unwrap();
    tree.nfs("0:50", "/mnt/nfs", 128).unwrap();
    tree.nfs("0:50", "/mnt/again", 128).unwrap();
    tree.mount("0:51", "/mnt/s", "fuse.sshfs", "host:", "rw,user_id=0")
        .unwrap();
    tree.setting("0:51", 128).unwrap();
    tree.mount("0:52", "/btrfs", "btrfs", "/dev/mapper/data", "rw,subvol=/")
        .unwrap();
    tree.setting("btrfs-3", 4096).unwrap();
    let top = "sys/fs/btrfs/0a1b";
    tree.write(&format!("{top}/devices/dm-0/x"), "").unwrap();
    let link = tree.path(&format!("{top}/bdi"));
    symlink("../../../devices/virtual/bdi/btrfs-3", link).unwrap();
    tree.mount("0:53", "/over", "overlay", "overlay", "rw")
        .unwrap();
    tree.mount("0:54", "/mnt/c1", "cifs", "//s/a", "rw")
        .unwrap();
    tree.mount("0:55", "/mnt/c2", "cifs", "//s/b", "rw")
        .unwrap();
    tree.setting("cifs-1", 4096).unwrap();
    tree.setting("cifs-2", 4096).unwrap();
    let machine = devices::read(tree.top());
    let nfs = named(&machine, "/mnt/again");
    assert_eq!(nfs.mount_points, ["/mnt/nfs", "/mnt/again"]);
    assert_eq!(nfs.mount().unwrap().rsize_bytes(), Some(1 << 20));
    assert_eq!(named(&machine, "server:/export").number, nfs.number);
    assert_eq!(
        devices::setting(tree.top(), nfs),
        tree.path("sys/class/bdi/0:50/read_ahead_kb")
    );
    assert_eq!(named(&machine, "/mnt/s").read_ahead_kib, Some(128));
    let btrfs = named(&machine, "/btrfs");
    assert_eq!(
        (btrfs.bdi.as_str(), btrfs.read_ahead_kib),
        ("btrfs-3", Some(4096))
    );
    assert_eq!(btrfs.members, [named(&machine, "data").number]);
    assert_eq!(
        devices::setting(tree.top(), btrfs),
        tree.path("sys/class/bdi/btrfs-3/read_ahead_kb")
    );
    assert!(machine.find("/over").is_none());
    assert_eq!(machine.unseen.len(), 2, "{:?}", machine.unseen);
    assert!(
        machine
            .unseen
            .iter()
            .all(|why| why.contains("more than one mount of cifs"))
    );
}

#[test]
fn what_is_broken_is_named_and_the_rest_is_read() {
    let (_directory, tree) = tree();
    let broken = FakeDisk::sata("sda", "8:0", 1 << 40)
        .with("queue/read_ahead_kb", "many")
        .with("queue/rotational", "")
        .with("size", "99999999999999999999999")
        .without("queue/max_sectors_kb");
    tree.disk(&broken).unwrap();
    tree.disk(&FakeDisk::sata("sdb", "8:16", 1 << 40).with("dev", "no"))
        .unwrap();
    tree.disk(&FakeDisk::sata("sdc", "8:32", 1 << 40).with("size", &"7".repeat(20_000)))
        .unwrap();
    tree.disk(&FakeDisk::mapping(0, "gone", "LVM-x", &["sdz"], 1 << 30))
        .unwrap();
    for name in ["around", "about"] {
        let other = if name == "around" { "about" } else { "around" };
        symlink(other, tree.path("sys/block").join(name)).unwrap();
    }
    fs::create_dir_all(tree.path("sys/block/sdd/dev")).unwrap();
    fs::create_dir_all(tree.path("sys/block/sde")).unwrap();
    let fifo = tree.path("sys/block/sde/dev");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    tree.write("proc/meminfo", "nothing\n").unwrap();
    let machine = devices::read(tree.top());
    let sda = named(&machine, "sda");
    assert_eq!(sda.read_ahead_kib, None);
    assert_eq!(sda.identity.capacity_bytes, None);
    let unseen = sda.unseen.join("\n");
    for part in [
        "queue/read_ahead_kb: `many` is no number",
        "queue/rotational: it is empty",
        "size: `99999999999999999999999` is no number",
        "queue/max_sectors_kb: it is not there",
    ] {
        assert!(unseen.contains(part), "{part} is not in:\n{unseen}");
    }
    assert_eq!(named(&machine, "dm-0").unseen, ["slaves/sdz: no such disk"]);
    assert_eq!(named(&machine, "sdc").identity.capacity_bytes, None);
    let unseen = machine.unseen.join("\n");
    for part in [
        "sdb: dev: `no`",
        "around: dev: ",
        "sdd: dev: ",
        "sde: dev: ",
        "MemTotal",
    ] {
        assert!(unseen.contains(part), "{part} is not in:\n{unseen}");
    }
    let empty = tempfile::tempdir().unwrap();
    let machine = devices::read(empty.path());
    assert!(machine.devices.is_empty());
    assert_eq!(machine.unseen.len(), 3, "{:?}", machine.unseen);
}

#[test]
fn the_disks_of_this_machine_are_read() {
    let machine = devices::read(Path::new("/"));
    let Ok(names) = fs::read_dir("/sys/block") else {
        println!("skipped: there is no /sys/block here");
        return;
    };
    for name in names.flatten() {
        let name = name.file_name().into_string().unwrap();
        let path = Path::new("/sys/block").join(&name);
        let dev = fs::read_to_string(path.join("dev")).unwrap_or_default();
        let Some(device) = machine.device(match dev.parse() {
            Ok(number) => number,
            Err(_) => continue,
        }) else {
            // It came or went while we looked.
            assert!(
                name.starts_with("loop") || name.starts_with("dm-"),
                "{name} is missing"
            );
            continue;
        };
        assert_eq!(device.identity.name, name);
        assert_eq!(
            devices::setting(Path::new("/"), device),
            path.join("queue/read_ahead_kb")
        );
    }
    assert!(machine.memory_bytes.is_some());
}
