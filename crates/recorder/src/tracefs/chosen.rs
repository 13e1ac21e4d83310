// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the events to trace, by what this kernel has.

use foreread_profile::BlindSpots;

use super::format::{Decoder, Kind};

/// Why the events of a kernel can't be read; `E` is the error of reading a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError<E> {
    /// A format that is needed can't be read.
    #[error(transparent)]
    Unread(#[from] E),
    /// A format is not as expected.
    #[error("the format of {0} is not as expected")]
    Unknown(&'static str),
}

/// The events to trace, and how to read them.
#[derive(Debug)]
pub struct Chosen {
    /// Reads them.
    pub decoder: Decoder,
    /// Their kinds.
    pub kinds: Vec<Kind>,
    /// Accesses and facts that they don't tell.
    pub blind_spots: BlindSpots,
    /// Whether pages count by access, else by their coming into the page cache.
    pub by_access: bool,
}

impl Chosen {
    /// Chooses among the events whose formats `format` reads. Events of accesses (Linux 6.13 and
    /// later) are left out unless `access_events` is set.
    ///
    /// # Errors
    /// [`FormatError`] when an event lacks that no recording can do without.
    pub fn new<E>(
        format: impl Fn(Kind) -> Result<String, E>,
        access_events: bool,
    ) -> Result<Self, FormatError<E>> {
        let any = format(Kind::Fork)?;
        let mut decoder = Decoder::new(&any).ok_or(FormatError::Unknown("common fields"))?;
        let mut kinds = Vec::new();
        for kind in [Kind::Fork, Kind::Exec, Kind::Exit, Kind::Added] {
            decoder
                .add(kind, &format(kind)?)
                .ok_or(FormatError::Unknown(kind.directory()))?;
            kinds.push(kind);
        }
        let mut add = |kind: Kind| {
            let known =
                access_events && format(kind).is_ok_and(|text| decoder.add(kind, &text).is_some());
            if known {
                kinds.push(kind);
            }
            known
        };
        let by_access = add(Kind::Read);
        let faults = by_access && add(Kind::Fault) && add(Kind::MapAround);
        let mut blind = BlindSpots::NO_LOOKUPS.0 | BlindSpots::NO_STALL.0;
        if !by_access {
            blind |= BlindSpots::RESIDENCY_NOT_ACCESS.0 | BlindSpots::NOT_ONLY_THIS_TREE.0;
        } else if !faults {
            blind |= BlindSpots::NO_MAPPED_FAULTS.0;
        }
        Ok(Self {
            decoder,
            kinds,
            blind_spots: BlindSpots(blind),
            by_access,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A format with all fields that any kind needs.
    fn text(kind: Kind) -> String {
        let id = kind as u32;
        let names = [
            "common_type",
            "common_pid",
            "s_dev",
            "i_ino",
            "index",
            "last_index",
            "parent_pid",
            "child_pid",
            "pid",
            "old_pid",
        ];
        let fields = (0..).step_by(4).zip(names);
        let fields =
            fields.map(|(at, name)| format!("\tfield:int {name};\toffset:{at};\tsize:4;\n"));
        format!("ID: {id}\n{}", fields.collect::<String>())
    }

    fn chosen(missing: &[Kind], access_events: bool) -> Result<Chosen, FormatError<Kind>> {
        let format = |kind| match missing.contains(&kind) {
            true => Err(kind),
            false => Ok(text(kind)),
        };
        Chosen::new(format, access_events)
    }

    #[test]
    fn blind_spots_are_those_of_the_events_that_lack() {
        let always = BlindSpots::NO_LOOKUPS.0 | BlindSpots::NO_STALL.0;
        let all = chosen(&[], true).unwrap();
        assert_eq!((all.kinds.len(), all.by_access), (7, true));
        assert_eq!(all.blind_spots.0, always);
        let no_faults = chosen(&[Kind::MapAround], true).unwrap();
        let expected = always | BlindSpots::NO_MAPPED_FAULTS.0;
        assert_eq!(no_faults.blind_spots.0, expected);
        let residency = BlindSpots::RESIDENCY_NOT_ACCESS.0 | BlindSpots::NOT_ONLY_THIS_TREE.0;
        for without in [chosen(&[Kind::Read], true), chosen(&[], false)] {
            let without = without.unwrap();
            assert_eq!((without.kinds.len(), without.by_access), (4, false));
            assert_eq!(without.blind_spots.0, always | residency);
        }
    }

    #[test]
    fn forks_are_not_done_without() {
        let error = chosen(&[Kind::Fork], true).unwrap_err();
        assert_eq!(error, FormatError::Unread(Kind::Fork));
        let error = Chosen::new(|_| Ok::<_, ()>(String::new()), true).unwrap_err();
        assert_eq!(error, FormatError::Unknown("common fields"));
    }
}
