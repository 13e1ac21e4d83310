// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects suspicions about excluded programs, directories and devices.

use std::fs;

use foreread_sys::mounts::mounts_of_self;
use foreread_watch::detect::Suspicion;
use foreread_watch::excluded::Excluded;
use foreread_watch::place::Place;

/// Whether a suspicion is about an excluded program, directory or device. Names of programs are
/// known only if process numbers are those of our `/proc`.
pub(super) fn is_left_alone(
    excluded: &Excluded,
    suspicion: &Suspicion,
    numbers_are_ours: bool,
) -> bool {
    excluded.is_device(suspicion.device)
        || is_program(excluded, suspicion.process, numbers_are_ours)
        || is_path(excluded, suspicion)
}

/// Whether a program is excluded, by its name.
pub(super) fn is_program(excluded: &Excluded, process: u32, numbers_are_ours: bool) -> bool {
    excluded.has_programs() && numbers_are_ours && {
        let comm = fs::read(format!("/proc/{process}/comm"));
        comm.is_ok_and(|comm| excluded.is_program(&comm))
    }
}

fn is_path(excluded: &Excluded, suspicion: &Suspicion) -> bool {
    excluded.has_paths() && {
        let place = mounts_of_self()
            .ok()
            .and_then(|mounts| Place::find(&mounts, suspicion.device, &suspicion.directory));
        place.is_some_and(|place| excluded.is_path(&place.path_of(&place.inside)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_core::Device;
    use rustix::fs::{major, minor};
    use std::os::unix::fs::MetadataExt;

    fn suspicion() -> Suspicion {
        Suspicion {
            process: std::process::id(),
            parent: 0,
            device: Device { major: 0, minor: 0 },
            directory: b"/no/such".to_vec(),
            passed: Vec::new(),
            start: None,
            threads: 1,
            reads: true,
        }
    }

    #[test]
    fn programs_are_known_by_name() {
        let comm = fs::read_to_string("/proc/self/comm").unwrap();
        let ours = Excluded::new(&[comm.trim_end()], &[]);
        assert!(is_left_alone(&ours, &suspicion(), true));
        assert!(!is_left_alone(&ours, &suspicion(), false));
        let another = Excluded::new(&["another"], &[]);
        assert!(!is_left_alone(&another, &suspicion(), true));
    }

    #[test]
    fn devices_are_known_by_number() {
        let on = |minor| Excluded::default().but_on(vec![Device { major: 0, minor }]);
        assert!(!is_left_alone(&on(0), &suspicion(), true));
        assert!(is_left_alone(&on(1), &suspicion(), true));
    }

    #[test]
    fn directories_are_known_by_where_they_are_mounted() {
        let root = fs::metadata("/").unwrap().dev();
        let here = Suspicion {
            device: Device {
                major: major(root),
                minor: minor(root),
            },
            ..suspicion()
        };
        let all = Excluded::new(&[], &["/"]);
        let mounts = mounts_of_self().unwrap();
        // Nothing is found if the root file system is in memory, or a part of another one.
        let is_found = Place::find(&mounts, here.device, &here.directory).is_some();
        assert_eq!(is_left_alone(&all, &here, true), is_found);
        assert!(!is_left_alone(&all, &suspicion(), true));
        let elsewhere = Excluded::new(&[], &["/elsewhere"]);
        assert!(!is_left_alone(&elsewhere, &here, true));
    }
}
