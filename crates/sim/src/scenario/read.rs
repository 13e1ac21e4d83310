// SPDX-License-Identifier: MIT OR Apache-2.0
//! From TOML to a scenario: the sections, and the rules between them.

use foreread_core::policy::Limits;
use foreread_core::policy::sizing::DEFAULT_PAGES;

use super::fit::Fit;
use super::text::{Section, Source};
use super::{Programs, Scenario, ScenarioError, expect, parts, programs};
use crate::path::PAGE_BYTES;

/// Files and programs beyond this are a slip of the pen.
const COUNT_MAX: u64 = 1_000_000;

impl Scenario {
    /// Reads a scenario; `file` is its name in errors.
    ///
    /// # Errors
    /// [`ScenarioError`] with the line and the field, for anything that can't be simulated.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let source = Source { file, text };
        let document = source.parse()?;
        let table: &toml::de::DeTable<'_> = document.get_ref();
        // The document lives as long as the text's copy here; the parsed values are owned.
        let top = Section::new(source, "", table, 0);
        read(&top)
    }
}

fn read(top: &Section<'_>) -> Result<Scenario, ScenarioError> {
    top.only(&[
        "about",
        "workload",
        "random",
        "machine",
        "device",
        "queue",
        "readahead",
        "file",
        "program",
        "sweep",
        "expect",
        "fit",
    ])?;
    let machine = parts::machine(top.section("machine")?.as_ref())?;
    let device = parts::device(top.section("device")?.as_ref())?;
    let readahead = parts::readahead(top.section("readahead")?.as_ref())?;
    let files = parts::files(top)?;
    let programs = programs::programs(top, &files)?;
    let sweep = top.section("sweep")?;
    let counts = match &sweep {
        Some(sweep) => {
            sweep.only(&["count"])?;
            sweep.list("count", |field| {
                let count = field.count()?;
                match count {
                    1..=COUNT_MAX => Ok(count),
                    _ => Err(field.error("expected 1 to 1,000,000 programs")),
                }
            })?
        }
        None => None,
    };
    let swept = programs.iter().any(|group| group.count == Programs::Swept);
    if swept && counts.is_none() {
        return Err(top.error(
            "sweep",
            "a program has count = \"sweep\", and [sweep] gives no count",
        ));
    }
    let mut limits = Limits::new(0, DEFAULT_PAGES);
    readahead.set(&mut limits);
    let scenario = Scenario {
        file: top.source_file().to_owned(),
        about: top.text("about")?.unwrap_or_default().trim().to_owned(),
        workload: top.text("workload")?.unwrap_or_default().to_owned(),
        is_random: top.flag("random")?,
        memory_pages: machine.memory_pages,
        cpus: machine.cpus,
        until_ns: machine.until_ns,
        devices: device.devices,
        disks: device.disks,
        queues: parts::queues(top.section("queue")?.as_ref())?,
        policies: readahead.policies,
        read_ahead_pages: readahead.sizes_pages,
        capacity_cap: readahead.capacity_cap,
        limits,
        kernel: readahead.kernel,
        files,
        programs,
        counts: counts.unwrap_or_else(|| vec![1]),
        expectations: expect::read(top)?,
        fit: Fit::read(top)?,
        trace: None,
    };
    scenario.check_sizes(top)?;
    Ok(scenario)
}

impl Scenario {
    /// Rejects impossible sizes: windows and files larger than the device.
    fn check_sizes(&self, top: &Section<'_>) -> Result<(), ScenarioError> {
        for device in &self.devices {
            let capacity = device.parameters.capacity_bytes;
            if capacity == 0 {
                continue;
            }
            let files: u64 = self
                .files
                .iter()
                .map(|g| g.bytes.saturating_mul(g.count))
                .sum();
            if files / self.disks > capacity {
                let what = format!("{files} bytes don't fit on a disk of {capacity}");
                return Err(top.error("file", what));
            }
            let window = self.read_ahead_pages.iter().max().copied().unwrap_or(0);
            if u64::from(window) * PAGE_BYTES > capacity && !self.capacity_cap {
                let what = format!(
                    "a window of {} KiB is larger than the device, which has {} KiB",
                    u64::from(window) * 4,
                    capacity / 1024
                );
                return Err(top.error("readahead", what));
            }
        }
        Ok(())
    }
}
