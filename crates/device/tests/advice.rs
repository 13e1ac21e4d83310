// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of advice: for the devices of documented values, for stacks, small devices, small
//! memories, and for facts that make no sense.

use std::slice::from_ref;

use foreread_device::{
    Advice, Block, Device, DeviceKind, DeviceNumber, Expected, Identity, Machine, MapperMaker,
    Measured, MeasuredBook, Mount, OtherSetting, Reading, Rule, Source, Stack, Transport, advise,
    around_max, capacity_cap, tuned, udev_rules,
};
use proptest::prelude::*;

fn disk(minor: u32, transport: Transport, rotational: bool, capacity_bytes: u64) -> Device {
    let number = DeviceNumber { major: 8, minor };
    Device {
        number,
        identity: Identity {
            name: format!("sd{minor}"),
            serial: Some(format!("serial {minor}")),
            capacity_bytes: (capacity_bytes > 0).then_some(capacity_bytes),
            ..Identity::default()
        },
        bdi: number.to_string(),
        kind: DeviceKind::Block(Block {
            transport,
            rotational: Some(rotational),
            ..Block::default()
        }),
        read_ahead_kib: Some(128),
        members: Vec::new(),
        mount_points: Vec::new(),
        unseen: Vec::new(),
    }
}

fn with(mut device: Device, change: impl FnOnce(&mut Block)) -> Device {
    if let DeviceKind::Block(block) = &mut device.kind {
        change(block);
    }
    device
}

fn over(minor: u32, stack: Stack, members: &[&Device], capacity_bytes: u64) -> Device {
    let device = disk(minor, Transport::Stacked, true, capacity_bytes);
    Device {
        members: members.iter().map(|member| member.number).collect(),
        ..with(device, |block| block.stack = stack)
    }
}

fn mapping(maker: MapperMaker) -> Stack {
    Stack::Mapper {
        maker,
        mapping: "name".to_owned(),
    }
}

fn raid(level: &str, chunk_bytes: u64, disks: u32) -> Stack {
    Stack::Raid {
        level: level.to_owned(),
        chunk_bytes: Some(chunk_bytes),
        disks: Some(disks),
    }
}

fn nfs(rsize_bytes: u64) -> Device {
    let mount = Mount {
        fs_type: "nfs4".to_owned(),
        source: "server:/export".to_owned(),
        options: format!("rw,rsize={rsize_bytes},hard"),
    };
    Device {
        kind: DeviceKind::Mount(mount),
        ..disk(99, Transport::Unknown, false, 0)
    }
}

fn machine(devices: &[Device], memory_bytes: u64) -> Machine {
    Machine {
        devices: devices.to_vec(),
        memory_bytes: Some(memory_bytes),
        ..Machine::default()
    }
}

fn reading(reading: Reading) -> Expected {
    Expected {
        reading,
        ..Expected::default()
    }
}

/// Advice for the last one of some devices, in a large machine.
fn last(devices: &[Device], expected: Expected) -> Advice {
    let machine = machine(devices, 64 << 30);
    let all = advise(&machine, &[], &MeasuredBook::default(), expected);
    all.last().expect("a device").clone()
}

fn last_kib(devices: &[Device], use_for: Reading) -> Option<u64> {
    last(devices, reading(use_for)).advised_kib
}

fn sata(capacity_bytes: u64) -> Device {
    disk(0, Transport::Ata, false, capacity_bytes)
}

fn hdd(minor: u32) -> Device {
    disk(minor, Transport::Ata, true, 4 << 40)
}

fn plateau(device: &Device, plateau_kib: u64) -> MeasuredBook {
    let mut book = MeasuredBook::default();
    book.push(Measured {
        identity: device.identity.clone(),
        unix_s: 1,
        sweep: Vec::new(),
        plateau_kib,
        certain: true,
        request_cost_ns: 1.0,
        bandwidth_bytes_per_s: 1.0,
        latency_ns: None,
        speed_up: None,
    });
    book
}

#[test]
fn documented_values_come_out_for_the_same_device_and_use() {
    let ebs = Device {
        identity: Identity {
            model: Some("Amazon Elastic Block Store".to_owned()),
            ..sata(1 << 40).identity
        },
        ..with(sata(1 << 40), |block| block.transport = Transport::Nvme)
    };
    let nvme = disk(1, Transport::Nvme, false, 1 << 40);
    let rbd = disk(2, Transport::Network, false, 1 << 40);
    for (what, device, use_for, kib) in [
        ("AWS, HDD volumes", &ebs, Reading::Sequential, 1024),
        ("Amazon Linux, NFS", &nfs(1 << 20), Reading::Mixed, 15_360),
        (
            "Azure NetApp Files",
            &nfs(1 << 20),
            Reading::Sequential,
            15_360,
        ),
        (
            "Azure NetApp Files, 256 KiB",
            &nfs(256 << 10),
            Reading::Mixed,
            3840,
        ),
        (
            "Azure NetApp Files, 64 KiB",
            &nfs(64 << 10),
            Reading::Mixed,
            960,
        ),
        ("Elasticsearch", &nvme, Reading::Mapped, 128),
        ("Cassandra, SSD", &nvme, Reading::Random, 8),
        ("MongoDB, HDD", &hdd(3), Reading::Random, 16),
        ("TuneD, throughput", &hdd(3), Reading::Sequential, 4096),
        ("PostgreSQL", &nvme, Reading::Sequential, 2048),
        ("Ceph RBD", &rbd, Reading::Mixed, 512),
    ] {
        assert_eq!(last_kib(from_ref(device), use_for), Some(kib), "{what}");
    }
}

#[test]
fn the_class_counts_where_nothing_was_measured() {
    let stick = with(disk(0, Transport::Usb, true, 32 << 30), |b| {
        b.is_removable = true
    });
    for (what, device, kib) in [
        ("stick", stick, 128),
        ("solid state", sata(1 << 40), 512),
        ("rotating", hdd(0), 1024),
        (
            "virtual, says it rotates",
            disk(0, Transport::Virtio, true, 1 << 40),
            512,
        ),
        ("unknown", disk(0, Transport::Unknown, true, 1 << 40), 512),
        ("card", disk(0, Transport::Mmc, false, 8 << 30), 256),
    ] {
        assert_eq!(last_kib(&[device], Reading::Mixed), Some(kib), "{what}");
    }
    let unknown = last(&[disk(0, Transport::Unknown, true, 0)], Expected::default());
    assert_eq!(
        (unknown.advised_kib, unknown.bound),
        (Some(512), Rule::Default)
    );
}

#[test]
fn the_smallest_devices_are_read_as_they_ask() {
    let advice = last(
        &[disk(0, Transport::Usb, true, 505_000)],
        Expected::default(),
    );
    assert_eq!(
        (advice.advised_kib, advice.bound),
        (Some(0), Rule::CapacityCap)
    );
    // Not even a measurement brings it above.
    let small = disk(0, Transport::Usb, true, 505_000);
    let all = advise(
        &machine(from_ref(&small), 1 << 30),
        &[],
        &plateau(&small, 512),
        Expected::default(),
    );
    assert_eq!(all[0].advised_kib, Some(0));
}

#[test]
fn a_measured_plateau_beats_class_and_capacity() {
    let disk = sata(1 << 40);
    let advised = |plateau_kib| {
        let machine = machine(from_ref(&disk), 64 << 30);
        let all = advise(
            &machine,
            &[],
            &plateau(&disk, plateau_kib),
            Expected::default(),
        );
        (all[0].advised_kib, all[0].bound)
    };
    assert_eq!(advised(2048), (Some(2048), Rule::Plateau));
    assert_eq!(advised(64), (Some(64), Rule::Plateau));
    // Above the capacity cap, 2 MiB for 1 TiB.
    assert_eq!(advised(8192), (Some(8192), Rule::Plateau));
    assert_eq!(advised(4), (Some(32), Rule::Floor));
    let random = advise(
        &machine(from_ref(&disk), 64 << 30),
        &[],
        &plateau(&disk, 2048),
        reading(Reading::Random),
    );
    assert_eq!(random[0].advised_kib, Some(8));
}

#[test]
fn stacks_are_as_good_as_their_disks() {
    let (one, two, three) = (hdd(1), hdd(2), hdd(3));
    let crypt = over(10, mapping(MapperMaker::Crypt), &[&one], 1 << 20);
    assert_eq!(
        last_kib(&[one.clone(), crypt.clone()], Reading::Mixed),
        Some(1024)
    );
    let mirror = over(11, raid("raid1", 0, 2), &[&one, &two], 4 << 40);
    let disks = [one.clone(), two.clone(), three.clone()];
    let above = |top: &Device| last(&[&disks[..], from_ref(top)].concat(), Expected::default());
    assert_eq!(above(&mirror).advised_kib, Some(1024));
    let stripes = over(
        12,
        raid("raid0", 512 << 10, 3),
        &[&one, &two, &three],
        12 << 40,
    );
    assert_eq!(above(&stripes).advised_kib, Some(3072));
    let large = over(
        13,
        raid("raid5", 4 << 20, 3),
        &[&one, &two, &three],
        8 << 40,
    );
    let advice = above(&large);
    assert_eq!(
        (advice.advised_kib, advice.bound),
        (Some(16_384), Rule::Members)
    );
    assert_eq!(advice.brief(), "2 stripes of 2 disks");
    // dm-crypt on LVM on md.
    let volume = over(14, mapping(MapperMaker::Lvm), &[&stripes], 1 << 40);
    let top = over(15, mapping(MapperMaker::Crypt), &[&volume], 1 << 40);
    let all = [&disks[..], &[stripes, volume, top.clone()]].concat();
    assert_eq!(last(&all, Expected::default()).advised_kib, Some(3072));
    assert_eq!(last(&all, reading(Reading::Mapped)).advised_kib, Some(128));
    // A rule of the array itself, not just "as one of its disks", reaches the top.
    let advice = last(&all, Expected::default());
    assert_eq!(advice.reasons[0].of.as_deref(), Some("sd12"));
    assert_eq!(advice.brief(), "sd12: 3 x its disks");
}

#[test]
fn many_paths_are_one_disk_and_no_size_is_no_cap() {
    let path = |minor| disk(minor, Transport::FibreChannel, true, 0);
    let mpath = over(
        10,
        mapping(MapperMaker::Multipath),
        &[&path(1), &path(2)],
        0,
    );
    let advice = last(&[path(1), path(2), mpath], Expected::default());
    assert_eq!(advice.advised_kib, Some(512));
    assert!(
        advice
            .reasons
            .iter()
            .all(|reason| reason.rule != Rule::CapacityCap)
    );
}

#[test]
fn memory_bounds_windows_and_read_around() {
    let kib = |memory_bytes, streams, device: &Device| {
        let expected = Expected {
            streams,
            ..Expected::default()
        };
        let machine = machine(from_ref(device), memory_bytes);
        let advice = &advise(&machine, &[], &MeasuredBook::default(), expected)[0];
        (advice.advised_kib, advice.bound)
    };
    assert_eq!(kib(256 << 20, 16, &hdd(0)), (Some(256), Rule::ReadAround));
    assert_eq!(kib(1 << 30, 128, &hdd(0)), (Some(256), Rule::Streams));
    assert_eq!(
        kib(4 << 30, 16, &nfs(1 << 20)),
        (Some(4096), Rule::ReadAround)
    );
    assert_eq!(kib(8 << 20, 16, &hdd(0)), (Some(32), Rule::Floor));
    assert_eq!(
        kib(8 << 20, 16, &disk(0, Transport::Usb, true, 8 << 20)).0,
        Some(8)
    );
}

#[test]
fn what_the_kernel_would_have_set_is_named() {
    let source = |change: fn(&mut Device)| {
        let mut device = with(hdd(0), |block| block.max_sectors_kib = Some(1280));
        change(&mut device);
        Source::of(&device, &[])
    };
    assert_eq!(source(|_| {}), Source::KernelDefault);
    assert_eq!(
        source(|d| d.read_ahead_kib = Some(2560)),
        Source::TwiceLargest
    );
    assert_eq!(source(|d| d.read_ahead_kib = Some(2564)), Source::Unknown);
    assert_eq!(source(|d| d.read_ahead_kib = None), Source::Unreadable);
    let striped = with(hdd(0), |block| block.io_opt_bytes = Some(1536 << 10));
    let striped = Device {
        read_ahead_kib: Some(3072),
        ..striped
    };
    assert_eq!(Source::of(&striped, &[]), Source::TwiceOptimal);
}

#[test]
fn others_are_named_and_not_fought() {
    let rules = "KERNEL==\"sd?\", SUBSYSTEM==\"block\", ATTR{queue/rotational}==\"1\", \
                 ATTR{queue/read_ahead_kb}=\"64\"\n\
                 KERNEL==\"sd?\", ENV{ID_BUS}==\"ata\", ATTR{queue/read_ahead_kb}=\"128\"\n\
                 KERNEL==\"vd?\", ATTR{queue/read_ahead_kb}=\"1\"\n";
    let mut others = udev_rules("/r", rules);
    others.extend(tuned("p", |_| {
        Some(foreread_device::ProfileText {
            place: "/p".to_owned(),
            text: "[disk]\nreadahead=>4096\n".to_owned(),
        })
    }));
    let advice = |others: &[OtherSetting]| {
        let machine = machine(&[hdd(0)], 64 << 30);
        advise(
            &machine,
            others,
            &MeasuredBook::default(),
            Expected::default(),
        )
        .remove(0)
    };
    let advised = advice(&others);
    assert_eq!(advised.advised_kib, Some(1024));
    let places: Vec<(&str, bool)> = advised
        .conflicts
        .iter()
        .map(|conflict| (conflict.other.place.as_str(), conflict.is_certain))
        .collect();
    assert_eq!(places, [("/r:1", true), ("/r:2", false), ("/p:2", true)]);
    assert!(matches!(&advised.source, Source::Other { place, .. } if place == "/r:2"));
    let agreed = udev_rules("/r", "KERNEL==\"sd*\", ATTR{bdi/read_ahead_kb}=\"1024\"");
    assert_eq!(advice(&agreed).conflicts, []);
}

fn arbitrary_device(minor: u32) -> impl Strategy<Value = Device> {
    let transports = prop_oneof![
        Just(Transport::Nvme),
        Just(Transport::Usb),
        Just(Transport::Ata),
        Just(Transport::Virtio),
        Just(Transport::Stacked),
        Just(Transport::Unknown),
    ];
    let stacks = prop_oneof![
        Just(Stack::None),
        Just(mapping(MapperMaker::Lvm)),
        Just(mapping(MapperMaker::Multipath)),
        Just(raid("raid0", 1 << 62, 7)),
        Just(raid("raid6", 64 << 10, 1)),
        Just(Stack::Loop {
            backing_file: Some("/f".to_owned())
        }),
    ];
    let members = prop::collection::vec(0u32..6, 0..4);
    let numbers = (any::<u64>(), any::<Option<u64>>(), any::<Option<u64>>());
    (transports, stacks, members, any::<bool>(), numbers).prop_map(
        move |(transport, stack, members, rotational, (capacity_bytes, io_min, io_opt))| {
            let device = disk(minor, transport, rotational, capacity_bytes);
            let mut device = with(device, |block| {
                block.stack = stack;
                (block.io_min_bytes, block.io_opt_bytes) = (io_min, io_opt);
                block.max_sectors_kib = io_opt;
            });
            let number = |minor| DeviceNumber { major: 8, minor };
            device.members = members.into_iter().map(number).collect();
            device
        },
    )
}

proptest! {
    #[test]
    fn any_facts_give_bounded_advice(
        devices in (0u32..6).map(arbitrary_device).collect::<Vec<_>>(),
        memory_bytes: u64,
        streams: u32,
    ) {
        let machine = machine(&devices, memory_bytes);
        let expected = Expected { streams, ..Expected::default() };
        let all = advise(&machine, &[], &MeasuredBook::default(), expected);
        prop_assert_eq!(all.len(), devices.len());
        for (device, advice) in devices.iter().zip(&all) {
            let Some(kib) = advice.advised_kib else { continue };
            prop_assert!(kib >= 4 && kib % 4 == 0, "{advice:?}");
            let most = around_max(memory_bytes).map_or(u64::MAX, |around| around.count());
            prop_assert!(kib <= most.max(32), "{advice:?}");
            let cap = capacity_cap(device.identity.capacity_bytes);
            if let Some(cap) = cap.filter(|_| device.members.is_empty()) {
                prop_assert!(kib <= cap.count().max(32));
                prop_assert!(cap.count() < 32 || kib >= 32);
            }
            prop_assert!(advice.reasons.iter().any(|reason| reason.rule == advice.bound));
            prop_assert!(!advice.brief().is_empty());
        }
    }
}
