// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streams that are followed now, as lines for those who ask: no log has them.

use anyhow::{Context, Result};
use foreread_core::policy::{Course, Stream};
use foreread_linux_watch::{FollowedFile, FollowedStream, NotFollowed};
use serde_json::{Value, json};

use super::calls::{file, file_text};
use super::fields::{escaped, number, path_or_none, small, text, word};

const FOLLOWED: &str = "followed";
const UNKNOWN: &str = "streams_unknown";

/// What a line tells.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// Of a file.
    File(FollowedFile),
    /// Why there is nothing to tell.
    Unknown(String),
}

/// What is told of all that are followed.
pub fn documents(followed: &Result<Vec<FollowedFile>, NotFollowed>) -> Vec<Value> {
    match followed {
        Ok(files) => files.iter().map(document).collect(),
        Err(error) => vec![json!({ "what": UNKNOWN, "why": error.to_string() })],
    }
}

fn document(followed: &FollowedFile) -> Value {
    json!({
        "what": FOLLOWED,
        "file": file_text(&followed.file),
        "path": followed.path.as_deref().map(escaped),
        "accesses": followed.accesses,
        "streams": followed.streams.iter().map(of_stream).collect::<Vec<_>>(),
    })
}

fn of_stream(followed: &FollowedStream) -> Value {
    let stream = &followed.stream;
    json!({
        "thread": stream.thread,
        "process": followed.process,
        "course": stream.course.name(),
        "step_pages": stream.step_pages,
        "page": stream.page,
        "ahead_pages": stream.ahead_pages,
        "distance_pages": stream.distance_pages,
        "window_pages": stream.window_pages,
        "ceiling_pages": stream.ceiling_pages,
        "run_pages": stream.run_pages,
        "quiet_pages": stream.quiet_pages,
        "used_ns": stream.used_ns,
        "idle_ns": followed.idle_ns,
    })
}

/// What a line tells of streams; `None` where it is about something else.
///
/// # Errors
/// It says less than it must, or what can't be.
pub fn parse(line: &Value) -> Result<Option<Told>> {
    Ok(Some(match text(line, "what")? {
        FOLLOWED => {
            let streams = line["streams"].as_array();
            let streams = streams.context("it has no \"streams\", or that is no list")?;
            Told::File(FollowedFile {
                file: file(line)?,
                path: path_or_none(line, "path")?,
                accesses: small(line, "accesses")?,
                streams: streams.iter().map(stream).collect::<Result<_>>()?,
            })
        }
        UNKNOWN => Told::Unknown(text(line, "why")?.to_owned()),
        _ => return Ok(None),
    }))
}

fn stream(line: &Value) -> Result<FollowedStream> {
    let or_none = |name| match &line[name] {
        Value::Null => Ok(None),
        _ => number(line, name).map(Some),
    };
    Ok(FollowedStream {
        process: or_none("process")?.map(u32::try_from).transpose()?,
        idle_ns: or_none("idle_ns")?,
        stream: Stream {
            thread: small(line, "thread")?,
            course: word(line, "course", &Course::ALL, Course::name)?,
            step_pages: number(line, "step_pages")?,
            page: number(line, "page")?,
            ahead_pages: number(line, "ahead_pages")?,
            distance_pages: small(line, "distance_pages")?,
            window_pages: small(line, "window_pages")?,
            ceiling_pages: small(line, "ceiling_pages")?,
            run_pages: small(line, "run_pages")?,
            quiet_pages: small(line, "quiet_pages")?,
            used_ns: or_none("used_ns")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_core::Device;
    use foreread_watch::stream::FileKey;

    fn followed() -> FollowedFile {
        FollowedFile {
            file: FileKey {
                inode: u64::MAX,
                device: Device { major: 7, minor: 1 },
                generation: 3,
            },
            path: Some(b"/to/\xff%".to_vec()),
            accesses: 77,
            streams: vec![FollowedStream {
                stream: Stream {
                    thread: 1,
                    course: Course::StepDown,
                    step_pages: u64::MAX,
                    page: 2,
                    ahead_pages: 3,
                    distance_pages: 4,
                    window_pages: 5,
                    ceiling_pages: 6,
                    run_pages: 7,
                    quiet_pages: 8,
                    used_ns: None,
                },
                process: Some(9),
                idle_ns: Some(10),
            }],
        }
    }

    #[test]
    fn lines_are_files_again() {
        let unreached = FollowedFile {
            path: None,
            streams: Vec::new(),
            ..followed()
        };
        let files = vec![followed(), unreached];
        let lines = documents(&Ok(files.clone()));
        let told = lines.iter().map(|line| parse(line).unwrap().unwrap());
        let expected: Vec<Told> = files.into_iter().map(Told::File).collect();
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let refused = NotFollowed::Refused("so".to_owned());
        let line = &documents(&Err(refused))[0];
        assert_eq!(parse(line).unwrap(), Some(Told::Unknown("so".to_owned())));
        assert_eq!(parse(&json!({"what": "begun"})).unwrap(), None);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let whole = document(&followed());
        for name in ["what", "file", "accesses", "streams"] {
            let mut lacking = whole.clone();
            lacking[name] = Value::Null;
            let error = parse(&lacking).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        for name in whole["streams"][0].as_object().unwrap().keys() {
            let mut wrong = whole.clone();
            wrong["streams"][0][name] = "sideways".into();
            assert!(parse(&wrong).is_err(), "{name}");
        }
    }
}
