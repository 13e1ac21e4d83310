// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields that differ from action to action: sectors, where a bio was cut or came from, an error, a
//! name.

use super::rest::{Rest, digits, signed};
use super::{LOST_PREFIX, LOST_SUFFIX};
use crate::event::{Action, Device, Event, Letters};

/// Reads the fields that differ from action to action; an error names the part that is wrong.
pub(super) fn fill(
    event: &mut Event,
    letters: Letters,
    mut rest: Rest<'_>,
) -> Result<(), &'static str> {
    let tail = rest.bracketed();
    let (inside, after) = tail.unwrap_or_default();
    if !matches!(letters.as_bytes(), b"C" | b"R") {
        event.process = String::from_utf8_lossy(inside).into();
    }
    event.action = match letters.as_bytes() {
        b"Q" => Action::Queued,
        b"G" => Action::GotRequest,
        b"S" => Action::Slept,
        b"P" => Action::Plugged,
        b"U" | b"UT" => {
            let requests = match after {
                b"" => None,
                number => Some(digits(number).ok_or("the number of requests")?),
            };
            match letters.as_bytes() {
                b"U" => Action::Unplugged { requests },
                _ => Action::TimerUnplugged { requests },
            }
        }
        b"I" => Action::Inserted,
        b"M" => Action::BackMerged,
        b"F" => Action::FrontMerged,
        b"D" => Action::Issued,
        b"C" | b"R" => {
            let error = signed(inside).ok_or("the error in brackets")?;
            match letters.as_bytes() {
                b"C" => Action::Completed { error },
                _ => Action::Requeued { error },
            }
        }
        b"X" => return split(event, rest),
        b"B" => Action::Bounced,
        b"A" => return remapped(event, rest),
        _ => Action::Unknown(letters),
    };
    match event.action {
        Action::Plugged | Action::Unplugged { .. } | Action::TimerUnplugged { .. } => Ok(()),
        // Unknown actions are not followed.
        Action::Unknown(_) => Ok(()),
        _ => sectors(event, rest),
    }
}

fn sectors(event: &mut Event, rest: Rest<'_>) -> Result<(), &'static str> {
    let read = rest.sectors()?;
    (event.sector, event.sectors) = (read.sector, read.sectors);
    event.elapsed_ns = read.elapsed_ns;
    Ok(())
}

/// `173880 / 174904`
fn split(event: &mut Event, mut rest: Rest<'_>) -> Result<(), &'static str> {
    event.sector = rest.number().ok_or("the sector")?;
    if !rest.symbol(b'/') {
        return Err("where it is split");
    }
    let at_sector = rest.number().ok_or("where it is split")?;
    event.action = Action::Split { at_sector };
    Ok(())
}

/// `173880 + 1024 <- (8,1) 171832`
fn remapped(event: &mut Event, rest: Rest<'_>) -> Result<(), &'static str> {
    const FROM: &str = "where it came from";
    let (to, mut from) = rest.split_at_arrow().ok_or(FROM)?;
    sectors(event, to)?;
    let device = from
        .word()
        .strip_prefix(b"(")
        .and_then(|d| d.strip_suffix(b")"));
    event.action = Action::Remapped {
        from: device.and_then(Device::from_bytes).ok_or(FROM)?,
        from_sector: from.number().ok_or(FROM)?,
    };
    Ok(())
}

/// Number of lost events that a message reports.
pub(super) fn lost(message: &[u8]) -> Option<u64> {
    digits(
        message
            .trim_ascii()
            .strip_prefix(LOST_PREFIX.as_bytes())?
            .strip_suffix(LOST_SUFFIX.as_bytes())?,
    )
}
