// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bpf/block.h`: an event as bytes.

use foreread_blocktrace::{Action, Device, Event, Letters, Rwbs};
use foreread_bpf::field;
use foreread_bpf::skeletons::block::types::block_event;

use crate::Seen;

/// `struct block_event` as an event, and whose it is; `None` when the bytes aren't one.
pub(super) fn seen(bytes: &[u8]) -> Option<Seen> {
    Some(Seen {
        event: event(bytes)?,
        process: field!(bytes, block_event, process)?,
        group: field!(bytes, block_event, group)?,
    })
}

fn event(bytes: &[u8]) -> Option<Event> {
    let comm = field!(bytes, block_event, comm)?;
    let value = field!(bytes, block_event, value)?;
    let action = u8::try_from(field!(bytes, block_event, action)?).ok()?;
    let action = action_of(action, value)?;
    let has_process = !matches!(action, Action::Completed { .. } | Action::Requeued { .. });
    // A plug is neither a read nor a write.
    let rwbs = match action {
        Action::Plugged | Action::Unplugged { .. } | Action::TimerUnplugged { .. } => {
            Rwbs(Letters::new("N")?)
        }
        _ => rwbs(
            field!(bytes, block_event, operation)?,
            field!(bytes, block_event, flags)?,
        )?,
    };
    let name = comm.split(|byte| *byte == 0).next().unwrap_or(&[]);
    Some(Event {
        device: Device {
            major: field!(bytes, block_event, major)?,
            minor: field!(bytes, block_event, minor)?,
        },
        cpu: field!(bytes, block_event, cpu)?,
        sequence: 0,
        time_ns: field!(bytes, block_event, time_ns)?,
        pid: field!(bytes, block_event, pid)?,
        action,
        rwbs,
        sector: field!(bytes, block_event, sector)?,
        sectors: field!(bytes, block_event, sectors)?,
        elapsed_ns: None,
        process: match has_process {
            true => String::from_utf8_lossy(name).into(),
            false => Box::from(""),
        },
    })
}

fn action_of(letter: u8, value: u64) -> Option<Action> {
    let requests = u32::try_from(value).ok();
    Some(match letter {
        b'Q' => Action::Queued,
        b'G' => Action::GotRequest,
        b'P' => Action::Plugged,
        b'U' => Action::Unplugged { requests },
        b'T' => Action::TimerUnplugged { requests },
        b'I' => Action::Inserted,
        b'M' => Action::BackMerged,
        b'F' => Action::FrontMerged,
        b'D' => Action::Issued,
        b'C' => Action::Completed {
            error: errno(value),
        },
        b'R' => Action::Requeued { error: 0 },
        b'X' => Action::Split { at_sector: value },
        _ => return None,
    })
}

/// `blk_status_t` as the error number that blktrace tells.
fn errno(status: u64) -> i32 {
    match status {
        0 => 0,
        1 => -libc::EOPNOTSUPP,
        2 => -libc::ETIMEDOUT,
        3 => -libc::ENOSPC,
        4 => -libc::ENOLINK,
        5 => -libc::EREMOTEIO,
        6 => -libc::EBADE,
        7 => -libc::ENODATA,
        8 => -libc::EILSEQ,
        9 => -libc::ENOMEM,
        _ => -libc::EIO,
    }
}

/// The letters of `blk_fill_rwbs()`.
fn rwbs(operation: u32, flags: u32) -> Option<Rwbs> {
    const FLAGS: [(u32, char); 4] = [(8, 'F'), (1, 'A'), (2, 'S'), (4, 'M')];
    const PREFLUSH: u32 = 16;
    let mut letters = String::new();
    if flags & PREFLUSH != 0 {
        letters.push('F');
    }
    letters.push_str(match operation {
        0 => "R",
        1 | 7 => "W",
        2 => "F",
        3 => "D",
        5 => "DE",
        _ => "N",
    });
    letters.extend(
        FLAGS
            .iter()
            .filter(|(flag, _)| flags & flag != 0)
            .map(|(_, l)| l),
    );
    Letters::new(&letters).map(Rwbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_from_its_bytes() {
        let mut bytes = Vec::new();
        for long in [5_000_000_000_u64, 4096, 3, 77] {
            bytes.extend(long.to_ne_bytes());
        }
        for int in [8_u32, 7, 1, 4242, 4200, 1, u32::from(b'U'), 0, 1 | 4, 0] {
            bytes.extend(int.to_ne_bytes());
        }
        bytes.extend(*b"a b\0............");
        let Seen {
            event: read,
            process,
            group,
        } = seen(&bytes).unwrap();
        assert_eq!((process, group), (4200, 77));
        assert_eq!(
            read.to_string().trim_end(),
            "  7,1    1        0     5.000000000  4242  U   N [a b] 3"
        );
        assert_eq!(event(&bytes[..bytes.len() - 1]), None);
        bytes[56] = b'?';
        assert_eq!(event(&bytes), None);
    }

    #[test]
    fn what_is_to_be_done_has_the_kernels_letters() {
        let letters = |operation, flags| rwbs(operation, flags).unwrap().0.to_string();
        assert_eq!(letters(0, 1), "RA");
        assert_eq!(letters(1, 2 | 8 | 16), "FWFS");
        assert_eq!(
            [letters(3, 0), letters(5, 0), letters(9, 0)],
            ["D", "DE", "N"]
        );
    }
}
