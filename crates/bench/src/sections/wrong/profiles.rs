// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong profiles: what a program reads, and files that it doesn't read, go in; profiles that would
//! cost it time come out.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foreread_profile::{Identity, NodeId, NodeKind, PAGE_BYTES, Profile, ProfileBuilder, Uses};

/// The files that wrong profiles are made of.
pub struct Files {
    /// The recorded profile of the program that is measured.
    pub own: Profile,
    /// The recorded profile of a program that reads a larger tree.
    pub other: Profile,
    /// A file that nobody reads, and its size.
    pub huge: PathBuf,
    pub huge_bytes: u64,
}

/// The names of all kinds.
pub const KINDS: [&str; 17] = [
    "of another program",
    "its second half only",
    "its files, without their pages",
    "its directories only",
    "its files, replaced since",
    "its files, gone",
    "its pages, behind the ends of the files",
    "the program's own, of an older tree",
    "the program's own, ten times the size",
    "the same, the rest first",
    "the program's own beginning, then another",
    "the program's own, backwards",
    "a huge file",
    "a huge file, backwards",
    "a huge file, page by page, at random",
    "a huge file, each page by itself",
    "all of these together",
];

/// The profile of a kind.
pub fn of(kind: &str, files: &Files) -> Profile {
    let Files { own, other, .. } = files;
    let mut made = Made::new(own);
    match kind {
        "of another program" => made.take(other, |_| true, |need| need),
        "its second half only" => {
            let half = other.nodes.len() / 2;
            made.take(other, |at| at >= half, |need| need);
        }
        "its files, without their pages" => made.take_names(other, |_| true),
        "its directories only" => made.take_names(other, |kind| kind == NodeKind::Directory),
        "its files, replaced since" => {
            made.inode_shift = 100_000;
            made.take(other, |_| true, |need| need);
        }
        "its files, gone" => {
            made.suffix = b".gone";
            made.take(other, |_| true, |need| need);
        }
        "its pages, behind the ends of the files" => {
            made.page_shift = 1 << 20;
            made.take(other, |_| true, |need| need);
        }
        "the program's own, of an older tree" => {
            made.take(own, |at| at % 2 == 0, |need| need);
            made.suffix = b".old";
            made.take(own, |at| at % 2 == 1, |need| need);
        }
        "the program's own, ten times the size" => {
            made.take(own, |_| true, |need| need);
            made.take(other, |_| true, |need| need / 8);
        }
        "the same, the rest first" => {
            made.take(other, |_| true, |need| need / 1000);
            made.take(own, |_| true, |need| need + (1 << 40));
        }
        "the program's own beginning, then another" => {
            let end = own.nodes.len() / 8;
            made.take(own, |at| at < end, |need| need);
            made.take(other, |_| true, |need| need + (1 << 36));
        }
        "the program's own, backwards" => made.take(own, |_| true, |need| (1 << 40) - need),
        "a huge file" => made.huge(files, |_| 0, 1),
        "a huge file, backwards" => made.huge(files, |page| (1 << 24) - page / 64, 1),
        "a huge file, page by page, at random" => made.huge(files, scattered, 37),
        "a huge file, each page by itself" => made.huge(files, |page| page, 2),
        _ => {
            made.take(other, |_| true, |need| need);
            made.huge(files, scattered, 5);
            made.suffix = b".gone";
            made.take(other, |_| true, |need| need);
        }
    }
    made.finish(own)
}

/// An order without neighbours.
fn scattered(page: u64) -> u64 {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

struct Made {
    builder: ProfileBuilder,
    suffix: &'static [u8],
    inode_shift: u64,
    page_shift: u64,
}

impl Made {
    fn new(own: &Profile) -> Self {
        Self {
            builder: ProfileBuilder::new(own.program.clone(), own.source.clone()),
            suffix: b"",
            inode_shift: 0,
            page_shift: 0,
        }
    }

    fn node(&mut self, from: &Profile, id: NodeId) -> Option<NodeId> {
        let node = from.node(id)?;
        let mut path = from.path(id);
        if node.kind == NodeKind::File {
            path.extend_from_slice(self.suffix);
        }
        let to = self.builder.node(&path).ok()?;
        self.builder.set_kind(to, node.kind);
        let mut identity = node.identity;
        identity.inode += self.inode_shift;
        self.builder.set_identity(to, identity);
        self.builder.used(to, node.uses, node.need_ns);
        Some(to)
    }

    /// Nodes of a profile with their pages, by their number, with other needs.
    fn take(
        &mut self,
        from: &Profile,
        is_taken: impl Fn(usize) -> bool,
        need: impl Fn(u64) -> u64,
    ) {
        for (id, _) in from.iter().filter(|(id, _)| is_taken(id.0 as usize)) {
            let Some(to) = self.node(from, id) else {
                continue;
            };
            for range in from.ranges(id) {
                let start_page = range.start_page + self.page_shift;
                let need_ns = need(range.need_ns);
                self.builder.pages(to, start_page, range.pages, need_ns);
            }
        }
    }

    fn take_names(&mut self, from: &Profile, is_taken: impl Fn(NodeKind) -> bool) {
        for (id, _) in from.iter().filter(|(_, node)| is_taken(node.kind)) {
            self.node(from, id);
        }
    }

    /// Pages of the huge file, one in `step`, needed one after another as `order` says.
    fn huge(&mut self, files: &Files, order: impl Fn(u64) -> u64, step: usize) {
        let Ok(id) = self.builder.node(files.huge.as_os_str().as_bytes()) else {
            return;
        };
        let identity = identity(&files.huge);
        self.builder.set_identity(id, identity);
        self.builder.used(id, Uses::READ, 0);
        for page in (0..files.huge_bytes / PAGE_BYTES).step_by(step) {
            // Far apart, so that they stay apart.
            self.builder.pages(id, page, 1, order(page) << 22);
        }
    }

    fn finish(self, own: &Profile) -> Profile {
        let mut profile = self.builder.finish();
        // Cold runs that give no reason not to replay.
        profile.runs.clone_from(&own.runs);
        profile
    }
}

fn identity(path: &Path) -> Identity {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = std::fs::metadata(path) else {
        return Identity::default();
    };
    Identity {
        inode: metadata.ino(),
        size_bytes: metadata.size(),
        ..Identity::default()
    }
}

#[cfg(test)]
mod tests {
    use foreread_profile::{Program, Source};

    use super::*;

    fn profile(top: &str, files: u64) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for file in 0..files {
            let id = builder.node(format!("{top}/{file}").as_bytes()).unwrap();
            let identity = Identity {
                inode: file + 10,
                size_bytes: 8192,
                ..Identity::default()
            };
            builder.set_identity(id, identity);
            builder.pages(id, 0, 2, file << 20);
        }
        builder.finish()
    }

    #[test]
    fn each_kind_is_a_valid_profile_and_unlike_all_others() {
        let files = Files {
            own: profile("/own", 40),
            other: profile("/other", 400),
            huge: PathBuf::from("/huge"),
            huge_bytes: 1 << 20,
        };
        let made: Vec<Profile> = KINDS.iter().map(|kind| of(kind, &files)).collect();
        for (at, profile) in made.iter().enumerate() {
            assert_eq!(profile.validate(), Ok(()), "{}", KINDS[at]);
            assert!(!made[..at].contains(profile), "{}", KINDS[at]);
            // One kind has the same files, in another order of need.
            assert_ne!(*profile, files.own, "{}", KINDS[at]);
        }
    }
}
