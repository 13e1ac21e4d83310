// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs that are measured, each with its files on the modelled disk.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use foreread_core::grouped;
use foreread_testbed::workload::{self, PythonTree};
use foreread_testbed::{Lacking, Testbed};

use crate::disk::ModelledDisk;
use crate::error::MeasureError;
use crate::foreread::Foreread;
use crate::host::{HostFiles, executable};

/// Real files may hold any word; none holds this, so that `grep -q` reads all of them.
const PATTERN: &str = "no-file-holds-this-5d41402abc";

/// Made-up files are the same in every run.
const SEED: u64 = 2026;

/// Rows of the database, and how many of them are looked up.
const DATABASE_ROWS: u64 = 400_000;
const LOOKUPS: u64 = 400;

/// Size of the file that is mapped.
const MAPPED_BYTES: usize = 64 << 20;

/// Four threads, each through its quarter of a mapped file. Checksums let go of Python's lock, so
/// they really fault at one time.
const MAPPED_SCRIPT: &str = "\
import mmap, sys, threading, zlib
f = open(sys.argv[1], 'rb')
view = memoryview(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ))
each = len(view) // 4
def part(n):
    for at in range(n * each, (n + 1) * each, 65536):
        zlib.crc32(view[at:at + 65536])
threads = [threading.Thread(target=part, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
";

/// A program with its files on a disk.
#[derive(Clone, Debug)]
pub struct Program {
    name: &'static str,
    title: String,
    /// Where it runs, under the root of the disk.
    directory: PathBuf,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Grep,
    Python(PythonTree),
    Git,
    Sqlite,
    Mapped(PathBuf),
}

impl Program {
    /// Puts the program of that name with the files that results are given for on a disk.
    ///
    /// # Errors
    /// No such program, or this machine lacks it, or the files can't be written.
    pub fn install(name: &str, disk: &mut ModelledDisk) -> Result<Self, MeasureError> {
        match name {
            "grep" => {
                disk.fill(|root| made_up_tree(&root.join("tree"), workload::SMALL_FILES))?;
                Self::grep("tree", workload::SMALL_FILES as u64)
            }
            "python" => disk.fill(|root| Self::python(root, "python")),
            "git" => {
                let files = workload::GIT_FILES;
                disk.fill(|root| {
                    lacking_unless_there("git", "git")?;
                    Ok(workload::git_repository(
                        &root.join("repository"),
                        files,
                        SEED,
                    )?)
                })?;
                Self::git("repository", files as u64)
            }
            "sqlite" => {
                lacking_unless_there("sqlite3", "sqlite3")?;
                disk.fill(|root| database(&root.join("database")))?;
                Ok(Self {
                    name: "sqlite",
                    title: format!("sqlite3, {LOOKUPS} rows by index"),
                    directory: PathBuf::new(),
                    kind: Kind::Sqlite,
                })
            }
            "mapped" => {
                let python = system_python()?;
                disk.fill(|root| mapped_file(&root.join("mapped"), MAPPED_BYTES))?;
                Ok(Self {
                    name: "mapped",
                    title: "a mapped file of 64 MiB, 4 threads".to_owned(),
                    directory: PathBuf::new(),
                    kind: Kind::Mapped(python),
                })
            }
            other => Err(MeasureError::NoSuchProgram(other.to_owned())),
        }
    }

    /// `grep -rq` for a text that isn't there, in a directory of the disk.
    ///
    /// # Errors
    /// There is no grep.
    pub fn grep(directory: &str, files: u64) -> Result<Self, MeasureError> {
        lacking_unless_there("grep", "grep")?;
        Ok(Self {
            name: "grep",
            title: format!("grep -rq, {} small files", grouped(files)),
            directory: directory.into(),
            kind: Kind::Grep,
        })
    }

    /// This machine's Python, copied to `directory` of the disk mounted at `root`, importing 60
    /// modules.
    ///
    /// # Errors
    /// There is no Python 3, or it can't be copied.
    pub fn python(root: &Path, directory: &str) -> Result<Self, MeasureError> {
        let tree = workload::python_tree(&root.join(directory))?;
        Ok(Self {
            name: "python",
            title: "python3, 60 imports".to_owned(),
            directory: directory.into(),
            kind: Kind::Python(tree),
        })
    }

    /// `git status` in a directory of the disk.
    ///
    /// # Errors
    /// There is no git.
    pub fn git(directory: &str, files: u64) -> Result<Self, MeasureError> {
        lacking_unless_there("git", "git")?;
        Ok(Self {
            name: "git",
            title: format!("git status, {} files", grouped(files)),
            directory: directory.into(),
            kind: Kind::Git,
        })
    }

    /// One of [`ALL_PROGRAM_NAMES`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its work, in a few words.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The command line, with the words that go before it (`foreread run ... --`), or none.
    pub fn command(&self, disk: &ModelledDisk, before: &[OsString]) -> Command {
        self.command_in(disk.testbed(), &disk.root().join(&self.directory), before)
    }

    /// The command under `foreread run`, which reports.
    pub fn under(&self, foreread: &Foreread, disk: &ModelledDisk) -> Command {
        let mut command = self.command(disk, &foreread.before_reporting(&[]));
        foreread.set_environment(&mut command);
        command
    }

    fn command_in(&self, testbed: &Testbed, directory: &Path, before: &[OsString]) -> Command {
        let mut words = before.to_vec();
        words.extend(self.words());
        let mut command = testbed.command(&words[0]);
        command.args(&words[1..]).current_dir(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        match &self.kind {
            Kind::Grep | Kind::Sqlite | Kind::Mapped(_) => {}
            Kind::Python(tree) => tree.set_environment(&mut command),
            Kind::Git => {
                // A refreshed index would be written, and change the reads of the next run.
                command.env("GIT_OPTIONAL_LOCKS", "0");
                without_settings(&mut command);
            }
        }
        command
    }

    fn words(&self) -> Vec<OsString> {
        match &self.kind {
            Kind::Grep => ["grep", "-rq", PATTERN, "."].map(OsString::from).to_vec(),
            Kind::Python(tree) => {
                let mut words = vec![tree.binary.clone().into_os_string()];
                words.extend(tree.import_arguments().map(OsString::from));
                words
            }
            Kind::Git => ["git", "status"].map(OsString::from).to_vec(),
            Kind::Sqlite => sqlite_words(Path::new("database"), LOOKUPS),
            Kind::Mapped(python) => mapped_words(python, Path::new("mapped")),
        }
    }

    /// A command that reads the files on the machine's own disk that the program needs besides
    /// [`Program::host_files`], such as the modules of an interpreter. It is the same command with
    /// a small file in `directory` in place of the file on the disk. `None` if the program needs no
    /// such files.
    ///
    /// # Errors
    /// The small file can't be written.
    pub fn warm_up(&self, directory: &Path) -> Result<Option<Command>, MeasureError> {
        let small = directory.join(self.name);
        let words = match &self.kind {
            Kind::Grep | Kind::Python(_) | Kind::Git => return Ok(None),
            // Not in the file that it opens, but it has read its settings and modules by then.
            Kind::Sqlite => ["sqlite3", ":memory:", "SELECT 1;"]
                .map(OsString::from)
                .to_vec(),
            Kind::Mapped(python) => {
                mapped_file(&small, 1 << 20)?;
                mapped_words(python, &small)
            }
        };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Some(command))
    }

    /// Files that it and `foreread` need from the machine's own disk.
    pub fn host_files(&self, foreread: &Foreread, disk: &ModelledDisk) -> HostFiles {
        let mut executables = vec![foreread.executable().to_owned()];
        match &self.kind {
            Kind::Grep | Kind::Git => executables.extend(executable(self.name)),
            Kind::Sqlite => executables.extend(executable("sqlite3")),
            Kind::Mapped(python) => executables.push(python.clone()),
            Kind::Python(tree) => {
                executables.push(tree.binary.clone());
                let modules = disk.root().join(&self.directory).join("lib");
                executables.extend(shared_objects(&modules));
            }
        }
        HostFiles::of(&executables).without(disk.root())
    }

    /// The exit code that is its good end: grep tells with 1 that it found nothing.
    pub fn good_end(&self) -> i32 {
        match self.kind {
            Kind::Grep => 1,
            Kind::Python(_) | Kind::Git | Kind::Sqlite | Kind::Mapped(_) => 0,
        }
    }
}

/// A tree of made-up small files.
///
/// # Errors
/// The disk is full.
pub fn made_up_tree(directory: &Path, files: usize) -> Result<(), MeasureError> {
    let bytes = files as u64 * workload::SMALL_FILES_BYTES / workload::SMALL_FILES as u64;
    Ok(workload::small_files(directory, files, bytes, SEED)?)
}

/// A repository of made-up files, for `git status`.
///
/// # Errors
/// git is missing or fails.
pub fn made_up_repository(directory: &Path, files: usize) -> Result<(), MeasureError> {
    Ok(workload::git_repository(directory, files, SEED)?)
}

/// Makes an existing tree the work tree of a new repository at `repository`, everything committed
/// and packed. Nothing but a small file `.git` is added to the tree.
///
/// # Errors
/// git is missing, or fails on a file of the tree.
pub fn repository_of(tree: &Path, repository: &Path) -> Result<(), MeasureError> {
    lacking_unless_there("git", "git")?;
    // Nothing is gained by packing objects tightly that are never read.
    let settings = [
        "core.compression=0",
        "pack.window=0",
        "core.autocrlf=false",
        "core.safecrlf=false",
        "gc.auto=0",
        "maintenance.auto=false",
        "user.name=Demo",
        "user.email=demo@localhost",
    ];
    let directory = repository.display().to_string();
    let steps: [&[&str]; 5] = [
        &["init", "--quiet", "--separate-git-dir", &directory],
        &["add", "--all", "--force"],
        &["commit", "--quiet", "--no-verify", "--message=Begin"],
        &["repack", "-a", "-d", "-q"],
        &["update-index", "--refresh"],
    ];
    for step in steps {
        let mut command = Command::new("git");
        command.arg("-C").arg(tree);
        for setting in settings {
            command.args(["-c", setting]);
        }
        without_settings(command.args(step));
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(MeasureError::system("start git"))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(MeasureError::Failed {
                command: format!("git {}", step[0]),
                status: format!(
                    "{} ({})",
                    output.status,
                    message.lines().next().unwrap_or("no message")
                ),
            });
        }
    }
    Ok(())
}

/// A table with an index whose order is another one than that of the rows.
fn database(path: &Path) -> Result<(), MeasureError> {
    let script = format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, key TEXT, value TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {DATABASE_ROWS})
         INSERT INTO t SELECT i, hex(i * 7919 % {DATABASE_ROWS}), printf('%0200d', i) FROM n;
         CREATE INDEX k ON t (key);"
    );
    let mut command = Command::new("sqlite3");
    command.arg(path).arg(script).stdin(Stdio::null());
    let output = command.output();
    let output = output.map_err(MeasureError::system("start sqlite3"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(MeasureError::Failed {
        command: "sqlite3".to_owned(),
        status: output.status.to_string(),
    })
}

/// Rows by index, here and there in the table.
fn sqlite_words(database: &Path, lookups: u64) -> Vec<OsString> {
    let query = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {lookups})
         SELECT count(value) FROM n JOIN t ON key = hex(i * 104729 % {DATABASE_ROWS});"
    );
    vec!["sqlite3".into(), database.into(), query.into()]
}

fn mapped_file(path: &Path, bytes: usize) -> Result<(), MeasureError> {
    let what = format!("write {}", path.display());
    fs::write(path, vec![b'x'; bytes]).map_err(MeasureError::system(what))
}

fn mapped_words(python: &Path, file: &Path) -> Vec<OsString> {
    vec![
        python.into(),
        "-c".into(),
        MAPPED_SCRIPT.into(),
        file.into(),
    ]
}

/// Not one that a version manager puts before it, which starts another process first.
fn system_python() -> Result<PathBuf, MeasureError> {
    let python = PathBuf::from("/usr/bin/python3");
    if python.is_file() {
        return Ok(python);
    }
    Err(Lacking::Program("/usr/bin/python3".to_owned(), "python3").into())
}

/// Nothing of the user's settings, and no other repository.
fn without_settings(command: &mut Command) {
    for variable in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        command.env(variable, "/dev/null");
    }
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
}

fn lacking_unless_there(program: &str, package: &'static str) -> Result<(), MeasureError> {
    match executable(program) {
        Some(_) => Ok(()),
        None => Err(Lacking::Program(program.to_owned(), package).into()),
    }
}

/// The shared objects below a directory.
fn shared_objects(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(path);
            } else if path.to_string_lossy().contains(".so") {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_nobody_has_is_lacking_and_names_its_package() {
        let error = lacking_unless_there("no-such-program", "no-package").unwrap_err();
        assert!(error.lacking().is_some());
        assert!(error.to_string().contains("no-package"), "{error}");
    }

    #[test]
    fn grep_ends_well_with_1_and_git_with_0() {
        let grep = Program {
            name: "grep",
            title: String::new(),
            directory: PathBuf::new(),
            kind: Kind::Grep,
        };
        let git = Program {
            kind: Kind::Git,
            ..grep.clone()
        };
        assert_eq!((grep.good_end(), git.good_end()), (1, 0));
    }

    #[test]
    fn a_tree_becomes_a_clean_repository() {
        if executable("git").is_none() {
            println!("skipped: git is not installed");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let tree = scratch.path().join("tree");
        made_up_tree(&tree, 30).unwrap();
        fs::write(tree.join(".gitignore"), "*.c\n").unwrap();
        repository_of(&tree, &scratch.path().join("repository")).unwrap();
        let mut command = Command::new("git");
        command.arg("-C").arg(&tree).args(["ls-files"]);
        without_settings(&mut command);
        let listed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(listed.lines().count(), 31, "{listed}");
        assert!(fs::metadata(tree.join(".git")).unwrap().is_file());
    }
}
