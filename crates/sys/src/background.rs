// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work in a process of its own: work that nobody waits for, and work for when this process ends.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::descriptors::close_all_but;
use crate::signals;

/// Does work in a process of its own that outlives this one; returns at once.
///
/// That process has a session of its own, the signal mask that this one was started with, and none
/// of its descriptors: whoever reads our output, waits for a lock that we inherited or counts the
/// tokens of a jobserver must not wait for the work. So it can tell nobody of an error.
///
/// # Errors
/// When no process can be made; then the work wasn't done.
pub fn in_background(work: impl FnOnce()) -> io::Result<()> {
    fork(&[], || {
        signals::hold().restore();
        work();
    })
}

/// Tells another process that this one has ended: by being dropped, or by the kernel if this one is
/// killed.
pub struct EndNotice(File);

impl EndNotice {
    /// Hands something to the work.
    ///
    /// # Errors
    /// When the other process is gone.
    pub fn tell(&mut self, what: &[u8]) -> io::Result<()> {
        self.0.write_all(what)
    }
}

/// Does work in a process of its own once this process has ended, in whatever way, or the notice
/// was dropped. The work gets all that the notice was told; if that is nothing, it isn't done.
///
/// That process has a session of its own, all signals blocked, no descriptors but those in `keep`,
/// and another name than ours: whoever kills us by our process group or our name must not kill it.
///
/// # Errors
/// When no process can be made.
pub fn at_our_end(
    name: &CStr,
    keep: &[BorrowedFd<'_>],
    work: impl FnOnce(&[u8]),
) -> io::Result<EndNotice> {
    let (ended, notice) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut kept: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    kept.push(ended.as_raw_fd());
    fork(&kept, || {
        // SAFETY: plain system calls; the set is filled before its use, and the name lives.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
            libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        }
        let mut told = Vec::new();
        // Ends with the last copy of the other end. Copies of this process close theirs.
        let read = File::from(ended).read_to_end(&mut told);
        if read.is_ok() && !told.is_empty() {
            work(&told);
        }
    })?;
    Ok(EndNotice(File::from(notice)))
}

/// Does work in a copy of this process, without its descriptors but for those in `keep`.
fn fork(keep: &[RawFd], work: impl FnOnce()) -> io::Result<()> {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    // SAFETY: fork copies the calling thread only. Threads of ours that are gone in the copy may
    // have held locks: glibc and musl make memory allocation usable again after fork, and our other
    // threads use neither standard streams nor any lock that `work` takes. The copy never returns
    // from here.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: plain system calls. No descriptor is used after this that was open before,
            // but those that are kept, which are above the standard streams.
            unsafe {
                libc::setsid();
                libc::chdir(c"/".as_ptr());
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                for standard in (0..3).filter(|standard| !keep.contains(standard)) {
                    libc::dup2(null, standard);
                }
                close_all_but(&keep);
            }
            work();
            // SAFETY: ends the copy without running what the original will run at its own end.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    fn wait_for(path: &Path) -> bool {
        let begun = Instant::now();
        while !path.exists() && begun.elapsed() < Duration::from_secs(60) {
            sleep(Duration::from_millis(5));
        }
        path.exists()
    }

    #[test]
    fn work_is_done_at_the_end_with_what_was_told_and_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let (done, undone) = (directory.path().join("done"), directory.path().join("not"));
        let kept = File::create(directory.path().join("kept")).expect("a file");
        let mut notice = at_our_end(c"test", &[kept.as_fd()], |told| {
            let written = (&kept).write_all(told);
            let _ = written.and_then(|()| fs::write(&done, ""));
        })
        .expect("a process");
        notice.tell(b"one ").expect("it listens");
        notice.tell(b"two").expect("it listens");
        // Nothing was told to this one.
        drop(at_our_end(c"test", &[], |_| drop(fs::write(&undone, ""))).expect("a process"));
        sleep(Duration::from_millis(50));
        assert!(!done.exists(), "not before the end");
        drop(notice);
        assert!(wait_for(&done));
        let text = fs::read(directory.path().join("kept")).expect("the file");
        assert_eq!(text, b"one two");
        assert!(!undone.exists());
    }
}
