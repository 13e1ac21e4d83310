// SPDX-License-Identifier: MIT OR Apache-2.0
//! That BPF was refused, remembered until the next boot, so that not every run tries it in vain.
//!
//! The note holds for one boot, one build of this program, and one set of rights. Anything else
//! makes it void, and so does removing the file. `foreread doctor` always tries afresh.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use foreread_sys::save;
use serde::Serialize;
use serde_json::Value;

use crate::text;

const FILE: &str = "recorder.json";
const SCHEMA: &str = "foreread.recorder/1";

/// The stored form.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Refusal<'a> {
    schema: &'static str,
    /// [`Circumstances`]; compared as a whole, so that a field more or less makes it void.
    circumstances: &'a Value,
    bpf_refused_because: &'a [String],
}

/// All that decides whether the kernel refuses.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Circumstances<'a> {
    /// The identifier of the boot.
    boot: &'a str,
    /// Device, inode and size of this program.
    program: [u64; 3],
    /// Time of its last change: seconds since 1970, and nanoseconds.
    program_changed_ns: [i64; 2],
    user: u32,
    /// The lines of `/proc/self/status` about capabilities and seccomp.
    rights: &'a [&'a str],
}

/// Reasons for which BPF was refused, a line each.
pub type Reasons = Vec<String>;

/// Why BPF was refused in this boot, if it was.
pub fn load(directory: &Path) -> Option<Reasons> {
    let bytes = crate::store::read_bytes(&directory.join(FILE)).ok()?;
    read(&bytes, &circumstances()?)
}

/// Remembers it. A directory that isn't there, or may not be written to, remembers nothing.
pub fn save(directory: &Path, reasons: &[String]) {
    let Some(circumstances) = circumstances() else {
        return;
    };
    let refusal = text::json(&Refusal {
        schema: SCHEMA,
        circumstances: &circumstances,
        bpf_refused_because: reasons,
    });
    // Without it the next run finds out anew.
    let _ = save::replace(&directory.join(FILE), format!("{refusal:#}\n").as_bytes());
}

/// Forgets it.
pub fn forget(directory: &Path) {
    // Mostly there is nothing to forget.
    let _ = fs::remove_file(directory.join(FILE));
}

fn read(bytes: &[u8], circumstances: &Value) -> Option<Reasons> {
    let document: Value = serde_json::from_slice(bytes).ok()?;
    if document["schema"] != SCHEMA || document["circumstances"] != *circumstances {
        return None;
    }
    let reasons = document["bpf_refused_because"].as_array()?;
    let reasons = reasons
        .iter()
        .map(|reason| Some(reason.as_str()?.to_owned()));
    reasons.collect()
}

/// All that decides whether the kernel refuses; `None` when it can't be told.
fn circumstances() -> Option<Value> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let program = fs::metadata("/proc/self/exe").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rights: Vec<&str> = status
        .lines()
        .filter(|line| line.starts_with("CapEff:") || line.starts_with("Seccomp:"))
        .collect();
    Some(text::json(&Circumstances {
        boot: boot.trim(),
        program: [program.dev(), program.ino(), program.size()],
        program_changed_ns: [program.mtime(), program.mtime_nsec()],
        user: rustix::process::geteuid().as_raw(),
        rights: &rights,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_remembered_holds_in_the_same_circumstances_only() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(load(directory.path()), None);
        let reasons = vec!["the kernel refused".to_owned()];
        save(directory.path(), &reasons);
        assert_eq!(load(directory.path()), Some(reasons.clone()));
        let bytes = fs::read(directory.path().join(FILE)).expect("the file");
        let now = circumstances().expect("circumstances");
        assert_eq!(read(&bytes, &now), Some(reasons));
        for part in ["boot", "program", "program_changed_ns", "user", "rights"] {
            let mut other = now.clone();
            other[part] = json!("other");
            assert_eq!(read(&bytes, &other), None, "{part}");
        }
        forget(directory.path());
        assert_eq!(load(directory.path()), None);
    }

    #[test]
    fn damage_is_as_good_as_nothing() {
        let now = circumstances().expect("circumstances");
        let wrong = json!({"schema": SCHEMA, "circumstances": now, "bpf_refused_because": [1]});
        for bytes in [
            &b""[..],
            b"{",
            b"[]",
            b"\xff\x00",
            wrong.to_string().as_bytes(),
        ] {
            assert_eq!(read(bytes, &now), None);
        }
    }
}
