// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streams that are followed now, as lines that a running `watch` sends on request. They are
//! not in the log.

use foreread_core::policy::{Course, Stream};
use serde::{Deserialize, Serialize};

use super::text;
use crate::stream::FileKey;

/// A line about streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what")]
pub enum Told {
    /// The streams of a file.
    #[serde(rename = "followed")]
    File(FollowedFile),
    /// The reason why there are no streams to report.
    #[serde(rename = "streams_unknown")]
    Unknown {
        /// The reason in a few words.
        why: String,
    },
}

impl Told {
    /// Values of `what` in these lines.
    pub const WHATS: [&'static str; 2] = ["followed", "streams_unknown"];
}

/// A file whose streams are followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedFile {
    /// Its key.
    #[serde(with = "text::file")]
    pub file: FileKey,
    /// Its path in our mount namespace; `None` if it can't be reached there.
    #[serde(with = "text::bytes_or_none", default)]
    pub path: Option<Vec<u8>>,
    /// Accesses to it that the policy was told of; wraps after 2^32.
    pub accesses: u32,
    /// Its streams; may be empty.
    pub streams: Vec<FollowedStream>,
}

/// A stream that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedStream {
    /// Its state.
    #[serde(flatten, with = "StreamLine")]
    pub stream: Stream,
    /// The process of the thread that began it; `None` if that thread has ended or isn't visible in
    /// our `/proc`.
    pub process: Option<u32>,
    /// Time since it was last read; `None` if unknown.
    pub idle_ns: Option<u64>,
}

/// A [`Stream`] as a line of the log.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Stream")]
struct StreamLine {
    thread: u32,
    #[serde(with = "CourseLine")]
    course: Course,
    step_pages: u64,
    page: u64,
    ahead_pages: u64,
    distance_pages: u32,
    window_pages: u32,
    ceiling_pages: u32,
    run_pages: u32,
    quiet_pages: u32,
    used_ns: Option<u64>,
}

/// A [`Course`] by its name.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Course", rename_all = "kebab-case")]
enum CourseLine {
    Up,
    Down,
    StepUp,
    StepDown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::parsed;
    use foreread_core::Device;
    use serde_json::{Value, json};

    fn followed(course: Course) -> FollowedFile {
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
                    course,
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
        let mut all: Vec<Told> = Course::ALL
            .map(|course| Told::File(followed(course)))
            .into();
        all.push(Told::File(FollowedFile {
            path: None,
            streams: Vec::new(),
            ..followed(Course::Up)
        }));
        all.push(Told::Unknown {
            why: "so".to_owned(),
        });
        for told in all {
            let line = serde_json::to_value(&told).unwrap();
            assert!(
                Told::WHATS.iter().any(|what| line["what"] == *what),
                "{line}"
            );
            assert_eq!(Told::deserialize(&line).unwrap(), told);
            if let Told::File(file) = &told {
                let names = file.streams.iter().map(|one| one.stream.course.name());
                let courses = line["streams"].as_array().unwrap().iter();
                let courses = courses.map(|stream| stream["course"].as_str().unwrap());
                assert!(names.eq(courses), "{line}");
            }
        }
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let whole = serde_json::to_value(Told::File(followed(Course::StepDown))).unwrap();
        for name in ["what", "file", "accesses", "streams"] {
            let mut wrong = whole.clone();
            wrong[name] = Value::Null;
            let error = parsed::<Told>(&wrong).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        for name in whole["streams"][0].as_object().unwrap().keys() {
            let mut wrong = whole.clone();
            wrong["streams"][0][name] = json!("sideways");
            assert!(Told::deserialize(&wrong).is_err(), "{name}");
        }
    }
}
