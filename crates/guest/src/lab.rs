// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a guest: QEMU, kernels and an image, built by `tests/guest/lab.sh`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::GuestError;

/// One kernel that guests can boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The common name: `6.1`.
    pub name: String,
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// Whether every lab has it. Others are there once they were asked for by name.
    pub is_always: bool,
    folder: PathBuf,
    /// Names the folder with the driver of disks in virtual time.
    virtual_key: Option<String>,
    /// Names the folder with the kernel module.
    module_key: Option<String>,
}

impl Kernel {
    /// Its compressed image.
    #[must_use]
    pub fn vmlinuz(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    /// The archive that finds and mounts the root disk.
    pub(crate) fn initrd(&self) -> PathBuf {
        self.folder.join("initrd.cpio")
    }

    /// The same for disks in virtual time, if the lab was built for them.
    pub(crate) fn virtual_initrd(&self) -> Option<PathBuf> {
        let key = self.virtual_key.as_ref()?;
        Some(self.folder.join(format!("virtual-{key}/initrd.cpio")))
    }

    /// The driver of disks in virtual time, if the lab was built for them.
    #[must_use]
    pub fn disk_driver(&self) -> Option<PathBuf> {
        let key = self.virtual_key.as_ref()?;
        Some(self.folder.join(format!("virtual-{key}/foreread_disk.ko")))
    }

    /// The kernel module `foreread.ko`, if the lab was built with it.
    #[must_use]
    pub fn module(&self) -> Option<PathBuf> {
        let key = self.module_key.as_ref()?;
        Some(self.folder.join(format!("module-{key}/foreread.ko")))
    }

    /// Its type information, as in `/sys/kernel/btf/vmlinux`.
    #[must_use]
    pub fn btf(&self) -> PathBuf {
        self.folder.join("vmlinux.btf")
    }
}

/// A complete lab in the cache directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    folder: PathBuf,
    image: PathBuf,
    /// The image with many services, if the lab was built for virtual time.
    services: Option<PathBuf>,
    qemu: PathBuf,
    kernels: Vec<Kernel>,
}

impl Lab {
    /// Builds the missing parts. If no part is missing, it needs no network. Otherwise it takes up
    /// to three minutes and, for the root file system, needs root or sudo without a password.
    /// `asked` names kernels that the lab must have, too.
    ///
    /// # Errors
    /// [`GuestError::Lacking`] with the reason in one line, when it can't be built here.
    pub fn build(asked: &[String]) -> Result<Self, GuestError> {
        Self::built("build", asked)
    }

    /// The same with what guests in virtual time need besides: the driver of their disks. It is
    /// compiled for each kernel, in a root file system of its own, which takes a minute more. And
    /// the image with many services, which takes a few minutes.
    ///
    /// # Errors
    /// As [`Lab::build`].
    pub fn build_virtual(asked: &[String]) -> Result<Self, GuestError> {
        Self::built("virtual", asked)
    }

    fn built(action: &str, asked: &[String]) -> Result<Self, GuestError> {
        let mut arguments: Vec<&OsStr> = vec![action.as_ref()];
        arguments.extend(asked.iter().map(OsStr::new));
        Self::open(Path::new(script(&arguments, None)?.trim()))
    }

    /// As [`Lab::build`], with the kernel module of the source tree, compiled for each kernel.
    ///
    /// # Errors
    /// As [`Lab::build`].
    pub fn build_module() -> Result<Self, GuestError> {
        let said = script(&["module".as_ref()], None)?;
        let mut lines = said.lines();
        let mut lab = Self::open(Path::new(lines.next().unwrap_or("")))?;
        let key = lines.next();
        for kernel in &mut lab.kernels {
            kernel.module_key = key.map(str::to_owned);
        }
        Ok(lab)
    }

    /// The lab in `folder`, as `lab.sh` left it.
    fn open(folder: &Path) -> Result<Self, GuestError> {
        let path = folder.join("lab");
        let text = fs::read_to_string(&path).map_err(GuestError::at("read", &path))?;
        Self::parse(folder, &text).ok_or_else(|| {
            GuestError::Unexpected(format!(
                "{} is no description of a lab; remove it and build again",
                path.display()
            ))
        })
    }

    fn parse(folder: &Path, text: &str) -> Option<Self> {
        let (mut qemu, mut image, mut services) = (None, None, None);
        let mut kernels = Vec::<Kernel>::new();
        for line in text.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                // Without a slash it is a command of this machine.
                ["qemu", path] if path.contains('/') => qemu = Some(folder.join(path)),
                ["qemu", command] => qemu = Some(PathBuf::from(command)),
                ["image", path] => image = Some(folder.join(path)),
                ["services", path] => services = Some(folder.join(path)),
                ["kernel", name, release, when] => kernels.push(Kernel {
                    name: name.to_owned(),
                    release: release.to_owned(),
                    is_always: when == "always",
                    folder: folder.join("kernels").join(name),
                    virtual_key: None,
                    module_key: None,
                }),
                // It comes last.
                ["virtual", key] => {
                    for kernel in &mut kernels {
                        kernel.virtual_key = Some(key.to_owned());
                    }
                }
                _ => return None,
            }
        }
        Some(Self {
            folder: folder.to_owned(),
            image: image?,
            services,
            qemu: qemu?,
            kernels,
        })
    }

    /// The kernels, oldest first.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn kernel(&self, name: &str) -> Result<&Kernel, GuestError> {
        let known = || self.kernels.iter().map(|kernel| kernel.name.as_str());
        self.kernels
            .iter()
            .find(|kernel| kernel.name == name)
            .ok_or_else(|| GuestError::NoSuchKernel {
                asked: name.to_owned(),
                known: known().collect::<Vec<_>>().join(", "),
            })
    }

    /// The folder that everything lies in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The image of the root disk.
    #[must_use]
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The image of a root disk with many services.
    ///
    /// # Errors
    /// The lab was not built for virtual time.
    pub fn services_image(&self) -> Result<&Path, GuestError> {
        self.services.as_deref().ok_or_else(|| {
            GuestError::Unexpected("the lab has no image with many services".to_owned())
        })
    }

    /// The folder for images that tests make once.
    pub(crate) fn data_folder(&self) -> Result<PathBuf, GuestError> {
        let folder = self.folder.join("data");
        fs::create_dir_all(&folder).map_err(GuestError::at("make", &folder))?;
        Ok(folder)
    }

    pub(crate) fn qemu(&self) -> &Path {
        &self.qemu
    }

    /// Writes the image of the root disk anew, to `path`, to compare it with [`Lab::image`].
    ///
    /// # Errors
    /// It needs root.
    pub fn rebuild_image(&self, path: &Path) -> Result<(), GuestError> {
        script(&["image".as_ref(), path.as_ref()], Some(&self.folder)).map(drop)
    }
}

/// Copies a file, and leaves its holes.
pub(crate) fn copy_sparse(from: &Path, to: &Path) -> Result<(), GuestError> {
    let mut command = Command::new("cp");
    let done = command.arg("--sparse=always").arg(from).arg(to).output();
    let done = done.map_err(GuestError::at("copy", from))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(GuestError::Unexpected(
            String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        )),
    }
}

/// Writes an ext4 file system with the content of `folder` to `image`; sets the times of its files.
pub(crate) fn write_ext4(folder: &Path, image: &Path, size_mib: u64) -> Result<(), GuestError> {
    let size = size_mib.to_string();
    let arguments = [
        "ext4".as_ref(),
        folder.as_ref(),
        image.as_ref(),
        size.as_ref(),
    ];
    script(&arguments, None).map(drop)
}

/// Runs `lab.sh` and returns its output; its last line of complaint is the error.
fn script(arguments: &[&OsStr], lab: Option<&Path>) -> Result<String, GuestError> {
    let script = source_folder().join("lab.sh");
    let mut command = Command::new(&script);
    command.args(arguments).stdin(Stdio::null());
    if let Some(folder) = lab {
        command.env("FOREREAD_GUESTS", folder);
    }
    let done = command.output().map_err(GuestError::at("run", &script))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let reason = said.lines().rev().find(|line| line.starts_with("guests: "));
    let reason = reason.or(said.lines().last()).unwrap_or("lab.sh failed");
    Err(GuestError::Lacking(
        reason.trim_start_matches("guests: ").to_owned(),
    ))
}

/// Where the scripts and lists of the lab are in the source tree.
fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_image_qemu_and_kernels() {
        let text = "qemu qemu/run\nimage root-1.ext4\nkernel 6.1 6.1.0-56 always\n\
                    kernel 7.3 7.3.4 asked\n";
        let lab = Lab::parse(Path::new("/lab"), text).unwrap();
        assert_eq!(lab.image(), Path::new("/lab/root-1.ext4"));
        assert_eq!(lab.qemu(), Path::new("/lab/qemu/run"));
        assert_eq!(lab.kernel("7.3").unwrap().release, "7.3.4");
        assert!(!lab.kernel("7.3").unwrap().is_always);
        assert!(lab.kernel("6.1").unwrap().is_always);
        assert_eq!(
            lab.kernel("6.1").unwrap().vmlinuz(),
            Path::new("/lab/kernels/6.1/vmlinuz")
        );
        assert_eq!(lab.kernel("6.1").unwrap().disk_driver(), None);
        let lab = Lab::parse(Path::new("/lab"), &format!("{text}virtual 5e\n")).unwrap();
        assert_eq!(
            lab.kernel("6.1").unwrap().disk_driver().unwrap(),
            Path::new("/lab/kernels/6.1/virtual-5e/foreread_disk.ko")
        );
        let unknown = lab.kernel("5.4").unwrap_err().to_string();
        assert_eq!(unknown, "no kernel 5.4; the lab has 6.1, 7.3");
        assert_eq!(Lab::parse(Path::new("/lab"), "qemu\n"), None);
        assert_eq!(Lab::parse(Path::new("/lab"), "qemu q\n"), None);
    }
}
