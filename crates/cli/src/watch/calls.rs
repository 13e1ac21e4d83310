// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the policy of streams, as lines of the log of `watch` have them: what people read of
//! them, and the bytes from which `sim --replay` makes them again.

use anyhow::{Context, Result, bail};
use foreread_core::Device;
use foreread_core::policy::{Access, Decision, Done, Kind, Limits};
use foreread_watch::call::{Call, Called, Decided};
use foreread_watch::stream::FileKey;
use serde_json::{Value, json};

use super::fields::{is, number, small, text};

/// What the log says of a call.
pub fn document(call: &Call) -> Value {
    let mut document = match &call.what {
        Called::Access(decided) => of_access(decided),
        Called::Waited {
            file,
            thread,
            waited_ns,
            asked,
        } => json!({
            "what": "waited",
            "file": file_text(file),
            "thread": thread,
            "waited_ns": waited_ns,
            "asked": asked,
        }),
        Called::Issued {
            file,
            thread,
            pages,
            read_pages,
        } => json!({
            "what": "issued",
            "file": file_text(file),
            "thread": thread,
            "pages": pages,
            "read_pages": read_pages,
        }),
        Called::Done(done) => json!({
            "what": "done",
            "pages": done.pages,
            "took_ns": done.took_ns,
            "done": hex(done.bytes()),
        }),
        Called::Turns => json!({"what": "turns"}),
    };
    document["number"] = call.number.into();
    document["disk"] = number_text(call.disk >> 32, call.disk & 0xffff_ffff).into();
    document
}

fn of_access(decided: &Decided) -> Value {
    let Decided {
        access,
        limits,
        decision,
        ..
    } = decided;
    let windows = decision.every_window(limits).map(|w| w.to_string());
    let missed = access.kind == Kind::FaultMiss || access.flags & Access::MISSED != 0;
    json!({
        "what": "access",
        "file": file_text(&decided.file),
        "thread": access.thread,
        "how": match access.kind {
            Kind::ReadLook => "read",
            _ => "fault",
        },
        "page": access.index,
        "pages": access.req_pages,
        "missed": missed,
        "reason": decision.reason.name(),
        "windows": windows.collect::<Vec<_>>(),
        "is_new": decided.is_new,
        "ra_pages": decided.ra_pages,
        "thrashed": decided.has_thrashed,
        "access": hex(access.bytes()),
        "limits": hex(limits.bytes()),
        "decision": hex(decision.bytes()),
    })
}

pub fn file_text(file: &FileKey) -> String {
    let device = number_text(file.device.major.into(), file.device.minor.into());
    format!("{device}:{}:{}", file.inode, file.generation)
}

fn number_text(major: u64, minor: u64) -> String {
    format!("{major}:{minor}")
}

/// The call of a line; `None` where it is about something else.
///
/// # Errors
/// It says less than a call needs, or what can't be.
pub fn parse(line: &Value) -> Result<Option<Call>> {
    let what = text(line, "what")?;
    let what = match what {
        "access" => Called::Access(Box::new(Decided {
            file: file(line)?,
            is_new: is(line, "is_new")?,
            ra_pages: small(line, "ra_pages")?,
            has_thrashed: is(line, "thrashed")?,
            access: bytes(line, "access", Access::from_bytes)?,
            limits: bytes(line, "limits", Limits::from_bytes)?,
            decision: bytes(line, "decision", Decision::from_bytes)?,
        })),
        "waited" => Called::Waited {
            file: file(line)?,
            thread: small(line, "thread")?,
            waited_ns: number(line, "waited_ns")?,
            asked: is(line, "asked")?,
        },
        "issued" => Called::Issued {
            file: file(line)?,
            thread: small(line, "thread")?,
            pages: number(line, "pages")?,
            read_pages: number(line, "read_pages")?,
        },
        "done" => Called::Done(bytes(line, "done", Done::from_bytes)?),
        "turns" => Called::Turns,
        _ => return Ok(None),
    };
    let disk = numbers::<2>(text(line, "disk")?).context("\"disk\" is no MAJOR:MINOR")?;
    Ok(Some(Call {
        number: number(line, "number")?,
        process: small(line, "process")?,
        disk: disk[0] << 32 | disk[1],
        what,
    }))
}

pub fn file(line: &Value) -> Result<FileKey> {
    let of = numbers::<4>(text(line, "file")?);
    let of = of.context("\"file\" is no MAJOR:MINOR:INODE:GENERATION")?;
    let [major, minor, inode, generation] = of;
    let (Ok(major), Ok(minor), Ok(generation)) = (
        u32::try_from(major),
        u32::try_from(minor),
        u32::try_from(generation),
    ) else {
        bail!("\"file\" is no MAJOR:MINOR:INODE:GENERATION");
    };
    Ok(FileKey {
        inode,
        device: Device { major, minor },
        generation,
    })
}

/// Numbers with colons between them; of a pair, each has 32 bits.
fn numbers<const COUNT: usize>(text: &str) -> Option<[u64; COUNT]> {
    let numbers: Option<Vec<u64>> = text.split(':').map(|part| part.parse().ok()).collect();
    let numbers: [u64; COUNT] = numbers?.try_into().ok()?;
    (COUNT != 2 || numbers.iter().all(|number| *number <= u32::MAX.into())).then_some(numbers)
}

fn bytes<T>(line: &Value, name: &str, from: impl Fn(&[u8]) -> Option<T>) -> Result<T> {
    let bytes = unhex(text(line, name)?);
    let value = bytes.and_then(|bytes| from(&bytes));
    value.with_context(|| format!("\"{name}\" are not the bytes of one"))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_watch::call::Remembered;

    fn file() -> FileKey {
        FileKey {
            inode: u64::MAX,
            device: Device { major: 7, minor: 1 },
            generation: 3,
        }
    }

    fn calls() -> Vec<Call> {
        let limits = Limits::new(1 << 16, 32);
        let mut decided = Decided {
            file: file(),
            is_new: true,
            ra_pages: 32,
            has_thrashed: false,
            access: Access::read_look(0, 4),
            limits,
            decision: Decision::from_bytes(&[0; 96]).unwrap(),
        };
        let call = |what| Call {
            number: 5,
            process: 9,
            disk: 7 << 32 | 1,
            what,
        };
        let access = call(Called::Access(Box::new(decided.clone())));
        decided.decision = Remembered::new().make(&access).unwrap();
        vec![
            call(Called::Access(Box::new(decided))),
            call(Called::Waited {
                file: file(),
                thread: 3,
                waited_ns: 77,
                asked: true,
            }),
            call(Called::Issued {
                file: file(),
                thread: 3,
                pages: 8,
                read_pages: 4,
            }),
            call(Called::Done(Done::new(9, 8, 7).first(true))),
            call(Called::Turns),
        ]
    }

    fn line(call: &Call) -> Value {
        let mut line = document(call);
        line["process"] = call.process.into();
        line
    }

    #[test]
    fn lines_are_calls_again() {
        for call in calls() {
            assert_eq!(parse(&line(&call)).unwrap(), Some(call));
        }
        assert!(parse(&json!({"what": "begun"})).unwrap().is_none());
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for call in calls() {
            let whole = line(&call);
            for name in whole.as_object().unwrap().keys() {
                let unread = ["how", "page", "missed", "reason", "windows", "took_ns"];
                let is_read = !unread.contains(&name.as_str())
                    && (name != "thread" || call.what == calls()[1].what)
                    && (name != "pages" || whole["what"] == "issued");
                let mut lacking = whole.clone();
                lacking.as_object_mut().unwrap().remove(name);
                match parse(&lacking) {
                    Ok(_) => assert!(!is_read || name == "thread", "{name} of {whole}"),
                    Err(error) => assert!(error.to_string().contains(name), "{error}: {name}"),
                }
            }
        }
        for wrong in ["", "zz", "0", "00"] {
            let mut line = line(&calls()[3]);
            line["done"] = wrong.into();
            assert!(parse(&line).unwrap_err().to_string().contains("done"));
        }
    }
}
