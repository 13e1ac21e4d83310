// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the detectors of walks, as lines of the log of `watch` have them.

use anyhow::{Context, Result, bail};
use foreread_core::Device;
use foreread_watch::detect::{Missed, Passed, Suspicion};
use foreread_watch::detect_call::{DetectCall, DetectCalled};
use foreread_watch::look::Look;
use serde_json::{Value, json};

use super::fields::{all_escaped, escaped, is, number, path, path_or_none, paths, small, text};

const DETECTOR: &str = "detector";

/// What the log says of a call of a detector.
pub fn document(call: &DetectCall) -> Value {
    let mut document = match &call.what {
        DetectCalled::Missed { file, suspicion } => json!({
            "call": "missed",
            "thread": file.thread,
            "parent": file.parent,
            "device": file.device.to_string(),
            "inode": file.inode,
            "directory": escaped(&file.directory),
            "name": escaped(&file.name),
            "suspicion": suspicion.as_ref().map(of_suspicion),
        }),
        DetectCalled::Waited { look, suspicion } => json!({
            "call": "waited",
            "thread": look.thread,
            "parent": look.parent,
            "device": look.device.to_string(),
            "directory": escaped(&look.directory),
            "name": escaped(&look.name),
            "start": look.start.as_ref().map(|start| escaped(start)),
            "suspicion": suspicion.as_ref().map(of_suspicion),
        }),
        DetectCalled::WasWrong { reads } => json!({ "call": "was_wrong", "reads": reads }),
        DetectCalled::TooEarly => json!({ "call": "too_early" }),
        DetectCalled::Ended => json!({ "call": "ended" }),
    };
    document["what"] = DETECTOR.into();
    document["number"] = call.number.into();
    document
}

/// Whose it is, and where, is in the call.
fn of_suspicion(suspicion: &Suspicion) -> Value {
    let passed = suspicion.passed.iter().map(|passed| {
        json!({
            "directory": escaped(&passed.directory),
            "children": all_escaped(&passed.children),
        })
    });
    json!({
        "directory": escaped(&suspicion.directory),
        "passed": passed.collect::<Vec<_>>(),
        "start": suspicion.start.as_ref().map(|start| escaped(start)),
        "threads": suspicion.threads,
    })
}

/// The call of a detector that a line has; `None` where it is about something else.
///
/// # Errors
/// It says less than a call needs, or what can't be.
pub fn parse(line: &Value) -> Result<Option<DetectCall>> {
    if text(line, "what")? != DETECTOR {
        return Ok(None);
    }
    let process = small(line, "process")?;
    let what = match text(line, "call")? {
        "missed" => missed(line, process)?,
        "waited" => waited(line, process)?,
        "was_wrong" => DetectCalled::WasWrong {
            reads: is(line, "reads")?,
        },
        "too_early" => DetectCalled::TooEarly,
        "ended" => DetectCalled::Ended,
        other => bail!("a detector has no call \"{other}\""),
    };
    Ok(Some(DetectCall {
        number: number(line, "number")?,
        process,
        what,
    }))
}

fn missed(line: &Value, process: u32) -> Result<DetectCalled> {
    let file = Missed {
        process,
        thread: small(line, "thread")?,
        parent: small(line, "parent")?,
        device: device(line)?,
        inode: number(line, "inode")?,
        directory: path(line, "directory")?,
        name: path(line, "name")?,
    };
    let suspicion = match &line["suspicion"] {
        Value::Null => None,
        of => Some(suspicion(of, process, file.parent, file.device, true)?),
    };
    Ok(DetectCalled::Missed { file, suspicion })
}

fn waited(line: &Value, process: u32) -> Result<DetectCalled> {
    let look = Look {
        process,
        thread: small(line, "thread")?,
        parent: small(line, "parent")?,
        device: device(line)?,
        directory: path(line, "directory")?,
        name: path(line, "name")?,
        start: path_or_none(line, "start")?,
    };
    let suspicion = match &line["suspicion"] {
        Value::Null => None,
        of => Some(suspicion(of, process, look.parent, look.device, false)?),
    };
    Ok(DetectCalled::Waited { look, suspicion })
}

fn suspicion(
    of: &Value,
    process: u32,
    parent: u32,
    device: Device,
    reads: bool,
) -> Result<Suspicion> {
    let passed = of["passed"].as_array();
    let passed = passed.context("the \"suspicion\" has no \"passed\", or that is no list")?;
    let one = |passed: &Value| -> Result<Passed> {
        Ok(Passed {
            directory: path(passed, "directory")?,
            children: paths(passed, "children")?,
        })
    };
    Ok(Suspicion {
        process,
        parent,
        device,
        directory: path(of, "directory").context("of the \"suspicion\"")?,
        passed: passed.iter().map(one).collect::<Result<_>>()?,
        start: path_or_none(of, "start")?,
        threads: small(of, "threads")? as usize,
        reads,
    })
}

fn device(line: &Value) -> Result<Device> {
    let numbers = text(line, "device")?.split_once(':');
    let device = numbers.and_then(|(major, minor)| {
        Some(Device {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    });
    device.context("\"device\" is no MAJOR:MINOR")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_path() -> impl Strategy<Value = Vec<u8>> + Clone {
        prop::collection::vec(any::<u8>(), 0..12)
    }

    fn any_device() -> impl Strategy<Value = Device> + Clone {
        (any::<u32>(), any::<u32>()).prop_map(|(major, minor)| Device { major, minor })
    }

    fn any_suspicion(of: &(u32, u32), device: Device, reads: bool) -> BoxedStrategy<Suspicion> {
        let (process, parent) = *of;
        let passed = (any_path(), prop::collection::vec(any_path(), 0..4));
        let passed = passed.prop_map(|(directory, children)| Passed {
            directory,
            children,
        });
        let passed = prop::collection::vec(passed, 0..3);
        (any_path(), passed, prop::option::of(any_path()), 0usize..99)
            .prop_map(move |(directory, passed, start, threads)| Suspicion {
                process,
                parent,
                device,
                directory,
                passed,
                start,
                threads,
                reads,
            })
            .boxed()
    }

    fn any_called(process: u32) -> impl Strategy<Value = DetectCalled> {
        let who = (any::<u32>(), any::<u32>(), any_device());
        let what = (
            any::<u64>(),
            any_path(),
            any_path(),
            prop::option::of(any_path()),
        );
        let missed = (who.clone(), what.clone()).prop_flat_map(
            move |((thread, parent, device), (inode, directory, name, _))| {
                let file = Missed {
                    process,
                    thread,
                    parent,
                    device,
                    inode,
                    directory,
                    name,
                };
                let suspicion = any_suspicion(&(process, parent), device, true);
                prop::option::of(suspicion).prop_map(move |suspicion| DetectCalled::Missed {
                    file: file.clone(),
                    suspicion,
                })
            },
        );
        let waited = (who, what).prop_flat_map(
            move |((thread, parent, device), (_, directory, name, start))| {
                let look = Look {
                    process,
                    thread,
                    parent,
                    device,
                    directory,
                    name,
                    start,
                };
                let suspicion = any_suspicion(&(process, parent), device, false);
                prop::option::of(suspicion).prop_map(move |suspicion| DetectCalled::Waited {
                    look: look.clone(),
                    suspicion,
                })
            },
        );
        let was_wrong = any::<bool>().prop_map(|reads| DetectCalled::WasWrong { reads });
        let others = prop_oneof![Just(DetectCalled::TooEarly), Just(DetectCalled::Ended)];
        prop_oneof![missed, waited, was_wrong, others]
    }

    fn any_call() -> impl Strategy<Value = DetectCall> {
        (any::<u64>(), any::<u32>()).prop_flat_map(|(number, process)| {
            any_called(process).prop_map(move |what| DetectCall {
                number,
                process,
                what,
            })
        })
    }

    proptest! {
        #[test]
        fn lines_are_calls_again(call in any_call()) {
            let mut line = document(&call);
            line["process"] = call.process.into();
            // As it is when it has been a line.
            let line = serde_json::from_str(&line.to_string()).unwrap();
            prop_assert_eq!(parse(&line).unwrap(), Some(call));
        }

        #[test]
        fn what_is_wrong_with_a_line_is_said(
            call in any_call(), at in any::<prop::sample::Index>(), wrong in 0usize..4
        ) {
            let mut line = document(&call);
            line["process"] = call.process.into();
            let names: Vec<String> = line.as_object().unwrap().keys().cloned().collect();
            let name = at.get(&names).as_str();
            // Nothing is what there may be.
            prop_assume!(!["start", "suspicion"].contains(&name) || wrong > 0);
            line[name] = [Value::Null, json!([[]]), json!("%"), json!(-1)][wrong].clone();
            match parse(&line) {
                Ok(parsed) => prop_assert_eq!((name, parsed), ("what", None)),
                Err(error) => prop_assert!(format!("{error:#}").contains(name), "{error:#}"),
            }
        }
    }
}
