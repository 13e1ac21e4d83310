// SPDX-License-Identifier: MIT OR Apache-2.0
//! One pass over a file system: which part of which file goes from where to where.
//!
//! In: a plan, and the files as they lie. Out: steps of bytes that lie together, in the order of
//! their new places, and their stored form. It is written before the first step. From it and the
//! present places of the files follows how far the pass has come ([`Step::progress`]), also after a
//! power cut: so it needs no further entry, and the way back is the same with both places swapped.

use foreread_profile::NodeId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::file::{FileOnDisk, Run};
use crate::plan::Plan;

/// Name and version of the stored form.
const SCHEMA: &str = "foreread.layout.pass/1";

/// A file of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassFile {
    /// Its inode number.
    pub inode: u64,
    /// The generation of its inode: tells it from a later file with the same number.
    pub generation: u32,
    /// Its path when the pass was planned, in a form to print.
    pub path: String,
}

/// Bytes of a file that lie together, and where they go. All numbers are whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Index of the file.
    pub file: usize,
    /// Where they start in the file.
    pub offset_bytes: u64,
    /// How many they are.
    pub length_bytes: u64,
    /// Where they lie on the device before.
    pub from_bytes: u64,
    /// Where they go.
    pub to_bytes: u64,
}

/// How far a step has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Parts that still lie where they were, with their new place.
    pub to_do: Vec<Step>,
    /// Bytes that lie where they should.
    pub there_bytes: u64,
    /// Bytes that lie elsewhere, or are gone: somebody else has changed the file since.
    pub elsewhere_bytes: u64,
}

impl Step {
    /// The way back.
    #[must_use]
    pub const fn back(self) -> Self {
        Self {
            from_bytes: self.to_bytes,
            to_bytes: self.from_bytes,
            ..self
        }
    }

    /// How far it has come, given the present runs of the file, in order of the file.
    #[must_use]
    pub fn progress(&self, runs: &[Run]) -> Progress {
        let end_bytes = self.offset_bytes.saturating_add(self.length_bytes);
        let mut progress = Progress::default();
        let mut seen_bytes = 0;
        for run in runs {
            let Some(part) = run.part(self.offset_bytes, end_bytes) else {
                continue;
            };
            let at_bytes = part.offset_bytes - self.offset_bytes;
            let is_at = |place: u64| place.checked_add(at_bytes) == Some(part.place_bytes);
            seen_bytes += part.length_bytes;
            if is_at(self.to_bytes) {
                progress.there_bytes += part.length_bytes;
            } else if is_at(self.from_bytes) {
                progress.to_do.push(Self {
                    offset_bytes: part.offset_bytes,
                    length_bytes: part.length_bytes,
                    from_bytes: part.place_bytes,
                    to_bytes: self.to_bytes.saturating_add(at_bytes),
                    ..*self
                });
            } else {
                progress.elsewhere_bytes += part.length_bytes;
            }
        }
        progress.elsewhere_bytes += self.length_bytes.saturating_sub(seen_bytes);
        progress
    }
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    schema: String,
    /// The file system, by its UUID as 32 hexadecimal digits.
    pub uuid: String,
    /// Size of its blocks.
    pub block_bytes: u64,
    /// The profile, in a form to print.
    pub profile: String,
    /// When it was planned, in seconds since 1970.
    pub planned_unix_s: u64,
    /// How fast the device transfers: bounds how much is moved at a time.
    pub bandwidth_bytes_per_s: u64,
    /// Whether all was moved that could be. Otherwise it was stopped, or cut short.
    pub is_finished: bool,
    /// The files.
    pub files: Vec<PassFile>,
    /// What is to be done, in the order of the new places.
    pub steps: Vec<Step>,
}

/// A stored pass that can't be used.
#[derive(Debug, Error)]
pub enum PassError {
    /// It isn't JSON, or lacks a field.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Another version, or something else.
    #[error("it is {found:?}, and {SCHEMA:?} was expected")]
    Schema {
        /// What it says it is.
        found: String,
    },
    /// A number that can't be.
    #[error("step {step} can't be: {why}")]
    Step {
        /// Index of the step.
        step: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Blocks of no size.
    #[error("{block_bytes} is no size of a block")]
    BlockSize {
        /// The size.
        block_bytes: u64,
    },
}

impl Pass {
    /// The steps of a plan for these files.
    #[must_use]
    pub fn of(
        plan: &Plan,
        files: &[FileOnDisk],
        block_bytes: u64,
        mut identify: impl FnMut(NodeId) -> PassFile,
    ) -> Self {
        let mut pass = Self {
            schema: SCHEMA.to_owned(),
            uuid: String::new(),
            block_bytes,
            profile: String::new(),
            planned_unix_s: 0,
            bandwidth_bytes_per_s: 0,
            is_finished: false,
            files: Vec::new(),
            steps: Vec::new(),
        };
        let mut by_node: Vec<(NodeId, &FileOnDisk)> =
            files.iter().map(|file| (file.node, file)).collect();
        by_node.sort_unstable_by_key(|(node, _)| *node);
        let mut index_of = std::collections::HashMap::new();
        for one in &plan.moves {
            let Ok(at) = by_node.binary_search_by_key(&one.node, |(node, _)| *node) else {
                continue;
            };
            let file = *index_of.entry(one.node).or_insert_with(|| {
                pass.files.push(identify(one.node));
                pass.files.len() - 1
            });
            let end_bytes = one.offset_bytes.saturating_add(one.length_bytes);
            let mut to_bytes = one.to_bytes;
            let runs = by_node[at].1.runs.iter();
            for run in runs.filter_map(|run| run.part(one.offset_bytes, end_bytes)) {
                pass.steps.push(Step {
                    file,
                    offset_bytes: run.offset_bytes,
                    length_bytes: run.length_bytes,
                    from_bytes: run.place_bytes,
                    to_bytes,
                });
                to_bytes = to_bytes.saturating_add(run.length_bytes);
            }
        }
        pass.steps.sort_by_key(|step| step.to_bytes);
        pass
    }

    /// The steps that take everything back.
    #[must_use]
    pub fn back(&self) -> Vec<Step> {
        self.steps.iter().map(|step| step.back()).collect()
    }

    /// Bytes of all steps.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.length_bytes).sum()
    }

    /// The stored form.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_json(&self) -> Result<String, PassError> {
        Ok(serde_json::to_string(self)?)
    }

    /// From its stored form. Its numbers are checked: they say what is done to files.
    ///
    /// # Errors
    /// When it isn't what [`Pass::to_json`] gives.
    pub fn from_json(text: &str) -> Result<Self, PassError> {
        #[derive(Deserialize)]
        struct Named {
            schema: String,
        }
        let Named { schema } = serde_json::from_str(text)?;
        if schema != SCHEMA {
            return Err(PassError::Schema { found: schema });
        }
        let pass: Self = serde_json::from_str(text)?;
        let block_bytes = pass.block_bytes;
        if !(1024..=1 << 16).contains(&block_bytes) || !block_bytes.is_power_of_two() {
            return Err(PassError::BlockSize { block_bytes });
        }
        let mut all_bytes = 0_u64;
        for (number, step) in pass.steps.iter().enumerate() {
            let wrong = |why| Err(PassError::Step { step: number, why });
            if step.file >= pass.files.len() {
                return wrong("it has no file");
            }
            if step.length_bytes == 0 {
                return wrong("it is empty");
            }
            let starts = [step.offset_bytes, step.from_bytes, step.to_bytes];
            // Signed in the kernel.
            let has_end = |start: &u64| {
                let end = start.checked_add(step.length_bytes);
                end.is_some_and(|end| i64::try_from(end).is_ok())
            };
            if !starts.iter().all(has_end) {
                return wrong("it has no end");
            }
            let is_whole = |bytes: &u64| bytes.is_multiple_of(block_bytes);
            if !starts.iter().all(is_whole) || !is_whole(&step.length_bytes) {
                return wrong("it is no whole blocks");
            }
            match all_bytes.checked_add(step.length_bytes) {
                Some(bytes) => all_bytes = bytes,
                None => return wrong("with the others, it is more than a disk has"),
            }
        }
        Ok(pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Forecast;
    use crate::plan::{Move, moved};
    use proptest::prelude::*;

    fn run(offset_bytes: u64, place_bytes: u64, length_bytes: u64) -> Run {
        Run {
            offset_bytes,
            place_bytes,
            length_bytes,
        }
    }

    fn file(node: u32, runs: Vec<Run>) -> FileOnDisk {
        FileOnDisk {
            node: NodeId(node),
            size_bytes: runs.last().map_or(0, Run::end_bytes),
            runs,
            wanted: Vec::new(),
            obstacle: None,
        }
    }

    fn identify(node: NodeId) -> PassFile {
        PassFile {
            inode: u64::from(node.0) + 100,
            generation: 7,
            path: format!("/file{}", node.0),
        }
    }

    const K: u64 = 4096;

    /// Two parts of a file with a hole, and one of another that goes before.
    fn two_files() -> (Vec<FileOnDisk>, Plan) {
        let files = vec![
            file(1, vec![run(0, 10 * K, 2 * K), run(4 * K, 90 * K, 3 * K)]),
            file(2, vec![run(0, 50 * K, 8 * K)]),
        ];
        let one = |node, offset, length, bytes, to| Move {
            node: NodeId(node),
            offset_bytes: offset * K,
            length_bytes: length * K,
            bytes: bytes * K,
            to_bytes: to * K,
            need_ns: 0,
            phase: None,
        };
        let plan = Plan {
            moves: vec![one(2, 2, 4, 4, 200), one(1, 0, 7, 5, 204)],
            left: Vec::new(),
            before: Forecast::default(),
            after: Forecast::default(),
        };
        (files, plan)
    }

    #[test]
    fn a_pass_does_what_the_plan_says() {
        let (files, plan) = two_files();
        let pass = Pass::of(&plan, &files, K, identify);
        let step = |file, offset, length, from, to| Step {
            file,
            offset_bytes: offset * K,
            length_bytes: length * K,
            from_bytes: from * K,
            to_bytes: to * K,
        };
        assert_eq!(
            pass.steps,
            [
                step(0, 2, 4, 52, 200),
                step(1, 0, 2, 10, 204),
                step(1, 4, 3, 90, 206)
            ]
        );
        let inodes: Vec<u64> = pass.files.iter().map(|file| file.inode).collect();
        assert_eq!(inodes, [102, 101]);
        assert_eq!(pass.bytes(), 9 * K);
        // Before, all is to do; after, all is there; and the way back is to do.
        let after = moved(&files, &plan.moves);
        for step in &pass.steps {
            let node = NodeId(u32::try_from(pass.files[step.file].inode - 100).unwrap_or(0));
            let runs = |files: &[FileOnDisk]| {
                let file = files.iter().find(|file| file.node == node);
                file.map(|file| file.runs.clone()).unwrap_or_default()
            };
            let before = step.progress(&runs(&files));
            assert_eq!(before.to_do, [*step]);
            let done = step.progress(&runs(&after));
            assert_eq!(
                (done.there_bytes, done.elsewhere_bytes),
                (step.length_bytes, 0)
            );
            assert_eq!(step.back().progress(&runs(&after)).to_do, [step.back()]);
        }
    }

    #[test]
    fn of_a_step_that_was_cut_short_the_rest_is_to_do() {
        let step = Step {
            file: 0,
            offset_bytes: 0,
            length_bytes: 10 * K,
            from_bytes: 100 * K,
            to_bytes: 500 * K,
        };
        // Two blocks have moved, one was given a new place by its writer, and one is a hole now.
        let runs = [
            run(0, 500 * K, 2 * K),
            run(2 * K, 102 * K, 3 * K),
            run(5 * K, 7 * K, K),
            run(7 * K, 107 * K, 9 * K),
        ];
        let progress = step.progress(&runs);
        let to_do: Vec<(u64, u64, u64)> = progress
            .to_do
            .iter()
            .map(|step| {
                (
                    step.offset_bytes / K,
                    step.length_bytes / K,
                    step.to_bytes / K,
                )
            })
            .collect();
        assert_eq!(to_do, [(2, 3, 502), (7, 3, 507)]);
        assert_eq!(progress.there_bytes, 2 * K);
        assert_eq!(progress.elsewhere_bytes, 2 * K);
    }

    #[test]
    fn the_stored_form_is_read_back_and_what_cannot_be_is_refused() {
        let (files, plan) = two_files();
        let mut pass = Pass::of(&plan, &files, K, identify);
        pass.uuid = "00112233445566778899aabbccddeeff".to_owned();
        let text = pass.to_json().unwrap();
        assert_eq!(Pass::from_json(&text).unwrap(), pass);
        let refused = |change: &dyn Fn(&mut Pass)| {
            let mut pass = pass.clone();
            change(&mut pass);
            let read = Pass::from_json(&pass.to_json().unwrap());
            read.expect_err("it is refused").to_string()
        };
        type Change<'c> = &'c dyn Fn(&mut Pass);
        let cases: [(Change<'_>, &str); 7] = [
            (&|pass| pass.schema = "other/1".to_owned(), "was expected"),
            (&|pass| pass.block_bytes = 1000, "no size of a block"),
            (
                &|pass| pass.steps[1].file = 2,
                "step 1 can't be: it has no file",
            ),
            (&|pass| pass.steps[0].length_bytes = 0, "it is empty"),
            (
                &|pass| pass.steps[0].to_bytes = u64::MAX - 4095,
                "it has no end",
            ),
            (&|pass| pass.steps[2].from_bytes += 512, "no whole blocks"),
            (
                &|pass| {
                    let most = Step {
                        file: 0,
                        offset_bytes: 0,
                        length_bytes: i64::MAX as u64 / K * K,
                        from_bytes: 0,
                        to_bytes: 0,
                    };
                    pass.steps = vec![most; 3];
                },
                "more than a disk has",
            ),
        ];
        for (change, why) in cases {
            let said = refused(change);
            assert!(said.contains(why), "{said}");
        }
        for text in ["", "{}", "[]", "{\"schema\":1}", &text[..text.len() / 2]] {
            assert!(Pass::from_json(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_step_is_accounted_for_to_the_byte(
            layout in prop::collection::vec((0u64..3, 1u64..6, 0u64..3), 0..12),
            start in 0u64..20, length in 1u64..30,
        ) {
            let step = Step {
                file: 0,
                offset_bytes: start * K,
                length_bytes: length * K,
                from_bytes: 1000 * K,
                to_bytes: 2000 * K,
            };
            // Runs with holes between them, each where it was, where it goes, or elsewhere.
            let mut at = 0u64;
            let mut runs = Vec::new();
            for (hole, blocks, kind) in layout {
                at += hole;
                let place = (kind * 1000 + 1000 + at).wrapping_sub(start);
                runs.push(run(at * K, place.wrapping_mul(K), blocks * K));
                at += blocks;
            }
            let progress = step.progress(&runs);
            let to_do: u64 = progress.to_do.iter().map(|step| step.length_bytes).sum();
            prop_assert_eq!(
                to_do + progress.there_bytes + progress.elsewhere_bytes,
                step.length_bytes
            );
            for part in &progress.to_do {
                prop_assert_eq!(part.to_bytes - part.from_bytes, 1000 * K);
            }
        }
    }
}
