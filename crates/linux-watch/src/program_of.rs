// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the process that runs the program of a profile: the one that missed its files, or one
//! above.

use std::fs;

use foreread_profile::Profile;
use foreread_sys::process_stat::parent_of;
use foreread_watch::together::Found;

/// Maximum number of levels above the process that missed a file.
const ABOVE_MAX: usize = 16;

/// The process of the profile's program, and the processes below it by which it was found. A script
/// reads by programs that it starts. The process is found by its command line, or by its name.
/// `looks_above` includes processes above, which missed nothing themselves.
pub(super) fn program_of(profile: &Profile, found: &Found, looks_above: bool) -> Vec<u32> {
    let mut chain = vec![found.by];
    if found.process != found.by {
        chain.push(found.process);
    }
    if looks_above {
        while let Some(above) = chain.last().and_then(|process| parent_of(*process)) {
            if above <= 1 || above == std::process::id() || chain.len() > ABOVE_MAX {
                break;
            }
            chain.push(above);
        }
    }
    let is_told_so = |process: &u32| has_arguments(*process, profile);
    let is_called_so = |process: &u32| has_name(*process, profile);
    let at = chain.iter().position(is_told_so);
    let at = at.or_else(|| chain.iter().position(is_called_so));
    let begun = chain.iter().position(|process| *process == found.process);
    chain.truncate(at.max(begun).unwrap_or_default() + 1);
    chain.reverse();
    chain
}

/// Whether the process has the command line that was recorded.
fn has_arguments(process: u32, profile: &Profile) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    arguments == profile.program.arguments
}

/// Whether its name is that of the program that was recorded.
fn has_name(process: u32, profile: &Profile) -> bool {
    // The kernel cuts names to this length.
    const COMM_BYTES_MAX: usize = 15;
    let comm = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
    let program = &profile.program;
    let called = program.arguments.first().into_iter();
    let mut names = called.chain([&program.executable]).map(|path| {
        let name = path.rsplit(|byte| *byte == b'/').next();
        let name = name.unwrap_or_default();
        &name[..name.len().min(COMM_BYTES_MAX)]
    });
    !comm.is_empty() && names.any(|name| name == comm)
}

/// Whether `foreread run` runs the process, and so replays its profile.
pub(super) fn is_run(process: u32) -> bool {
    let mut at = Some(process);
    for _ in 0..ABOVE_MAX {
        let Some(process) = at.filter(|process| *process > 1) else {
            return false;
        };
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let name = words.next().unwrap_or_default();
        if name.rsplit(|byte| *byte == b'/').next() == Some(b"foreread")
            && words.next() == Some(b"run")
        {
            return true;
        }
        at = parent_of(process);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::Program;
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    fn profile_of(arguments: &[&str], executable: &str) -> Profile {
        Profile {
            program: Program {
                executable: executable.into(),
                arguments: arguments.iter().map(|word| (*word).into()).collect(),
                ..Program::default()
            },
            ..Profile::default()
        }
    }

    #[test]
    fn programs_are_known_by_what_they_were_told_or_called() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = child.id();
        let parent = parent_of(id);
        // Until it calls exec, it has our command line.
        let same = profile_of(&["sleep", "60"], "/usr/bin/sleep");
        let began = Instant::now();
        while !has_arguments(id, &same) && began.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(10));
        }
        let other = profile_of(&["sleep", "61"], "/usr/bin/sleep");
        let found = [
            has_arguments(id, &same),
            has_arguments(id, &other),
            has_name(id, &other),
            has_name(id, &profile_of(&[], "/usr/bin/sleepy")),
            is_run(id),
        ];
        let missed_by = Found {
            process: id,
            by: id,
            profile: 0,
            files: Vec::new(),
            odds_bits: 20,
        };
        let alone = program_of(&same, &missed_by, true);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent, Some(std::process::id()));
        // The process above it is this one.
        assert_eq!(alone, [id]);
        assert_eq!(found, [true, false, true, false, false]);
        assert!(!has_name(id, &Profile::default()));
    }
}
