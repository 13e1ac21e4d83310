// SPDX-License-Identifier: MIT OR Apache-2.0
//! An installed kernel, and what a build of the module for it lacks.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{ModuleError, NAME, tested, tools};

/// What the kernel must have been built with: the module takes over functions by ftrace.
const OPTIONS: [&str; 3] = [
    "CONFIG_MODULES",
    "CONFIG_FUNCTION_TRACER",
    "CONFIG_DYNAMIC_FTRACE",
];
/// It must have one of these: handlers may change where a function goes on.
const OPTIONS_ANY: [&str; 2] = [
    "CONFIG_DYNAMIC_FTRACE_WITH_REGS",
    "CONFIG_DYNAMIC_FTRACE_WITH_ARGS",
];

/// Something that a build needs and that isn't there; with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Headers of this release.
    Headers(String),
    /// A tool, and the package that has it in Debian.
    Tool(String, String),
    /// The kernel was built without this option.
    Option(String),
    /// Which options the kernel was built with can't be read there.
    Configuration(PathBuf),
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Headers(release) => write!(
                formatter,
                "headers of {release} are missing (Debian: apt install linux-headers-{release})"
            ),
            Self::Tool(tool, package) => {
                write!(
                    formatter,
                    "{tool} is missing (Debian: apt install {package})"
                )
            }
            Self::Option(option) => {
                write!(
                    formatter,
                    "the kernel has no {option}, which the module needs"
                )
            }
            Self::Configuration(path) => {
                write!(formatter, "{} can't be read", path.display())
            }
        }
    }
}

/// A kernel, by its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    root: PathBuf,
    release: String,
}

impl Kernel {
    /// The one that runs.
    ///
    /// # Errors
    ///
    /// `/proc` isn't mounted.
    pub fn running(root: &Path) -> Result<Self, ModuleError> {
        let path = root.join("proc/sys/kernel/osrelease");
        let release = fs::read_to_string(&path).map_err(ModuleError::file("read", &path))?;
        Self::named(root, release.trim())
    }

    /// The one of this release.
    ///
    /// # Errors
    ///
    /// The text leads to another directory than one of `/lib/modules`.
    pub fn named(root: &Path, release: &str) -> Result<Self, ModuleError> {
        let is_release = release.starts_with(|c: char| c.is_ascii_digit())
            && release
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._+~-".contains(c));
        if !is_release {
            return Err(ModuleError::Release(release.escape_debug().to_string()));
        }
        Ok(Self {
            root: root.to_owned(),
            release: release.to_owned(),
        })
    }

    /// As `uname -r` prints it.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Whether the module was tested on its series.
    #[must_use]
    pub fn is_tested(&self) -> bool {
        tested::has(&self.release)
    }

    /// The root directory of its system.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether there is a directory for its modules.
    #[must_use]
    pub fn is_installed(&self) -> bool {
        self.modules().is_dir()
    }

    /// Where its modules are.
    pub(crate) fn modules(&self) -> PathBuf {
        self.root.join("lib/modules").join(&self.release)
    }

    /// What modules for it are built with.
    pub(crate) fn headers(&self) -> PathBuf {
        self.modules().join("build")
    }

    /// The module that modprobe finds for it.
    #[must_use]
    pub fn module(&self) -> Option<PathBuf> {
        let index = fs::read_to_string(self.modules().join("modules.dep")).ok()?;
        let prefix = format!("{NAME}.ko");
        let found = index.lines().find_map(|line| {
            let (path, _) = line.split_once(':')?;
            let name = Path::new(path).file_name()?.to_str()?;
            // It may be compressed: `.ko.xz`.
            let rest = name.strip_prefix(&prefix)?;
            (rest.is_empty() || rest.starts_with('.')).then_some(path)
        })?;
        Some(self.modules().join(found))
    }

    /// What a build lacks; nothing if all is there.
    #[must_use]
    pub fn lacks(&self) -> Vec<Lack> {
        let mut lacks = Vec::new();
        let mut tool = |name: &str, package: &str| {
            if !tools::has(name) {
                lacks.push(Lack::Tool(name.to_owned(), package.to_owned()));
            }
        };
        tool("make", "make");
        tool("depmod", "kmod");
        if !self.headers().join("Makefile").is_file() {
            lacks.push(Lack::Headers(self.release.clone()));
            return lacks;
        }
        let path = self.headers().join("include/config/auto.conf");
        let Ok(options) = fs::read_to_string(&path) else {
            lacks.push(Lack::Configuration(path));
            return lacks;
        };
        if let Some(compiler) = compiler(&options)
            && !tools::has(&compiler)
            && !tools::has("gcc")
        {
            lacks.push(Lack::Tool(compiler.clone(), package_of(&compiler)));
        }
        lacks.extend(lacking_options(&options).map(Lack::Option));
        lacks
    }
}

fn is_set(options: &str, option: &str) -> bool {
    options
        .lines()
        .any(|line| line.strip_prefix(option) == Some("=y"))
}

fn lacking_options(options: &str) -> impl Iterator<Item = String> {
    let lacks = OPTIONS.iter().filter(|option| !is_set(options, option));
    let has_any = OPTIONS_ANY.iter().any(|option| is_set(options, option));
    let any = (!has_any).then(|| OPTIONS_ANY.join(" or "));
    lacks.map(|option| (*option).to_owned()).chain(any)
}

/// The compiler that the kernel was built with.
fn compiler(options: &str) -> Option<String> {
    let text = options
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT="))?;
    let name = text.trim_matches('"').split_whitespace().next()?;
    Some(name.to_owned())
}

/// Debian's package of a compiler: `x86_64-linux-gnu-gcc-14` is in `gcc-14`.
fn package_of(compiler: &str) -> String {
    match compiler.find("gcc") {
        Some(at) => compiler[at..].to_owned(),
        None => compiler.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(root: &Path, release: &str) -> Kernel {
        Kernel::named(root, release).expect("a release")
    }

    #[test]
    fn only_tested_series_are_known_and_releases_lead_nowhere_else() {
        let root = Path::new("/");
        for (release, is_tested) in [
            ("6.1.0-56-amd64", true),
            ("6.12.118+deb13-cloud-amd64", true),
            ("7.3.4", true),
            ("6.18.0", false),
            ("6.10.1", false),
            ("61.2", false),
            ("6", false),
        ] {
            assert_eq!(kernel(root, release).is_tested(), is_tested, "{release}");
        }
        for wrong in ["", "../x", "6.1/..", ".", "a", "6.1 x", "6.1\n"] {
            assert!(Kernel::named(root, wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn each_lack_is_found_with_its_remedy() {
        let root = tempfile::tempdir().expect("a directory");
        let kernel = kernel(root.path(), "6.12.1-x");
        let lacks = kernel.lacks();
        let headers = Lack::Headers("6.12.1-x".to_owned());
        assert!(lacks.contains(&headers), "{lacks:?}");
        assert!(headers.to_string().contains("linux-headers-6.12.1-x"));

        let build = root.path().join("lib/modules/6.12.1-x/build");
        fs::create_dir_all(build.join("include/config")).expect("a directory");
        fs::write(build.join("Makefile"), "").expect("a file");
        let conf = build.join("include/config/auto.conf");
        assert!(kernel.lacks().contains(&Lack::Configuration(conf.clone())));
        fs::write(&conf, "CONFIG_MODULES=y\nCONFIG_FUNCTION_TRACER=y\n").expect("a file");
        let lacks = kernel.lacks();
        let option = |name: &str| Lack::Option(name.to_owned());
        assert!(lacks.contains(&option("CONFIG_DYNAMIC_FTRACE")));
        assert!(!lacks.contains(&option("CONFIG_MODULES")));
        let any = "CONFIG_DYNAMIC_FTRACE_WITH_REGS or CONFIG_DYNAMIC_FTRACE_WITH_ARGS";
        assert!(lacks.contains(&option(any)), "{lacks:?}");
    }

    #[test]
    fn the_module_is_the_one_that_modprobe_finds() {
        let root = tempfile::tempdir().expect("a directory");
        let kernel = kernel(root.path(), "6.1.2");
        assert_eq!(kernel.module(), None);
        let modules = root.path().join("lib/modules/6.1.2");
        fs::create_dir_all(&modules).expect("a directory");
        let index = "kernel/fs/foreread.kox:\nkernel/a.ko: kernel/updates/foreread.ko\n\
                     updates/dkms/foreread.ko.xz:\n";
        fs::write(modules.join("modules.dep"), index).expect("a file");
        let found = modules.join("updates/dkms/foreread.ko.xz");
        assert_eq!(kernel.module(), Some(found));
    }

    #[test]
    fn compilers_are_named_as_the_package_that_has_them() {
        let conf = "CONFIG_CC_VERSION_TEXT=\"x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0\"";
        let compiler = compiler(conf).expect("it is named");
        assert_eq!(compiler, "x86_64-linux-gnu-gcc-14");
        assert_eq!(package_of(&compiler), "gcc-14");
        assert_eq!(package_of("clang"), "clang");
    }
}
