// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots that go wrong in ways that Foreread must not make worse.
//!
//! In: random numbers, and a machine whose boot is recorded. Out: the machine made bad, what
//! is done to it during the boot, what the journal has to say, and the machine as it was before.

use std::ffi::OsStr;
use std::path::Path;

use foreread_guest::GuestError;
use foreread_profile::Profile;

use crate::bad_profiles::{Harm, Traps, harmful};
use crate::boot_machine::BootMachine;
use crate::random::Random;

/// Where Foreread keeps profile and history, below the root directory.
const KEPT: &str = "var/lib/foreread/boot";
/// The limits of a unit or a mount that hangs, in the boot without Foreread.
const SHORTEST_HANG_S: u64 = 5;
const LONGEST_HANG_S: u64 = 200;
/// Bytes that a file takes on the root disk.
const BLOCK_BYTES: u64 = 4096;

/// A file that is kept from boot to boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Profile,
    History,
}

impl Kept {
    const ALL: [Self; 2] = [Self::Profile, Self::History];

    const fn name(self) -> &'static str {
        match self {
            Self::Profile => "boot.frp",
            Self::History => "history.json",
        }
    }
}

/// Commands that put something else in the place of a file, whose path is `$1`.
const IN_PLACE: [(&str, &str); 6] = [
    ("a directory", "mkdir \"$1\""),
    ("a FIFO", "mkfifo \"$1\""),
    ("a link to itself", "ln -s boot.frp \"$1\""),
    ("a link to /dev/zero", "ln -s /dev/zero \"$1\""),
    ("a link to /proc/kmsg", "ln -s /proc/kmsg \"$1\""),
    ("200 MiB of zeros", "truncate -s 200M \"$1\""),
];

/// Words on the kernel's command line that ask for repair.
const REPAIR: [&str; 6] = [
    "emergency",
    "rescue",
    "single",
    "1",
    "systemd.unit=emergency.target",
    "systemd.unit=rescue.target",
];

/// The shorter word that leads to the same mode.
fn mode_of(word: &str) -> &'static str {
    match word.contains("emergency") {
        true => "emergency",
        false => "rescue",
    }
}

/// What is bad about a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bad {
    /// So many bytes of a kept file are others.
    Corrupt { file: Kept, bytes: u64 },
    /// A kept file ends after so many thousandths of its length.
    Truncated { file: Kept, permille: u64 },
    /// Something else is in the place of the profile: a number of [`IN_PLACE`].
    InPlace(usize),
    /// The profile is the one that another machine made of its own boots.
    OfAnother,
    /// The profile is a portable one of another machine.
    Portable,
    /// The profile does harm if it is believed.
    Harmful(Harm),
    /// The root file system has so many free blocks.
    FullDisk { free_blocks: u64, refreshes: bool },
    /// The root file system stays read-only.
    ReadOnlyRoot,
    /// Foreread is killed so long after the first units start.
    Killed { after_ms: u64 },
    /// The power is cut so long after the first units start.
    PowerCut { after_ms: u64 },
    /// The power is cut while the profile is saved, after so many steps of a loop.
    PowerCutInSave { steps: u64 },
    /// A unit that the target waits for hangs, until systemd kills it after so long.
    UnitHangs { limit_s: u64 },
    /// Somebody asks for repair with this word.
    Repair(&'static str),
    /// A file system is missing for so long, and systemd goes into emergency mode.
    LostMount { limit_s: u64 },
}

/// Things that a boot's time depends on, with and without Foreread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    Usual,
    FullDisk,
    ReadOnlyRoot,
    UnitHangs,
    Repair(&'static str),
    LostMount,
}

/// What the machine has before a boot is made bad.
pub struct Before {
    /// Its own profile.
    pub profile: Vec<u8>,
    /// The same, read.
    pub own: Profile,
    /// Its history of boots.
    pub history: Vec<u8>,
    /// The profile that another machine made of its own boots.
    pub of_another: Vec<u8>,
    /// A portable profile of another machine.
    pub portable: Vec<u8>,
    /// Files that profiles name.
    pub traps: Traps,
}

impl Bad {
    /// One of each kind, in random order, with random numbers.
    pub fn round(random: &mut Random, boot_ms: u64) -> Vec<Self> {
        let file = |random: &mut Random| random.one_of(&Kept::ALL).unwrap_or(Kept::Profile);
        let hang_s =
            |random: &mut Random| SHORTEST_HANG_S + random.below(LONGEST_HANG_S - SHORTEST_HANG_S);
        let mut round = vec![
            Self::Corrupt {
                file: file(random),
                bytes: 1 + random.below(8),
            },
            Self::Truncated {
                file: file(random),
                permille: random.below(1000),
            },
            Self::InPlace(random.below(IN_PLACE.len() as u64) as usize),
            Self::OfAnother,
            Self::Portable,
            Self::Harmful(random.one_of(&Harm::ALL).unwrap_or(Harm::Links)),
            Self::FullDisk {
                free_blocks: random.below(4) * random.below(50),
                refreshes: random.below(2) == 0,
            },
            Self::ReadOnlyRoot,
            Self::Killed {
                after_ms: random.below(boot_ms + 8_000),
            },
            Self::PowerCut {
                after_ms: random.below(boot_ms + 8_000),
            },
            Self::PowerCutInSave {
                steps: random.below(1_000),
            },
            Self::UnitHangs {
                limit_s: hang_s(random),
            },
            Self::Repair(random.one_of(&REPAIR).unwrap_or("emergency")),
            Self::LostMount {
                limit_s: hang_s(random),
            },
        ];
        random.shuffle(&mut round);
        round
    }

    /// In a few words, with its numbers.
    pub fn name(&self) -> String {
        let seconds = |ms: &u64| *ms as f64 / 1e3;
        match self {
            Self::Corrupt { file, bytes } => {
                format!("corrupt {}, {bytes} bytes are others", file.name())
            }
            Self::Truncated { file, permille } => {
                format!("truncated {}, to {permille} thousandths", file.name())
            }
            Self::InPlace(at) => {
                let what = IN_PLACE.get(*at).map_or("", |(name, _)| *name);
                format!("{what} in the place of boot.frp")
            }
            Self::OfAnother => "another machine's own profile".to_owned(),
            Self::Portable => "a portable profile of another machine".to_owned(),
            Self::Harmful(harm) => format!("harmful profile, {}", harm.name()),
            Self::FullDisk {
                free_blocks,
                refreshes,
            } => {
                let refreshed = if *refreshes { ", refreshed" } else { "" };
                format!("full disk, {free_blocks} blocks are free{refreshed}")
            }
            Self::ReadOnlyRoot => "read-only root".to_owned(),
            Self::Killed { after_ms } => {
                format!("foreread killed after {:.2} s", seconds(after_ms))
            }
            Self::PowerCut { after_ms } => format!("power cut after {:.2} s", seconds(after_ms)),
            Self::PowerCutInSave { steps } => format!("power cut {steps} steps into a save"),
            Self::UnitHangs { limit_s } => format!("a unit hangs for {limit_s} s"),
            Self::Repair(word) => format!("the command line says {word}"),
            Self::LostMount { limit_s } => {
                format!("a file system is missing for {limit_s} s; emergency mode")
            }
        }
    }

    /// What its time is to be compared with.
    pub fn condition(&self) -> Condition {
        match self {
            Self::FullDisk { .. } => Condition::FullDisk,
            Self::ReadOnlyRoot => Condition::ReadOnlyRoot,
            Self::UnitHangs { .. } => Condition::UnitHangs,
            Self::Repair(word) => Condition::Repair(mode_of(word)),
            Self::LostMount { .. } => Condition::LostMount,
            _ => Condition::Usual,
        }
    }

    /// Time of the boot in which systemd waits for something that hangs, in s.
    pub const fn hang_s(&self) -> u64 {
        match self {
            Self::UnitHangs { limit_s } | Self::LostMount { limit_s } => *limit_s,
            _ => 0,
        }
    }

    /// The same with the shortest hang.
    pub fn shortest(&self) -> Self {
        let limit_s = SHORTEST_HANG_S;
        match self {
            Self::UnitHangs { .. } => Self::UnitHangs { limit_s },
            Self::LostMount { .. } => Self::LostMount { limit_s },
            _ => self.clone(),
        }
    }

    /// Whether the power is cut during the boot.
    pub const fn cuts_power(&self) -> bool {
        matches!(self, Self::PowerCut { .. } | Self::PowerCutInSave { .. })
    }

    /// Words on the kernel's command line.
    pub fn command_line(&self) -> String {
        let at = |what: &str, ms: &u64| format!("bad_boot={what},{}.{:03}", ms / 1000, ms % 1000);
        match self {
            Self::Killed { after_ms } => at("kill", after_ms),
            Self::PowerCut { after_ms } => at("cut", after_ms),
            Self::Repair(word) => (*word).to_owned(),
            Self::FullDisk {
                refreshes: true, ..
            }
            | Self::PowerCutInSave { .. } => "foreread.boot=refresh".to_owned(),
            _ => String::new(),
        }
    }

    /// What the guest does once it is up, before it looks at what came of the boot.
    pub fn script(&self) -> String {
        let Self::PowerCutInSave { steps } = self else {
            return String::new();
        };
        // Fewer steps than a save takes are within it. It may be over before this begins.
        format!(
            "(cd /{KEPT}; tries=0
            until set -- .boot.frp.*; [ -e \"$1\" ] || [ $tries -gt 600000 ]; do
                tries=$((tries + 1))
            done
            steps=0; while [ $steps -lt {steps} ]; do steps=$((steps + 1)); done
            [ $tries -gt 600000 ] || echo b >/proc/sysrq-trigger)\n"
        )
    }

    /// Parts of lines, one of which the journal must have; none where Foreread is not started.
    pub fn says(&self) -> &'static [&'static str] {
        match self {
            Self::Corrupt {
                file: Kept::Profile,
                ..
            }
            | Self::Truncated {
                file: Kept::Profile,
                ..
            }
            | Self::InPlace(_)
            | Self::Harmful(Harm::DuplicatePaths | Harm::ManyRanges) => {
                &["the profile can't be used"]
            }
            // One byte may be as good as another.
            Self::Corrupt { .. } => &["a new one is begun", "this boot is "],
            Self::Truncated { .. } => &["a new one is begun"],
            Self::OfAnother | Self::Portable => &["the profile is another system's"],
            Self::Harmful(_) => &["read ahead "],
            Self::FullDisk { free_blocks: 0, .. } => &["No space left on device"],
            // The kept files may fit, and the journal may lose a line.
            Self::FullDisk { .. } => &[
                "No space left on device",
                "this boot is ",
                "the boot reached its target",
            ],
            Self::ReadOnlyRoot => &["Read-only file system"],
            Self::Killed { .. } => &["was killed", "bad-boot: foreread had ended"],
            Self::UnitHangs { .. } => &["the boot reached its target"],
            Self::LostMount { .. } => &["stopped before the boot reached its target"],
            Self::PowerCut { .. } | Self::PowerCutInSave { .. } | Self::Repair(_) => &[],
        }
    }

    /// Makes a machine bad.
    pub fn prepare(
        &self,
        machine: &BootMachine<'_>,
        before: &Before,
        random: &mut Random,
    ) -> Result<(), GuestError> {
        match self {
            Self::Corrupt { file, bytes } => {
                let mut content = before.kept(*file).to_vec();
                for _ in 0..*bytes {
                    let at = random.below(content.len() as u64) as usize;
                    content[at] ^= 1 + random.below(255) as u8;
                }
                put(machine, *file, &content)
            }
            Self::Truncated { file, permille } => {
                let content = before.kept(*file);
                let end = content.len() as u64 * permille / 1000;
                put(machine, *file, &content[..end as usize])
            }
            Self::InPlace(at) => {
                let command = IN_PLACE.get(*at).map_or("", |(_, command)| *command);
                let path = format!("{KEPT}/{}", Kept::Profile.name());
                change(machine, &format!("rm \"$1\"\n{command}"), &[path.as_ref()])
            }
            Self::OfAnother => put(machine, Kept::Profile, &before.of_another),
            Self::Portable => put(machine, Kept::Profile, &before.portable),
            Self::Harmful(harm) => {
                let content = harmful(&before.own, &before.traps, *harm, random);
                put(machine, Kept::Profile, &content)
            }
            Self::FullDisk { free_blocks, .. } => {
                // Blocks that are taken need not be written.
                let free_bytes = (free_blocks * BLOCK_BYTES).to_string();
                let command = "sync
                    fallocate -l \"$1\" kept-free
                    while free=$(stat -f -c %f .) && [ \"$free\" -gt 0 ]; do
                        fallocate -l $((free * 4096)) \"fill-$free\" 2>/dev/null && continue
                        fallocate -l $((free * 2048)) \"fill-$free\" 2>/dev/null && continue
                        dd if=/dev/zero of=\"fill-$free\" bs=4096 2>/dev/null || break
                    done
                    rm kept-free";
                let none = "fallocate() { [ \"$2\" != 0 ] || { : >kept-free; return; }
                    command fallocate \"$@\"; }\n";
                change(machine, &format!("{none}{command}"), &[free_bytes.as_ref()])
            }
            Self::ReadOnlyRoot => change(machine, "sed -i 's/ defaults / ro /' etc/fstab", &[]),
            Self::UnitHangs { limit_s } => {
                let limit = limit_s.to_string();
                let command = "unit=etc/systemd/system/bad-boot-hangs.service
                    printf '[Service]\\nType=oneshot\\nExecStart=/bin/sleep infinity\\n' >$unit
                    printf 'TimeoutStartSec=%s\\n' \"$1\" >>$unit
                    ln -s /$unit etc/systemd/system/multi-user.target.wants/";
                change(machine, command, &[limit.as_ref()])
            }
            Self::LostMount { limit_s } => {
                let limit = limit_s.to_string();
                let command = "mkdir -p mnt/lost
                    printf '/dev/lost /mnt/lost ext4 x-systemd.device-timeout=%s 0 0\\n' \"$1\" \
                        >>etc/fstab";
                change(machine, command, &[limit.as_ref()])
            }
            Self::Killed { .. }
            | Self::PowerCut { .. }
            | Self::PowerCutInSave { .. }
            | Self::Repair(_) => Ok(()),
        }
    }

    /// Takes away what keeps every boot from being a good one, as whoever mends the machine does.
    pub fn mend(&self, machine: &BootMachine<'_>) -> Result<(), GuestError> {
        let command = match self {
            Self::FullDisk { .. } => "rm -f fill-*",
            Self::ReadOnlyRoot => "sed -i 's/ ro / defaults /' etc/fstab",
            Self::UnitHangs { .. } => {
                "rm etc/systemd/system/multi-user.target.wants/bad-boot-hangs.service"
            }
            Self::LostMount { .. } => "sed -i '/^.dev.lost/d' etc/fstab",
            // To mount it here would repair it.
            _ => return Ok(()),
        };
        change(machine, command, &[])
    }
}

impl Before {
    fn kept(&self, file: Kept) -> &[u8] {
        match file {
            Kept::Profile => &self.profile,
            Kept::History => &self.history,
        }
    }
}

fn change(
    machine: &BootMachine<'_>,
    command: &str,
    arguments: &[&OsStr],
) -> Result<(), GuestError> {
    machine.change(command, arguments).map(drop)
}

fn put(machine: &BootMachine<'_>, file: Kept, content: &[u8]) -> Result<(), GuestError> {
    let failed = |error| GuestError::Unexpected(format!("no temporary file: {error}"));
    let holder = tempfile::NamedTempFile::new().map_err(failed)?;
    std::fs::write(holder.path(), content).map_err(failed)?;
    let to = Path::new(KEPT).join(file.name());
    let arguments = [holder.path().as_os_str(), to.as_os_str()];
    change(machine, "install -m 600 \"$1\" \"$2\"", &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_each_kind_and_the_next_one_other_numbers() {
        let round = |part| Bad::round(&mut Random::of_part(1, part), 7_000);
        let kinds = |round: &[Bad]| {
            let mut kinds: Vec<_> = round.iter().map(std::mem::discriminant).collect();
            let all = kinds.len();
            kinds.sort_by_key(|kind| format!("{kind:?}"));
            kinds.dedup();
            (all, kinds.len())
        };
        assert_eq!(kinds(&round(0)), (14, 14));
        assert_eq!(round(0), round(0));
        assert_ne!(round(0), round(1));
        assert!(round(3).iter().all(|bad| !bad.name().is_empty()));
    }
}
