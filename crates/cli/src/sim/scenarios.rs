// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario files, and values of the command line that replace theirs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use foreread_core::{Bytes, Pages, Unit};
use foreread_sim::Scenario;
use foreread_sim::scenario::Overrides;

use crate::args::SimValues;

/// A scenario is small; more than this is another file.
const SCENARIO_BYTES_MAX: u64 = 16 << 20;

/// The scenario of a file.
pub fn read(path: &Path) -> Result<Scenario> {
    let cannot = || format!("cannot read {}", path.display());
    let length = fs::metadata(path).with_context(cannot)?.len();
    if length > SCENARIO_BYTES_MAX {
        bail!("{} has {length} bytes: that is no scenario", path.display());
    }
    let text = fs::read_to_string(path).with_context(cannot)?;
    Ok(Scenario::parse(&path.display().to_string(), &text)?)
}

/// Converts the arguments into values that replace those of scenarios.
pub fn overrides(values: &SimValues) -> Result<Overrides> {
    let mut policies = Vec::new();
    for name in &values.policy {
        policies.push(name.parse()?);
    }
    let pages = |size: &Bytes| size.count() / Pages::UNIT_BYTES;
    let read_ahead = values.read_ahead.iter().map(|size| {
        u32::try_from(pages(size)).with_context(|| format!("{size}: larger than any window"))
    });
    let kernel = values.kernel.as_deref().map(str::parse).transpose()?;
    Ok(Overrides {
        kernel,
        policies,
        devices: values.device.clone(),
        read_ahead_pages: read_ahead.collect::<Result<_>>()?,
        memory_pages: values.memory.iter().map(pages).collect(),
    })
}
