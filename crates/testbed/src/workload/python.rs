// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Python interpreter with its standard library, so that it can be started from the modelled
//! disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::copy::copy_file;
use crate::error::{Lacking, TestbedError};
use crate::file_system::run;

/// Prints the paths to be copied, one per line: the interpreter, the pure and the compiled library,
/// and the directory and name of a shared libpython.
const WHERE: &str = "\
import os, sys, sysconfig as s
print(os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable))
print(s.get_path('stdlib', vars={'base': sys.base_prefix, 'installed_base': sys.base_prefix}))
print(s.get_config_var('DESTSHARED') or '')
print(s.get_config_var('LIBDIR') or '')
print(s.get_config_var('INSTSONAME') or '')
";

/// Parts of the library that no program imports, or that belong to other packages.
const LEFT_OUT: [&str; 7] = [
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "turtledemo",
    "ensurepip",
];

/// 60 modules of the standard library that every build of Python on Linux has.
const IMPORTS: [&str; 60] = [
    "argparse",
    "ast",
    "asyncio",
    "base64",
    "bisect",
    "calendar",
    "cmd",
    "code",
    "codecs",
    "collections",
    "concurrent.futures",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "email",
    "enum",
    "fileinput",
    "fnmatch",
    "fractions",
    "ftplib",
    "functools",
    "getopt",
    "gettext",
    "glob",
    "heapq",
    "html.parser",
    "http.client",
    "http.server",
    "imaplib",
    "inspect",
    "ipaddress",
    "json",
    "locale",
    "logging",
    "mailbox",
    "mimetypes",
    "multiprocessing",
    "optparse",
    "pathlib",
    "pickle",
    "platform",
    "poplib",
    "pprint",
    "random",
    "shutil",
    "smtplib",
    "statistics",
    "string",
    "subprocess",
    "tarfile",
    "tempfile",
    "unittest",
    "urllib.request",
    "zipfile",
];

/// A copied interpreter.
#[derive(Clone, Debug)]
pub struct PythonTree {
    home: PathBuf,
    /// The copied interpreter.
    pub binary: PathBuf,
    /// Files copied or compiled.
    pub files: usize,
}

impl PythonTree {
    /// Makes `command` run the copy with the copied library only.
    pub fn set_environment(&self, command: &mut Command) {
        command
            .env("PYTHONHOME", &self.home)
            .env("LD_LIBRARY_PATH", self.home.join("lib"));
        for variable in [
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PYTHONDONTWRITEBYTECODE",
            "VIRTUAL_ENV",
        ] {
            command.env_remove(variable);
        }
    }

    /// The arguments with which the interpreter imports 60 modules of the standard library.
    pub fn import_arguments(&self) -> [String; 3] {
        [
            "-S".to_owned(),
            "-c".to_owned(),
            format!("import {}", IMPORTS.join(", ")),
        ]
    }
}

/// Copies this machine's Python 3 and its standard library into `directory`, which must not exist,
/// with all modules compiled.
///
/// Libraries that the interpreter needs from other packages, libc among them, are not copied. Every
/// program of the machine shares them and has them in memory.
///
/// # Errors
/// There is no Python 3, or the copy cannot be written or does not start.
pub fn python_tree(directory: &Path) -> Result<PythonTree, TestbedError> {
    let found = find()?;
    let copying = |what: &Path| TestbedError::system(format!("copy {}", what.display()));
    let name = found.library.file_name().unwrap_or_default();
    let tree = PythonTree {
        home: directory.to_owned(),
        binary: directory.join("bin/python3"),
        files: 0,
    };
    let library = directory.join("lib").join(name);
    fs::create_dir_all(directory.join("bin")).map_err(copying(&found.binary))?;
    fs::create_dir_all(directory.join("lib")).map_err(copying(&found.binary))?;
    copy_file(&found.binary, &tree.binary).map_err(copying(&found.binary))?;
    copy_directory(&found.library, &library).map_err(copying(&found.library))?;
    if let Some(modules) = &found.compiled_modules {
        let to = library.join("lib-dynload");
        if !to.exists() {
            copy_directory(modules, &to).map_err(copying(modules))?;
        }
    }
    if let Some(shared) = &found.shared_library {
        let to = directory
            .join("lib")
            .join(shared.file_name().unwrap_or_default());
        copy_file(shared, &to).map_err(copying(shared))?;
    }
    compile(&tree, &library)?;
    let files = count_files(directory).map_err(copying(directory))?;
    Ok(PythonTree { files, ..tree })
}

/// The parts of the machine's Python.
struct Found {
    binary: PathBuf,
    library: PathBuf,
    compiled_modules: Option<PathBuf>,
    shared_library: Option<PathBuf>,
}

fn find() -> Result<Found, TestbedError> {
    let lacking = || Lacking::Program("python3".to_owned(), "python3");
    let output = Command::new("python3")
        .args(["-c", WHERE])
        .output()
        .map_err(|_| lacking())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    let [binary, library, modules, directory, name] = lines[..] else {
        return Err(lacking().into());
    };
    let present = |path: PathBuf| path.exists().then_some(path);
    let is_shared = name.contains(".so");
    Ok(Found {
        binary: binary.into(),
        library: library.into(),
        compiled_modules: (!modules.is_empty())
            .then(|| modules.into())
            .and_then(present),
        shared_library: is_shared
            .then(|| Path::new(directory).join(name))
            .and_then(present),
    })
}

/// Compiles the modules that have no compiled form yet, as an installation of Python does.
fn compile(tree: &PythonTree, library: &Path) -> Result<(), TestbedError> {
    let mut command = Command::new(&tree.binary);
    tree.set_environment(&mut command);
    // A few files of the library are wrong on purpose; the exit status says no more than that.
    let script = "import compileall, sys; compileall.compile_dir(sys.argv[1], quiet=2)";
    run(command.args(["-S", "-c", script]).arg(library))
}

fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    let mut entries: Vec<_> = fs::read_dir(from)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        // Follows links: distributions link single modules into place.
        let Ok(metadata) = fs::metadata(entry.path()) else {
            continue;
        };
        if metadata.is_dir() {
            let left_out = name
                .to_str()
                .is_some_and(|name| LEFT_OUT.contains(&name) || name.starts_with("config-"));
            if !left_out {
                copy_directory(&entry.path(), &to.join(name))?;
            }
        } else if metadata.is_file() {
            copy_file(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

fn count_files(directory: &Path) -> std::io::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() {
            count_files(&entry.path())?
        } else {
            1
        };
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_imports_everything_from_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("python");
        let tree = match python_tree(&directory) {
            Err(TestbedError::Lacking(lacking)) => {
                println!("skipped: {lacking}");
                return;
            }
            tree => tree.unwrap(),
        };
        let mut command = Command::new(&tree.binary);
        tree.set_environment(&mut command);
        let [flag, program_flag, program] = tree.import_arguments();
        let show = "; import sys; print(*[m.__file__ for m in list(sys.modules.values()) \
                    if getattr(m, '__file__', None)], sep='\\n')";
        let output = command
            .args([flag, program_flag, format!("{program}{show}")])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let files = String::from_utf8(output.stdout).unwrap();
        assert!(files.lines().count() > 100, "{files}");
        assert!(
            files
                .lines()
                .all(|file| Path::new(file).starts_with(&directory)),
            "{files}"
        );
    }
}
