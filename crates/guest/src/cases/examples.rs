// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of all help texts, of the README and of all pages of `docs/`, by
//! `tests/guest/examples.sh`: each is run with the installed package, in a directory that has what
//! they name and none of the sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foreread_guest::{Disk, GuestError};

use super::{Beside, Case, packaged};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "examples",
    about: "each example of the help texts and pages, run with the installed package",
    beside: Beside::Another,
    run,
};

const SCRIPT: &str = "examples.sh";
/// Files that the examples name, where they are in this repository.
const NAMED: [(&str, &str); 4] = [
    ("tests/scenarios/dd.toml", "dd.toml"),
    ("docs/img/windows.toml", "windows.toml"),
    ("tests/scenarios/sweep-intel-x25m-ssd-80G.toml", "x25m.toml"),
    ("tests/blktrace/plug-stalled.blkparse", "sda.txt"),
];
const DISK_MIB: u32 = 600;
/// The examples of the pages, one a line.
const OF_PAGES: &str = "pages.examples";
/// Most of some 180 examples take seconds in an emulated processor, and endless ones are ended.
const TIME_LIMIT: Duration = Duration::from_secs(2 * 3600);

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    const NAME: &str = "examples of help texts and pages";
    let Some(mut guest) = packaged::guest(context, kernel, SCRIPT)? else {
        return Ok(vec![packaged::skipped(NAME)]);
    };
    for (path, name) in NAMED {
        guest = guest.file(sources().join(path), name);
    }
    let made = Path::new(OF_PAGES);
    let of_pages = tempfile::NamedTempFile::new().map_err(GuestError::at("make", made))?;
    fs::write(of_pages.path(), examples_of_pages()?.join("\n") + "\n")
        .map_err(GuestError::at("write", made))?;
    guest = guest.file(of_pages.path(), OF_PAGES);
    let outcome = guest
        .disk(Disk::blank("data", DISK_MIB))
        .disk(Disk::blank("spare", DISK_MIB))
        .time_limit(TIME_LIMIT)
        .script(format!(
            "modprobe -a fuse loop\n\
             mkdir -p /mnt/data; mkfs.ext4 -q $(disk data); mount $(disk data) /mnt/data\n\
             mkfs.ext4 -q $(disk spare)\n\
             WORK=/mnt/data SPARE=$(disk spare) ./{SCRIPT}"
        ))
        .run()?;
    let said: Vec<&str> = outcome.output.lines().collect();
    let counted = said.last().copied().unwrap_or_default();
    let counted = counted.strip_prefix("examples: ").unwrap_or("none ran");
    Ok(vec![
        Row::asserted(NAME, "all run", counted, outcome.status == 0).detail(said.join("\n")),
    ])
}

/// The folder of the repository.
fn sources() -> PathBuf {
    Path::new(GUEST_SCRIPTS).join("../..")
}

/// The examples of the README and of all pages.
fn examples_of_pages() -> Result<Vec<String>, GuestError> {
    let directory = sources().join("docs");
    let pages = fs::read_dir(&directory).map_err(GuestError::at("list", &directory))?;
    let pages = pages.filter_map(Result::ok).map(|page| page.path());
    let mut pages: Vec<PathBuf> = pages
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.push(sources().join("README.md"));
    pages.sort();
    let mut all = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).map_err(GuestError::at("read", &page))?;
        for example in examples_of(&text) {
            if !all.contains(&example) {
                all.push(example);
            }
        }
    }
    Ok(all)
}

/// The commands of the indented blocks of a page. Where a block is a session, with `$` before each
/// command, its other lines are output. Lines with optional parts in brackets are no examples.
fn examples_of(page: &str) -> Vec<String> {
    let mut examples = Vec::new();
    let mut block: Vec<String> = Vec::new();
    for line in page.lines().chain(["end"]) {
        if let Some(line) = line.strip_prefix("    ") {
            match block.last_mut() {
                Some(last) if last.ends_with('\\') => {
                    last.pop();
                    last.push_str(line.trim_start());
                }
                _ => block.push(line.to_owned()),
            }
        } else if !line.is_empty() {
            let is_session = block.iter().any(|line| line.starts_with("$ "));
            let commands = block.iter().filter_map(|line| match is_session {
                true => line.strip_prefix("$ "),
                false => Some(line.as_str()),
            });
            examples.extend(commands.filter_map(example));
            block.clear();
        }
    }
    examples
}

/// The command of a line, without what is said beside it.
fn example(line: &str) -> Option<String> {
    let bare = line.strip_prefix("sudo ").unwrap_or(line);
    let command = line.split("  ").next()?.split(" #").next()?.trim_end();
    (bare.starts_with("foreread ") && !command.contains('[')).then(|| command.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_output_and_from_what_is_said_beside_them() {
        let page = "# Page\n\n    sudo foreread run -- git status     # records\n    foreread show\n\n\
            Text.\n\n    $ foreread sim a.toml \\\n          --policy linux\n    foreread says\n\n\
            End.\n\n    foreread trace cut IN OUT [--to TIME]\n      foreread indented\n";
        let examples = [
            "sudo foreread run -- git status",
            "foreread show",
            "foreread sim a.toml --policy linux",
        ];
        assert_eq!(examples_of(page), examples);
    }

    #[test]
    fn the_pages_have_examples() {
        let all = examples_of_pages().unwrap();
        assert!(all.len() > 80, "{all:?}");
        assert!(all.iter().any(|one| one == "sudo foreread demo"));
    }
}
