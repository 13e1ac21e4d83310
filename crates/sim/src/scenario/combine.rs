// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every combination of the values that a scenario or the command line gives.

use foreread_core::policy::sizing::capacity_cap_pages;
use foreread_core::policy::{Kernel, Limits, Policy};

use super::{Device, ProgramGroup, Programs, Scenario, SetupError, parts, traced};
use crate::contender::Contender;
use crate::engine::{FileSetup, Phase, ProgramSetup, Setup};

/// Values that replace those of the scenario where there are any.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Policies.
    pub policies: Vec<Contender>,
    /// Names of presets.
    pub devices: Vec<String>,
    /// Maximum windows, in pages.
    pub read_ahead_pages: Vec<u32>,
    /// Memory, in pages.
    pub memory_pages: Vec<u64>,
    /// The kernel that `linux` is.
    pub kernel: Option<Kernel>,
}

/// One run: its coordinates.
#[derive(Clone, Debug)]
pub struct Combination {
    /// The policy, or the oracle.
    pub policy: Contender,
    /// The disk.
    pub device: Device,
    /// The maximum window, in pages, before the capacity cap.
    pub read_ahead_pages: u32,
    /// Memory, in pages.
    pub memory_pages: u64,
    /// The queue, as a number of [`Scenario::queues`].
    pub queue: usize,
    /// Number of programs of the swept kinds.
    pub count: u64,
}

impl Scenario {
    /// Puts values of the command line in the place of the scenario's.
    ///
    /// # Errors
    /// [`SetupError`] for a device of no preset's name, memory of 0 pages, or a window larger than
    /// a device.
    pub fn set(&mut self, overrides: &Overrides) -> Result<(), SetupError> {
        if !overrides.policies.is_empty() {
            self.policies.clone_from(&overrides.policies);
        }
        if !overrides.devices.is_empty() {
            let devices = overrides.devices.iter().map(|name| parts::preset(name));
            self.devices = devices.collect::<Result<_, _>>()?;
        }
        if !overrides.read_ahead_pages.is_empty() {
            self.read_ahead_pages
                .clone_from(&overrides.read_ahead_pages);
        }
        self.kernel = overrides.kernel.or(self.kernel);
        if overrides.memory_pages.contains(&0) {
            return Err(SetupError::NoMemory);
        }
        if !overrides.memory_pages.is_empty() {
            self.memory_pages.clone_from(&overrides.memory_pages);
        }
        for device in &self.devices {
            let capacity = device.parameters.capacity_bytes;
            let window = self.read_ahead_pages.iter().max().copied().unwrap_or(0);
            if capacity > 0 && u64::from(window) * 4096 > capacity && !self.capacity_cap {
                return Err(SetupError::WindowTooLarge {
                    window_kib: u64::from(window) * 4,
                    capacity_kib: capacity / 1024,
                });
            }
        }
        Ok(())
    }

    /// Every combination, in the order of a table.
    #[must_use]
    pub fn combinations(&self) -> Vec<Combination> {
        let mut all = Vec::new();
        for device in &self.devices {
            for memory_pages in &self.memory_pages {
                for count in &self.counts {
                    for queue in 0..self.queues.len() {
                        for read_ahead_pages in &self.read_ahead_pages {
                            for policy in &self.policies {
                                all.push(Combination {
                                    policy: *policy,
                                    device: device.clone(),
                                    read_ahead_pages: *read_ahead_pages,
                                    memory_pages: *memory_pages,
                                    queue,
                                    count: *count,
                                });
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// The simulated system of a combination.
    #[must_use]
    pub fn setup(&self, combination: &Combination) -> Setup {
        let capacity = combination.device.parameters.capacity_bytes;
        let cap = capacity_cap_pages(capacity).filter(|_| self.capacity_cap);
        let ra_pages = combination.read_ahead_pages.min(cap.unwrap_or(u32::MAX));
        let (files, programs) = match &self.trace {
            Some(survey) => traced::setups(survey),
            None => self.written(combination),
        };
        let mut disk = combination.device.parameters.clone();
        if disk.capacity_bytes == 0 {
            disk.capacity_bytes = files.iter().map(end_bytes).max().unwrap_or(1);
        }
        Setup {
            memory_pages: Some(combination.memory_pages),
            cpus: self.cpus,
            until_ns: self.until_ns,
            disk,
            disks: usize::try_from(self.disks).unwrap_or(1),
            queue: self.queues[combination.queue].1.clone(),
            policy: self.on_kernel(combination.policy.policy()),
            foresight: combination.policy.foresight(),
            limits: Limits {
                ra_pages,
                // A cap is a cap: a large request doesn't widen it.
                pages_max: cap.unwrap_or(self.limits.pages_max),
                quirks: self.limits.quirks | self.kernel.map_or(0, |kernel| kernel.policy.quirks()),
                ..self.limits
            },
            files,
            programs,
        }
    }

    /// `linux` is that of the kernel.
    fn on_kernel(&self, policy: Policy) -> Policy {
        match (policy, self.kernel) {
            (Policy::Linux, Some(kernel)) => kernel.policy,
            (policy, _) => policy,
        }
    }

    /// Files and programs as the scenario's text has them.
    fn written(&self, combination: &Combination) -> (Vec<FileSetup>, Vec<ProgramSetup>) {
        let (files, first_of_group) = self.file_setups();
        let mut programs = Vec::new();
        for group in &self.programs {
            let count = match group.count {
                Programs::Fixed(count) => count,
                Programs::Swept => combination.count,
            };
            let at = self.files.iter().position(|f| f.name == group.files);
            let at = at.unwrap_or(0);
            let group_files: Vec<usize> = (0..self.files[at].count as usize)
                .map(|number| first_of_group[at] + number)
                .collect();
            programs.extend((0..count).map(|number| {
                let files = if group.own_files {
                    let own = number as usize % group_files.len();
                    vec![group_files[own]]
                } else {
                    group_files.clone()
                };
                group.setup(number, combination, count, files)
            }));
        }
        (files, programs)
    }

    /// All files, one after the other on their disks, and which is the first of each group.
    fn file_setups(&self) -> (Vec<FileSetup>, Vec<usize>) {
        let disks = usize::try_from(self.disks).unwrap_or(1);
        let mut next_bytes = vec![0u64; disks];
        let (mut files, mut firsts) = (Vec::new(), Vec::new());
        for group in &self.files {
            firsts.push(files.len());
            for number in 0..group.count {
                let disk = number as usize % disks;
                let start = group.offset_bytes.filter(|_| number < disks as u64);
                let offset_bytes = start.unwrap_or(next_bytes[disk]);
                let spread = if group.extent_step_bytes > 0 { 2 } else { 1 };
                let whole = group.bytes.div_ceil(4096) * 4096 * spread;
                next_bytes[disk] = offset_bytes.saturating_add(whole);
                let name = match group.count {
                    1 => group.name.clone(),
                    _ => format!("{}/{}", group.name, number + 1),
                };
                files.push(FileSetup {
                    name,
                    bytes: group.bytes,
                    disk,
                    offset_bytes,
                    extent_step_bytes: group.extent_step_bytes,
                    extents: Default::default(),
                    cached: group.cached,
                });
            }
        }
        (files, firsts)
    }
}

/// Where a file ends on its disk.
fn end_bytes(file: &FileSetup) -> u64 {
    let ends = file
        .extents
        .iter()
        .map(|extent| extent.physical_bytes + extent.length_bytes);
    ends.max().unwrap_or(file.offset_bytes + file.bytes)
}

impl ProgramGroup {
    fn setup(
        &self,
        number: u64,
        combination: &Combination,
        count: u64,
        files: Vec<usize>,
    ) -> ProgramSetup {
        let name = match count {
            1 => self.name.clone(),
            _ => format!("{}/{}", self.name, number + 1),
        };
        let step_ns = self.start_step_ns.saturating_mul(number);
        let phase = |phase: &Phase| Phase {
            request_bytes: match phase.request_bytes {
                0 => u64::from(combination.read_ahead_pages.max(1)) * 4096,
                bytes => bytes,
            },
            ..phase.clone()
        };
        ProgramSetup {
            name,
            is_victim: self.is_victim,
            files,
            phases: self.phases.iter().map(phase).collect(),
            threads: self.threads,
            piece_bytes: self.piece_bytes,
            through: self.through,
            advice: self.advice,
            repeat: self.repeat,
            start_ns: self.start_ns.saturating_add(step_ns),
            think_ns: self.think_ns,
            cpu_per_page_ns: self.cpu_per_page_ns,
            cpu_per_fetched_page_ns: self.cpu_per_fetched_page_ns,
            cpu_per_call_ns: self.cpu_per_call_ns,
            rate_bytes_per_s: self.rate_bytes_per_s,
            seed: self.seed.wrapping_add(number),
        }
    }
}
