// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections of a scenario, one by one.

use foreread_core::policy::sizing::DEFAULT_PAGES;
use foreread_core::policy::{Kernel, Limits, NoSuchKernel, Policy};
use foreread_model::DiskParameters;

use super::text::{Field, Section};
use super::{Device, FileGroup, ScenarioError, SetupError};
use crate::block::{Elevator, PlugRules, QueueRules, Unplug};
use crate::contender::{Contender, NoSuchContender};
use crate::engine::Cached;
use crate::path::PAGE_BYTES;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Files and blocks beyond this are a slip of the pen.
const COUNT_MAX: u64 = 1_000_000;
/// Limit of the pages cached at the start, since they are put there one by one.
const CACHED_BYTES_MAX: u64 = 64 << 30;
/// Limit of a file's size, since the tracked state of a file grows with it.
const FILE_BYTES_MAX: u64 = 1 << 50;
/// Places on a disk stay far from overflow.
const DISK_BYTES_MAX: u64 = 1 << 60;

pub(super) struct Machine {
    pub memory_pages: Vec<u64>,
    pub cpus: Option<usize>,
    pub until_ns: Option<u64>,
}

pub(super) fn machine(section: Option<&Section<'_>>) -> Result<Machine> {
    let Some(section) = section else {
        return Ok(Machine {
            memory_pages: vec![1 << 16],
            cpus: None,
            until_ns: None,
        });
    };
    section.only(&["memory", "cpus", "until"])?;
    let memory = |field: &Field<'_>| match field.size()? / PAGE_BYTES {
        0 => Err(field.error("memory of less than a page holds nothing")),
        pages => Ok(pages),
    };
    let cpus = section.count("cpus")?;
    if cpus.is_some_and(|cpus| cpus == 0 || cpus > 4096) {
        return Err(section.error("cpus", "expected 1 to 4096"));
    }
    Ok(Machine {
        memory_pages: section.list("memory", memory)?.unwrap_or(vec![1 << 16]),
        cpus: cpus.and_then(|cpus| usize::try_from(cpus).ok()),
        until_ns: section.time("until")?,
    })
}

pub(super) struct Devices {
    pub devices: Vec<Device>,
    pub disks: u64,
}

/// The disk of a preset's name.
pub(super) fn preset(name: &str) -> std::result::Result<Device, SetupError> {
    let name = name.to_owned();
    match DiskParameters::preset(&name) {
        Some(parameters) => Ok(Device { name, parameters }),
        None => Err(SetupError::NoSuchDevice { name }),
    }
}

pub(super) fn device(section: Option<&Section<'_>>) -> Result<Devices> {
    let Some(section) = section else {
        let devices = preset("hdd").into_iter().collect();
        return Ok(Devices { devices, disks: 1 });
    };
    let disks = section.count("disks")?.unwrap_or(1);
    if !(1..=4096).contains(&disks) {
        return Err(section.error("disks", "expected 1 to 4096"));
    }
    let named =
        |field: &Field<'_>| preset(field.text()?).map_err(|error| field.error(error.to_string()));
    let mut devices = match section.list("preset", named)? {
        Some(devices) => devices,
        None => preset("hdd").into_iter().collect(),
    };
    let own_name = section.text("name")?;
    for (key, field) in section.fields() {
        if ["preset", "disks", "name"].contains(&key) {
            continue;
        }
        let value = field.assignment()?;
        for device in &mut devices {
            let set = device.parameters.set(key, &value);
            set.map_err(|error| field.error(error.to_string()))?;
        }
    }
    if let (Some(name), [device]) = (own_name, &mut devices[..]) {
        device.name = name.to_owned();
    }
    Ok(Devices { devices, disks })
}

pub(super) fn queues(section: Option<&Section<'_>>) -> Result<Vec<(String, QueueRules)>> {
    let mut rules = QueueRules::default();
    let Some(section) = section else {
        return Ok(vec![(String::new(), rules)]);
    };
    section.only(&[
        "plug",
        "unplug",
        "unplug_threshold",
        "unplug_timer",
        "elevator",
        "slice",
        "idle",
        "depth",
        "request_max",
    ])?;
    let elevators = [("fifo", 0), ("scan", 1), ("slices", 2)];
    rules.elevator = match section.word("elevator", &elevators)?.unwrap_or(0) {
        0 => Elevator::Fifo,
        1 => Elevator::Scan,
        _ => Elevator::Slices {
            slice_ns: section.time("slice")?.unwrap_or(100_000_000),
            idle_ns: section.time("idle")?.unwrap_or(8_000_000),
        },
    };
    rules.depth = section.count("depth")?.unwrap_or(rules.depth);
    if rules.depth == 0 {
        return Err(section.error("depth", "a queue of depth 0 lets nothing through"));
    }
    if let Some(bytes) = section.size("request_max")? {
        if bytes < PAGE_BYTES {
            return Err(section.error("request_max", "expected at least a page"));
        }
        rules.request_bytes_max = bytes;
    }
    let device_plug = section.word("plug", &[("on-stack", false), ("device", true)])?;
    if device_plug != Some(true) {
        return Ok(vec![(String::new(), rules)]);
    }
    plugged(section, &rules)
}

/// Queues behind a plug of the device, one for each way to release it.
fn plugged(section: &Section<'_>, rules: &QueueRules) -> Result<Vec<(String, QueueRules)>> {
    let words = [
        ("waiter", Unplug::Waiter),
        ("always", Unplug::Always),
        ("up-to-date", Unplug::UpToDate),
    ];
    let threshold_requests = section.count("unplug_threshold")?.unwrap_or(4);
    let timer_ns = section.time("unplug_timer")?.unwrap_or(3_000_000);
    let unplugs = section.list("unplug", |field| {
        Ok((field.text()?.to_owned(), field.word(&words)?))
    })?;
    let unplugs = unplugs.unwrap_or_else(|| vec![("waiter".to_owned(), Unplug::Waiter)]);
    let queue = |(name, unplug)| {
        let plug = PlugRules::Device {
            unplug,
            threshold_requests,
            timer_ns,
        };
        (
            name,
            QueueRules {
                plug,
                ..rules.clone()
            },
        )
    };
    Ok(unplugs.into_iter().map(queue).collect())
}

pub(super) struct Readahead {
    pub policies: Vec<Contender>,
    pub sizes_pages: Vec<u32>,
    pub capacity_cap: bool,
    io_pages: Option<u32>,
    folio_order_max: u8,
    readahead_ratio: Option<u32>,
    quirks: u8,
    pub kernel: Option<Kernel>,
}

impl Readahead {
    pub fn set(&self, limits: &mut Limits) {
        limits.io_pages = self.io_pages.unwrap_or(limits.io_pages);
        limits.folio_order_max = self.folio_order_max;
        limits.readahead_ratio = self.readahead_ratio.unwrap_or(limits.readahead_ratio);
        limits.quirks = self.quirks;
    }
}

fn pages(field: &Field<'_>) -> Result<u32> {
    let pages = field.size()? / PAGE_BYTES;
    u32::try_from(pages).map_err(|_| field.error("larger than any window: 16 TiB"))
}

pub(super) fn readahead(section: Option<&Section<'_>>) -> Result<Readahead> {
    let mut readahead = Readahead {
        policies: vec![Policy::Linux.into()],
        sizes_pages: vec![DEFAULT_PAGES],
        capacity_cap: false,
        io_pages: None,
        folio_order_max: 0,
        readahead_ratio: None,
        quirks: 0,
        kernel: None,
    };
    let Some(section) = section else {
        return Ok(readahead);
    };
    section.only(&[
        "policy",
        "size",
        "capacity_cap",
        "request_max",
        "folio_order_max",
        "readahead_ratio",
        "quirks",
        "kernel",
    ])?;
    let policy = |field: &Field<'_>| {
        let parsed = field.text()?.parse();
        parsed.map_err(|error: NoSuchContender| field.error(error.to_string()))
    };
    if let Some(policies) = section.list("policy", policy)? {
        readahead.policies = policies;
    }
    if let Some(sizes) = section.list("size", pages)? {
        readahead.sizes_pages = sizes;
    }
    readahead.capacity_cap = section.flag("capacity_cap")?;
    readahead.io_pages = section.get("request_max").map(|f| pages(&f)).transpose()?;
    let order = section.count("folio_order_max")?.unwrap_or(0);
    if order > 20 {
        return Err(section.error("folio_order_max", "expected 0 to 20"));
    }
    readahead.folio_order_max = order as u8;
    let ratio = section.count("readahead_ratio")?;
    readahead.readahead_ratio = ratio.map(|ratio| u32::try_from(ratio).unwrap_or(u32::MAX));
    let quirks = section.list("quirks", |field| field.word(&Limits::QUIRKS))?;
    readahead.quirks = quirks
        .unwrap_or_default()
        .iter()
        .fold(0, |all, quirk| all | quirk);
    let kernel = section.get("kernel").map(|field| {
        let parsed = field.text()?.parse();
        parsed.map_err(|error: NoSuchKernel| field.error(error.to_string()))
    });
    readahead.kernel = kernel.transpose()?;
    Ok(readahead)
}

pub(super) fn files(top: &Section<'_>) -> Result<Vec<FileGroup>> {
    let mut files: Vec<FileGroup> = Vec::new();
    for section in top.sections("file")? {
        section.only(&[
            "name",
            "size",
            "count",
            "offset",
            "extents",
            "cached",
            "missing_one_in",
            "missing_block",
            "missing_seed",
        ])?;
        let name = section.required("name")?.text()?.to_owned();
        if files.iter().any(|file| file.name == name) {
            return Err(section.error("name", format!("there are two files called `{name}`")));
        }
        let bytes = section.required("size")?.size()?;
        if bytes == 0 {
            return Err(section.error("size", "a file of no size can't be read"));
        }
        if bytes > FILE_BYTES_MAX {
            return Err(section.error("size", "larger than 1,024 TiB"));
        }
        let count = section.count("count")?.unwrap_or(1);
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(section.error("count", "expected 1 to 1,000,000 files"));
        }
        let far = section.size("offset")?.unwrap_or(0) > DISK_BYTES_MAX;
        if far || bytes.saturating_mul(count) > DISK_BYTES_MAX {
            let what = "no disk is that large: at most 1,048,576 TiB";
            return Err(section.error(if far { "offset" } else { "count" }, what));
        }
        files.push(FileGroup {
            name,
            bytes,
            count,
            offset_bytes: section.size("offset")?,
            extent_step_bytes: section.size("extents")?.unwrap_or(0).saturating_mul(2),
            cached: cached(&section, bytes.saturating_mul(count))?,
        });
    }
    if files.is_empty() {
        return Err(top.error("file", "there is no [[file]], so nothing can be read"));
    }
    Ok(files)
}

/// The part of the file that is in the cache before anything runs.
fn cached(section: &Section<'_>, all_bytes: u64) -> Result<Option<Cached>> {
    let words = [("none", None), ("all", Some(false)), ("active", Some(true))];
    let Some(is_active) = section.word("cached", &words)?.flatten() else {
        for name in ["missing_one_in", "missing_block", "missing_seed"] {
            if section.get(name).is_some() {
                return Err(section.error(name, "needs cached = \"all\" or \"active\""));
            }
        }
        return Ok(None);
    };
    if all_bytes > CACHED_BYTES_MAX {
        return Err(section.error(
            "cached",
            "at most 64 GiB of files can be cached at the start",
        ));
    }
    let missing_one_in = section.count("missing_one_in")?;
    if missing_one_in.is_some_and(|blocks| !(2..=COUNT_MAX).contains(&blocks)) {
        return Err(section.error("missing_one_in", "expected 2 to 1,000,000 blocks"));
    }
    let block_bytes = section.size("missing_block")?.unwrap_or(PAGE_BYTES);
    if block_bytes == 0 || !block_bytes.is_multiple_of(PAGE_BYTES) {
        return Err(section.error("missing_block", "expected whole pages of 4 KiB"));
    }
    Ok(Some(Cached {
        is_active,
        missing_one_in: missing_one_in.unwrap_or(0),
        block_pages: block_bytes / PAGE_BYTES,
        seed: section.count("missing_seed")?,
    }))
}
