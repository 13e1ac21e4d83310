// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the demo's files on the modelled disk: a real tree of this machine, and the programs'.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use foreread_measure::MeasureError;
use foreread_measure::disk::ModelledDisk;
use foreread_measure::programs::{self, Program};
use foreread_testbed::workload;

use crate::progress::Progress;

/// Where the tree is on the disk, and the repository around it.
const TREE: &str = "tree";
const REPOSITORY: &str = "repository";

/// Contents of the disk.
pub struct Filled {
    pub tree: Tree,
    pub programs: Vec<Program>,
    /// Parts that were left out or done otherwise, a sentence each.
    pub notes: Vec<String>,
}

/// The tree that grep and git read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub files: u64,
    pub bytes: u64,
    /// The directories of this machine that its files come from, with their numbers, most first.
    /// Empty when the files are made up.
    pub sources: Vec<(PathBuf, u64)>,
}

/// Steps that [`fill`] reports for so many programs.
pub fn steps(programs: usize) -> u64 {
    1 + programs as u64
}

/// Fills the disk with a tree of `files` files and with these programs.
pub fn fill(
    disk: &mut ModelledDisk,
    files: u64,
    names: &[String],
    progress: &Progress,
) -> Result<Filled, MeasureError> {
    let mut notes = Vec::new();
    let (tree, found) = disk.fill(|root| {
        progress.step("copying files of this machine to the modelled disk");
        let tree = tree(&root.join(TREE), files, &mut notes)?;
        let mut programs = Vec::new();
        for name in names {
            progress.step(&format!("putting {name} on the modelled disk"));
            match program(name, root, &tree) {
                Ok((program, note)) => {
                    programs.push(program);
                    notes.extend(note);
                }
                Err(error) if error.lacking().is_some() => {
                    notes.push(format!("{name} is left out: {error}."));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((tree, programs))
    })?;
    Ok(Filled {
        tree,
        programs: found,
        notes,
    })
}

fn tree(directory: &Path, files: u64, notes: &mut Vec<String>) -> Result<Tree, MeasureError> {
    let wanted = usize::try_from(files).unwrap_or(usize::MAX);
    let real = workload::real_tree(directory, wanted)?;
    if real.files == wanted {
        return Ok(Tree {
            files,
            bytes: real.bytes,
            sources: sources(directory),
        });
    }
    notes.push(format!(
        "This machine has only {} suitable files, so the files are made up.",
        real.files
    ));
    fs::remove_dir_all(directory).map_err(MeasureError::system("clear the modelled disk"))?;
    programs::made_up_tree(directory, wanted)?;
    Ok(Tree {
        files,
        bytes: files_below(directory).1,
        sources: Vec::new(),
    })
}

/// Where the files of a copied tree come from: it holds them under their own paths.
fn sources(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = BTreeMap::new();
    for top in directories(directory) {
        let inner = directories(&top);
        let parts = if top.ends_with("usr") {
            inner
        } else {
            vec![top]
        };
        for part in parts {
            let source = Path::new("/").join(part.strip_prefix(directory).unwrap_or(&part));
            found.insert(source, files_below(&part).0);
        }
    }
    let mut sources: Vec<(PathBuf, u64)> = found.into_iter().collect();
    sources.sort_by_key(|source| std::cmp::Reverse(source.1));
    sources
}

fn directories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_dir()).collect()
}

/// The number of files below a directory, and their bytes.
fn files_below(directory: &Path) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                let below = files_below(&entry.path());
                files += below.0;
                bytes += below.1;
            }
            Ok(metadata) => {
                files += 1;
                bytes += metadata.len();
            }
            Err(_) => {}
        }
    }
    (files, bytes)
}

/// A program over the tree, with a note if it isn't as asked for.
fn program(
    name: &str,
    root: &Path,
    tree: &Tree,
) -> Result<(Program, Option<String>), MeasureError> {
    match name {
        "grep" => Ok((Program::grep(TREE, tree.files)?, None)),
        "python" => Ok((Program::python(root, "python")?, None)),
        "git" => git(root, tree),
        other => Err(MeasureError::NoSuchProgram(other.to_owned())),
    }
}

/// A repository of the tree itself; of made-up files where git stumbles over what is in the tree.
fn git(root: &Path, tree: &Tree) -> Result<(Program, Option<String>), MeasureError> {
    let repository = root.join(REPOSITORY);
    let Err(error) = programs::repository_of(&root.join(TREE), &repository) else {
        return Ok((Program::git(TREE, tree.files)?, None));
    };
    if error.lacking().is_some() {
        return Err(error);
    }
    // The repository may be half there, and so may the file that points to it.
    let _ = fs::remove_file(root.join(TREE).join(".git"));
    let _ = fs::remove_dir_all(&repository);
    let files = usize::try_from(tree.files).unwrap_or(usize::MAX);
    programs::made_up_repository(&repository, files)?;
    let note = format!("git runs in a repository of made-up files: {error}.");
    Ok((Program::git(REPOSITORY, tree.files)?, Some(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_by_where_they_come_from() {
        let scratch = tempfile::tempdir().unwrap();
        for path in ["usr/share/doc/a", "usr/share/b", "usr/include/c", "etc/d/e"] {
            let path = scratch.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "12345").unwrap();
        }
        let mut sources = sources(scratch.path());
        assert_eq!(sources.remove(0), (PathBuf::from("/usr/share"), 2));
        sources.sort();
        assert_eq!(sources, [("/etc".into(), 1), ("/usr/include".into(), 1)]);
        assert_eq!(files_below(scratch.path()), (4, 20));
    }

    #[test]
    fn what_git_stumbles_over_is_replaced_by_made_up_files() {
        if foreread_measure::host::executable("git").is_none() {
            println!("skipped: git is not installed");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let tree = Tree {
            files: 40,
            ..Tree::default()
        };
        // There is no tree to make a repository of.
        let (program, note) = git(scratch.path(), &tree).unwrap();
        assert_eq!(program.name(), "git");
        assert!(note.unwrap().contains("made-up"), "no note");
        assert!(scratch.path().join(REPOSITORY).join(".git").is_dir());
    }
}
