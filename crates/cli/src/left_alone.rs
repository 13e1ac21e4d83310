// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems that are left alone because they did not answer, in words.

use foreread_linux_helper::{LeftAlone, left_alone};

use crate::{output, text};

/// A clause for each of them, as of now; none where all answer.
pub fn clauses() -> Vec<String> {
    left_alone().iter().map(clause).collect()
}

fn clause(left: &LeftAlone) -> String {
    let superblock = &left.superblock;
    let still = match left.still.is_zero() {
        true => String::new(),
        false => {
            let nanoseconds = u64::try_from(left.still.as_nanos()).unwrap_or(u64::MAX);
            format!(", and is left alone for {}", output::time(nanoseconds))
        }
    };
    format!(
        "{} ({}) does not answer{still}",
        text::escaped(&superblock.mount_point),
        text::escaped(&superblock.fs_type),
    )
}

/// Reports the file systems that are left alone when their list changes.
#[derive(Default)]
pub struct News(Vec<Vec<u8>>);

impl News {
    /// The clauses of those that weren't left alone before.
    pub fn take(&mut self) -> Vec<String> {
        let all = left_alone();
        let told = &self.0;
        let new = |left: &&LeftAlone| !told.contains(&left.superblock.mount_point);
        let news = all.iter().filter(new).map(clause).collect();
        let points = all.into_iter().map(|left| left.superblock.mount_point);
        self.0 = points.collect();
        news
    }
}
