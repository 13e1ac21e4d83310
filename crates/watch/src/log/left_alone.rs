// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems that are left alone because they do not answer, as lines that a running `watch`
//! sends on request. They are not in the log.

use serde::{Deserialize, Serialize};

use super::text;

/// A file system that is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename = "left_alone")]
pub struct LeftAlone {
    /// Where it is mounted.
    #[serde(with = "text::bytes")]
    pub mount_point: Vec<u8>,
    /// Its type.
    #[serde(with = "text::bytes")]
    pub fs_type: Vec<u8>,
    /// Time for which it is still left alone.
    pub still_ns: u64,
    /// Helper processes that hang in it.
    pub stuck_helpers: u64,
}

impl LeftAlone {
    /// The value of `what` in these lines.
    pub const WHAT: &'static str = "left_alone";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::parsed;
    use serde_json::{Value, json};

    #[test]
    fn a_line_has_what_was_told() {
        let left = LeftAlone {
            mount_point: b"/mnt/\xff".to_vec(),
            fs_type: b"nfs4".to_vec(),
            still_ns: 5,
            stuck_helpers: 1,
        };
        let line: Value = serde_json::to_value(&left).unwrap();
        assert_eq!(line["what"], json!(LeftAlone::WHAT));
        assert_eq!(parsed::<LeftAlone>(&line).unwrap(), left);
    }
}
