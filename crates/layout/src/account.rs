// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies where: bytes, fragments and distances, by phase of a boot.

use foreread_model::{Extent, distinct_extents};
use foreread_profile::PhaseKind;

use crate::file::{FileOnDisk, Run, fragments};

/// What is read in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseAccount {
    /// The phase; `None` for a program.
    pub phase: Option<PhaseKind>,
    /// Files with a page that is needed in this phase.
    pub files: u64,
    /// Bytes that are needed in this phase.
    pub bytes: u64,
    /// Pieces that these bytes are in, if each file is read by itself.
    pub fragments: u64,
    /// Separate places on the device, if all of the phase is read in order of the device.
    pub places: u64,
    /// From the first byte on the device to the last.
    pub span_bytes: u64,
}

/// An account for each phase, in order; one for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Phases without any byte are left out.
    pub phases: Vec<PhaseAccount>,
}

impl Account {
    /// An account of these files. `phase_of` says to which phase a time of need belongs.
    pub fn of(files: &[FileOnDisk], phase_of: impl Fn(u64) -> Option<PhaseKind>) -> Self {
        let mut phases: Vec<Option<PhaseKind>> = files
            .iter()
            .flat_map(|file| file.wanted.iter().map(|wanted| phase_of(wanted.need_ns)))
            .collect();
        phases.sort_unstable();
        phases.dedup();
        let accounts = phases.into_iter().map(|phase| {
            let mut account = PhaseAccount {
                phase,
                ..PhaseAccount::default()
            };
            let mut extents = Vec::new();
            for file in files {
                let runs = file.wanted_runs();
                let ours = runs.filter(|(_, need_ns)| phase_of(*need_ns) == phase);
                let ours: Vec<Run> = ours.map(|(run, _)| run).collect();
                account.files += u64::from(!ours.is_empty());
                account.fragments += fragments(ours.iter().copied());
                account.bytes += ours.iter().map(|run| run.length_bytes).sum::<u64>();
                extents.extend(ours.iter().map(|run| Extent {
                    offset_bytes: run.place_bytes,
                    length_bytes: run.length_bytes,
                }));
            }
            let places = distinct_extents(&extents);
            account.places = places.len() as u64;
            if let (Some(first), Some(last)) = (places.first(), places.last()) {
                account.span_bytes = last.end_bytes() - first.offset_bytes;
            }
            account
        });
        Self {
            phases: accounts.filter(|account| account.bytes > 0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::WantedPages;
    use foreread_profile::{NodeId, PAGE_BYTES};

    fn file(node: u32, places: &[u64], needs_ns: &[u64]) -> FileOnDisk {
        let run = |(at, place): (u64, &u64)| Run {
            offset_bytes: at * PAGE_BYTES,
            place_bytes: place * PAGE_BYTES,
            length_bytes: PAGE_BYTES,
        };
        let wanted = |(at, need_ns): (u64, &u64)| WantedPages {
            start_page: at,
            pages: 1,
            need_ns: *need_ns,
        };
        FileOnDisk {
            node: NodeId(node),
            size_bytes: places.len() as u64 * PAGE_BYTES,
            runs: (0..).zip(places).map(run).collect(),
            wanted: (0..).zip(needs_ns).map(wanted).collect(),
            obstacle: None,
        }
    }

    #[test]
    fn a_file_counts_in_each_phase_that_needs_it() {
        let files = [
            file(1, &[10, 11, 20], &[0, 5, 90]),
            file(2, &[12, 30], &[7, 8]),
            file(3, &[50], &[]),
        ];
        let phase_of = |need_ns| match need_ns {
            0..50 => Some(PhaseKind::Sysinit),
            _ => Some(PhaseKind::Target),
        };
        let account = Account::of(&files, phase_of);
        let sysinit = PhaseAccount {
            phase: Some(PhaseKind::Sysinit),
            files: 2,
            bytes: 4 * PAGE_BYTES,
            fragments: 3,
            places: 2,
            span_bytes: 21 * PAGE_BYTES,
        };
        let target = PhaseAccount {
            phase: Some(PhaseKind::Target),
            files: 1,
            bytes: PAGE_BYTES,
            fragments: 1,
            places: 1,
            span_bytes: PAGE_BYTES,
        };
        assert_eq!(account.phases, [sysinit, target]);
    }

    #[test]
    fn a_program_has_no_phases() {
        let account = Account::of(&[file(1, &[1], &[3])], |_| None);
        assert_eq!(account.phases.len(), 1);
        assert_eq!(account.phases[0].phase, None);
        assert_eq!(Account::of(&[], |_| None).phases, []);
    }
}
